package etcdcluster

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/controllersim"
)

func TestAMemberIsDrainedWhileItIsDefragmented(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	s.Fragment()
	op := s.NewOperator()
	recorder := events.NewFakeRecorder(1000)
	op.Events = recorder
	for range 30 {
		if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil {
			t.Fatal(err)
		}
	}
	s.Tidy()
	var told []string
	for len(recorder.Events) > 0 {
		if e := <-recorder.Events; strings.Contains(e, "efragment") && !strings.Contains(e, " Reconciling ") {
			told = append(told, e)
		}
	}
	text := strings.Join(told, "\n")
	for _, want := range []string{"288Mi of 288Mi is free", "orders-1 is defragmented", "defragmented orders-2 in 0s", "288Mi to 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("no event says %q:\n%s", want, text)
		}
	}
	if s.Kinds["patch *v1.Pod"] != 6 {
		t.Errorf("the labels of pods were written %d times", s.Kinds["patch *v1.Pod"])
	}
}

func TestADrainedMemberServesAgainWhileTheClusterIsPaused(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	s.Fragment()
	for range 30 {
		if s.Kinds["patch *v1.Pod"] > 0 {
			break
		}
		s.Turn()
	}
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = new(true) })
	clear(s.Kinds)
	s.Turn()
	for i := range 3 {
		pod := &corev1.Pod{}
		if err := s.API.Get(t.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.Pod(s.Name.Name, i)}, pod); err != nil {
			t.Fatal(err)
		}
		if pod.Labels[v1alpha1.LabelServing] != "true" {
			t.Errorf("%s is left out of the client Service: %s", pod.Name, s.Cluster().Status.Activity)
		}
	}
	for range 3 {
		s.Turn()
	}
	if delete(s.Kinds, "status"); s.Kinds["patch *v1.Pod"] != 1 || len(s.Kinds) != 1 {
		t.Errorf("beside the label of one pod and the status, written is %v", s.Kinds)
	}
}

func TestAMemberThatDiffersFromTheMajorityIsReplaced(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	s.Put(3)
	odd := s.Procs["orders-1"]
	was := odd.Disk.MemberID
	if err := s.Net.RaiseCorrupt(odd, true); err != nil {
		t.Fatal(err)
	}
	s.UntilNotReady()
	s.UntilReady()
	if now := s.Procs["orders-1"].Disk; now.MemberID == was || now.Differs {
		t.Errorf("orders-1 is still member %x with its own data", was)
	}
}

func TestWorkElsewhereIsCounted(t *testing.T) {
	u, now := newMaintenance(0, nil), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for i, end := range []time.Time{{}, {}, now} {
		u.with(types.UID(fmt.Sprint(i)), now, func(c *clusterMaintenance) {
			c.defragmentations["pod"] = model.Defragmentation{Begin: now, End: end}
		})
	}
	if a, b := u.elsewhere("0"), u.elsewhere("2"); a != 1 || b != 2 {
		t.Errorf("%d and %d", a, b)
	}
	u.with("2", now.Add(2*time.Hour), func(*clusterMaintenance) {})
	if n := len(maps.Collect(u.clusters.All())); n != 1 {
		t.Errorf("%d clusters are remembered", n)
	}
}
