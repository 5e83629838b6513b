package rediscluster

import (
	"context"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// Clients that panic stand for a client library that a hostile reply makes panic.
type panickingServer struct{ steps.Client }

func (panickingServer) Read(context.Context) (*model.Node, error) { panic("hostile reply") }

func (panickingServer) Forget(context.Context, string) error { panic("hostile reply") }

func (panickingServer) SlotStats(context.Context, slots.Set) (map[int]model.SlotStat, error) {
	panic("hostile reply")
}

func TestAPanicOverARedisServerIsTheErrorOfThatServerAlone(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	kind := New(ownedtest.New(s.API))
	kind.Connect = func(o redisclient.Options) steps.Client {
		if strings.HasPrefix(o.TLS.ServerName, "carts-0-0.") {
			return panickingServer{s.Connect(o)}
		}
		return s.Connect(o)
	}
	seen, err := kind.Observe(t.Context(), s.Cluster())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range seen.Pods {
		if hostile := p.Name == "carts-0-0"; hostile != (p.Error == "panic: hostile reply") || hostile != (p.Node == nil) {
			t.Errorf("%s: error %q, node %v", p.Name, p.Error, p.Node)
		}
	}
	asked, err := kind.credentials(t.Context(), s.Cluster())
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
	forget := func(ctx context.Context, c steps.Client) error { return c.Forget(ctx, "none") }
	err = kind.Command(t.Context(), s.Cluster(), []steps.Call{{Pod: "carts-0-0", Do: forget}, {Pod: "carts-0-1", Do: forget}})
	if err == nil || !strings.Contains(err.Error(), "panic: hostile reply") {
		t.Errorf("command: error %v", err)
	}
}
