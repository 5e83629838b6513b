package controllers

import (
	"errors"
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
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
)

// fragmentedAndFull makes work for every rule of maintenance.
func (s *stage) fragmentedAndFull() {
	s.t.Helper()
	s.untilReady()
	s.fragment()
	s.untilReady()
	s.fill()
	s.restart()
	for range 60 {
		if len(s.procs["orders-0"].Alarms()) == 0 {
			break
		}
		s.round()
	}
	s.untilReady()
	s.tidy()
}

// stageUnit is what a write takes in bytes where the quota of 320 MiB, that of a volume of 1 GiB, holds ten.
const stageUnit = 32 << 20

// put makes writes of a user until there are so many, or the quota is reached.
func (s *stage) put(n int) {
	s.t.Helper()
	s.net.Unit, s.net.Quota = stageUnit, 10
	for i := range n {
		err := s.net.Put(s.procs["orders-0"], s.password(), fmt.Sprint("value-", i))
		if errors.Is(err, etcdfake.ErrNoSpace) {
			return
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) password() string {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.AuthSecret(s.name.Name)}, secret); err != nil {
		s.t.Fatal(err)
	}
	return string(secret.Data[PasswordKey])
}

// fragment leaves databases that are almost empty in large files, as after a compaction by etcd.
func (s *stage) fragment() {
	s.t.Helper()
	s.put(9)
	s.deleteAll()
	c := &etcdfake.Client{Network: s.net, Process: s.procs["orders-0"], TLS: true, Root: true}
	v, err := c.Status(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.Compact(s.t.Context(), v.Revision); err != nil {
		s.t.Fatal(err)
	}
}

// fill leaves databases that are full of history.
func (s *stage) fill() {
	s.t.Helper()
	s.put(1000)
	s.deleteAll()
}

func (s *stage) deleteAll() {
	s.t.Helper()
	if err := s.net.Delete(s.procs["orders-0"], s.password()); err != nil {
		s.t.Fatal(err)
	}
}

// tidy checks that nothing of the maintenance is left: small databases, no alarm, and every pod in the client Service.
func (s *stage) tidy() {
	s.t.Helper()
	for name, p := range s.procs {
		if p.Disk.Size() > 1 || len(p.Alarms()) > 0 {
			s.t.Errorf("%s has %d writes and the alarms %v", name, p.Disk.Size(), p.Alarms())
		}
		pod := &corev1.Pod{}
		if err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: name}, pod); err != nil {
			s.t.Fatal(err)
		}
		if pod.Labels[v1alpha1.LabelServing] != "true" {
			s.t.Errorf("%s is left out of the client Service", name)
		}
	}
}

func TestAMemberIsDrainedWhileItIsDefragmented(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	s.fragment()
	op := s.newOperator()
	recorder := events.NewFakeRecorder(1000)
	op.Events = recorder
	for range 30 {
		if _, err := op.Reconcile(t.Context(), s.cluster()); err != nil {
			t.Fatal(err)
		}
	}
	s.tidy()
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
	if s.kinds["patch *v1.Pod"] != 6 {
		t.Errorf("the labels of pods were written %d times", s.kinds["patch *v1.Pod"])
	}
}

func TestADrainedMemberServesAgainWhileTheClusterIsPaused(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	s.fragment()
	for range 30 {
		if s.kinds["patch *v1.Pod"] > 0 {
			break
		}
		s.turn()
	}
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = new(true) })
	clear(s.kinds)
	s.turn()
	for i := range 3 {
		pod := &corev1.Pod{}
		if err := s.api.Get(t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.Pod(s.name.Name, i)}, pod); err != nil {
			t.Fatal(err)
		}
		if pod.Labels[v1alpha1.LabelServing] != "true" {
			t.Errorf("%s is left out of the client Service: %s", pod.Name, s.cluster().Status.Activity)
		}
	}
	for range 3 {
		s.turn()
	}
	if delete(s.kinds, "status"); s.kinds["patch *v1.Pod"] != 1 || len(s.kinds) != 1 {
		t.Errorf("beside the label of one pod and the status, written is %v", s.kinds)
	}
}

func TestAMemberThatDiffersFromTheMajorityIsReplaced(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	s.put(3)
	odd := s.procs["orders-1"]
	was := odd.Disk.MemberID
	if err := s.net.RaiseCorrupt(odd, true); err != nil {
		t.Fatal(err)
	}
	s.untilNotReady()
	s.untilReady()
	if now := s.procs["orders-1"].Disk; now.MemberID == was || now.Differs {
		t.Errorf("orders-1 is still member %x with its own data", was)
	}
}

func TestWorkElsewhereIsCounted(t *testing.T) {
	u, now := newUpkeep(0, nil), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for i, end := range []time.Time{{}, {}, now} {
		u.with(types.UID(fmt.Sprint(i)), now, func(c *clusterUpkeep) {
			c.defragmentations["pod"] = etcd.Defragmentation{Begin: now, End: end}
		})
	}
	if a, b := u.elsewhere("0"), u.elsewhere("2"); a != 1 || b != 2 {
		t.Errorf("%d and %d", a, b)
	}
	u.with("2", now.Add(2*time.Hour), func(*clusterUpkeep) {})
	if n := len(maps.Collect(u.clusters.All())); n != 1 {
		t.Errorf("%d clusters are remembered", n)
	}
}
