package etcdcluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/internal/goroutine"
	"github.com/quorate/quorate/test/controllersim"
)

type panickingMember struct{ model.Client }

type panickingDefragmentation struct{ MemberClient }

func (panickingMember) Status(context.Context) (model.Status, error) { panic("hostile reply") }

func (panickingMember) HashKV(context.Context, int64) (model.Hash, error) { panic("hostile reply") }

func (panickingDefragmentation) Defragment(context.Context) error { panic("hostile reply") }

func TestAPanicOverAnEtcdMemberIsTheErrorOfThatMemberAlone(t *testing.T) {
	t.Parallel()
	k := &Reconciler{Client: &owned.Client{Now: time.Now}}
	clients := map[string]model.Client{"a": panickingMember{}, "b": busyMember{}}
	pods := []model.Pod{{Name: "a"}, {Name: "b"}}
	k.askAll(t.Context(), pods, clients, nil, time.Minute)
	if pods[0].Status != nil || pods[0].Unreachable == nil || pods[0].Unreachable.Error() != "panic: hostile reply" {
		t.Errorf("the hostile member: %+v", pods[0])
	}
	if pods[1].Status == nil || pods[1].Unreachable != nil {
		t.Errorf("the other member: %+v", pods[1])
	}
	pods[0].Status = &model.Status{}
	if hashes := hashAll(t.Context(), pods[:1], clients, 1); len(hashes) != 0 {
		t.Errorf("hashes %v", hashes)
	}
}

func TestADefragmentationThatPanicsEndsWithThatError(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	kind := s.NewOperator().Kind.(*Reconciler)
	connect := kind.Connect
	kind.Connect = func(cfg etcdclient.Config) MemberClient {
		return panickingDefragmentation{connect(cfg)}
	}
	ended := make(chan struct{})
	kind.maintenance.spawn = func(f func() error, end func(error)) {
		newMaintenance(0, goroutine.Go).spawn(f, func(err error) {
			end(err)
			close(ended)
		})
	}
	o := s.Cluster()
	pod := &corev1.Pod{}
	if err := s.API.Get(t.Context(), client.ObjectKey{Namespace: o.Namespace, Name: "orders-0"}, pod); err != nil {
		t.Fatal(err)
	}
	if err := kind.defragment(t.Context(), o, steps.Defragment{Pod: pod.Name}); err != nil {
		t.Fatal(err)
	}
	<-ended
	var d model.Defragmentation
	kind.maintenance.with(o.UID, kind.Now(), func(u *clusterMaintenance) { d = u.defragmentations[string(pod.UID)] })
	if d.Err == nil || d.Err.Error() != "panic: hostile reply" || d.End.IsZero() {
		t.Errorf("the defragmentation: %+v", d)
	}
}
