package rediscluster

import (
	"context"
	"testing"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/fakeapi"
)

// How far the servers of Redis are with another authority is asked of themselves: no version of an object tells.
func TestAReplacementOfTheAuthorityIsLookedAtEachTime(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	o := s.Cluster()
	ca, _, err := kind.Keypair(t.Context(), o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		t.Fatal(err)
	}
	var all owned.Snapshots
	var servers owned.Servers
	ctx, end := all.Begin(t.Context(), o)
	err = owned.SkipIfUnchanged(ctx, func(ctx context.Context) (err error) {
		servers, err = kind.trusting(ctx, o, clustertls.Fingerprint(ca))
		return err
	})
	end(true)
	if err != nil || !servers.InForce || all.Unchanged(t.Context(), o) {
		t.Errorf("%+v, %v, unchanged %t", servers, err, all.Unchanged(t.Context(), o))
	}
}
