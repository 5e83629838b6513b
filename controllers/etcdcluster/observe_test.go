package etcdcluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/controllersim"
)

// busyMember takes its time to let somebody in.
type busyMember struct {
	model.Client // Nothing else is asked.
	takes        time.Duration
}

func (m busyMember) Status(ctx context.Context) (model.Status, error) {
	select {
	case <-ctx.Done():
		return model.Status{}, ctx.Err()
	case <-time.After(m.takes):
		return model.Status{MemberID: 1}, nil
	}
}

// TestMembersThatAreAllSlowAreAskedOnceMore: nobody is told that a cluster is gone because logging in to its members takes long.
func TestMembersThatAreAllSlowAreAskedOnceMore(t *testing.T) {
	t.Parallel()
	k := &Reconciler{Client: &owned.Client{Now: time.Now}}
	clients := map[string]model.Client{"a": busyMember{takes: 100 * time.Millisecond}, "b": busyMember{takes: time.Hour}}
	pods := []model.Pod{{Name: "a", Ready: true}, {Name: "b", Ready: true}, {Name: "c", Ready: true}} // The last one does not run.
	k.askAll(t.Context(), pods, clients, nil, time.Millisecond)
	if !allSlow(pods) || pods[0].Unreachable == nil || pods[0].Took <= 0 {
		t.Fatalf("after the first time: %+v", pods)
	}
	k.askAll(t.Context(), pods, clients, nil, 2*time.Second)
	if pods[0].Status == nil || pods[0].Unreachable != nil || pods[1].Status != nil || pods[2].Unreachable != nil {
		t.Errorf("after the second time: %+v", pods)
	}
	if allSlow(pods) {
		t.Error("one has answered, and all are asked once more")
	}
	pods[0].Status, pods[1].Took = nil, 0 // It was refused at once.
	if pods[0].Took = 0; allSlow(pods) {
		t.Error("nobody was late")
	}
	pods[0].Took, pods[0].Unreachable, pods[0].Ready = time.Second, context.DeadlineExceeded, false
	if allSlow(pods) {
		t.Error("nobody is ready, and all are asked once more")
	}
}

// TestAMemberWithoutALeaderTellsTheVersionOfTheCluster: no quorum is needed to know that an upgrade has not come to its end.
func TestAMemberWithoutALeaderTellsTheVersionOfTheCluster(t *testing.T) {
	t.Parallel()
	s := newStage(t, controllersim.Persistent())
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
	s.UntilReady()
	was, err := model.ParseVersion(s.Cluster().Status.CurrentVersion)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"orders-1", "orders-2"} {
		s.Net.Stop(s.Procs[name])
	}
	config := &corev1.ConfigMap{}
	s.Must(s.API.Get(t.Context(), client.ObjectKey{Namespace: s.Name.Namespace, Name: cluster.ConfigName(s.Name.Name)}, config))
	config.Data["version"] = model.Version{Major: was.Major, Minor: was.Minor + 1}.String()
	s.Must(s.API.Update(t.Context(), config))
	state, err := s.NewOperator().Kind.Observe(t.Context(), s.Cluster())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range state.Pods {
		if (p.Status != nil) != (p.Name == "orders-0") || (p.Status != nil && p.Status.Leader != 0) {
			t.Errorf("%s: %+v", p.Name, p.Status)
		}
	}
	if state.ClusterVersion.Minor != was.Minor {
		t.Errorf("the members have agreed on %s, and it is taken for %s", was, state.ClusterVersion)
	}
}
