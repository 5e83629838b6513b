package controllers

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/goroutine"
)

// Clients that panic stand for a client library that a hostile reply makes panic.
type panickingServer struct{ redis.Client }

type panickingMember struct{ etcd.Client }

type panickingDefragmentation struct{ memberClient }

func (panickingServer) Read(context.Context) (*redis.Node, error) { panic("hostile reply") }

func (panickingServer) Forget(context.Context, string) error { panic("hostile reply") }

func (panickingServer) SlotStats(context.Context, redis.Slots) (map[int]redis.SlotStat, error) {
	panic("hostile reply")
}

func (panickingMember) Status(context.Context) (etcd.View, error) { panic("hostile reply") }

func (panickingMember) HashKV(context.Context, int64) (etcd.Hash, error) { panic("hostile reply") }

func (panickingDefragmentation) Defragment(context.Context) error { panic("hostile reply") }

func TestAPanicOverARedisServerIsTheErrorOfThatServerAlone(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	kind := NewRedisKind(newChildren(s.api))
	kind.Connect = func(o redisclient.Options) redis.Client {
		if strings.HasPrefix(o.TLS.ServerName, "carts-0-0.") {
			return panickingServer{s.connect(o)}
		}
		return s.connect(o)
	}
	seen, err := kind.Observe(t.Context(), s.cluster())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range seen.Pods {
		if hostile := p.Name == "carts-0-0"; hostile != (p.Error == "panic: hostile reply") || hostile != (p.Node == nil) {
			t.Errorf("%s: error %q, node %v", p.Name, p.Error, p.Node)
		}
	}
	asked, err := kind.credentials(t.Context(), s.cluster())
	if err != nil {
		t.Fatal(err)
	}
	seen.Pods[0].Node = seen.Pods[1].Node // Of a primary or not: it has to be asked.
	for _, p := range seen.Pods {
		if p.Node != nil && len(p.Node.Self().Slots) > 0 {
			seen.Pods[0].Node = p.Node
		}
	}
	if _, whole := kind.sample(t.Context(), asked, &seen); whole {
		t.Error("the slot statistics count as complete without those of carts-0-0")
	}
	forget := func(ctx context.Context, c redis.Client) error { return c.Forget(ctx, "none") }
	err = kind.command(t.Context(), s.cluster(), []redis.Call{{Pod: "carts-0-0", Do: forget}, {Pod: "carts-0-1", Do: forget}})
	if err == nil || !strings.Contains(err.Error(), "panic: hostile reply") {
		t.Errorf("command: error %v", err)
	}
}

func TestAPanicOverAnEtcdMemberIsTheErrorOfThatMemberAlone(t *testing.T) {
	t.Parallel()
	k := &EtcdKind{Children: &Children{Now: time.Now}}
	clients := map[string]etcd.Client{"a": panickingMember{}, "b": busyMember{}}
	pods := []etcd.Pod{{Name: "a"}, {Name: "b"}}
	k.askAll(t.Context(), pods, clients, nil, time.Minute)
	if pods[0].View != nil || pods[0].Unreachable == nil || pods[0].Unreachable.Error() != "panic: hostile reply" {
		t.Errorf("the hostile member: %+v", pods[0])
	}
	if pods[1].View == nil || pods[1].Unreachable != nil {
		t.Errorf("the other member: %+v", pods[1])
	}
	pods[0].View = &etcd.View{}
	if hashes := hashAll(t.Context(), pods[:1], clients, 1); len(hashes) != 0 {
		t.Errorf("hashes %v", hashes)
	}
}

func TestADefragmentationThatPanicsEndsWithThatError(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	kind := s.newOperator().Kind.(*EtcdKind)
	connect := kind.Connect
	kind.Connect = func(cfg etcdclient.Config) memberClient {
		return panickingDefragmentation{connect(cfg)}
	}
	ended := make(chan struct{})
	kind.upkeep.spawn = func(f func() error, end func(error)) {
		newUpkeep(0, goroutine.Go).spawn(f, func(err error) {
			end(err)
			close(ended)
		})
	}
	o := s.cluster()
	pod := &corev1.Pod{}
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: o.Namespace, Name: "orders-0"}, pod); err != nil {
		t.Fatal(err)
	}
	if err := kind.defragment(t.Context(), o, etcd.Defragment{Pod: pod.Name}); err != nil {
		t.Fatal(err)
	}
	<-ended
	var d etcd.Defragmentation
	kind.upkeep.with(o.UID, kind.Now(), func(u *clusterUpkeep) { d = u.defragmentations[string(pod.UID)] })
	if d.Err == nil || d.Err.Error() != "panic: hostile reply" || d.End.IsZero() {
		t.Errorf("the defragmentation: %+v", d)
	}
}
