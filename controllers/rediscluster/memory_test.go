package rediscluster

import (
	"crypto/tls"
	"maps"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/anomalies"
	"github.com/quorate/quorate/internal/ttlmap"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestWhatIsKnownOfAClusterIsForgottenWithIt(t *testing.T) {
	kind := New(ownedtest.New(fakeapi.New(t)))
	now := kind.Now()
	kind.Now = func() time.Time { return now }
	gone, stays := fakeapi.RedisCluster(), fakeapi.RedisCluster()
	stays.UID = "u-2"
	for _, o := range []*v1alpha1.RedisCluster{gone, stays} {
		kind.memory(o).unused.Store("s-1", now)
	}
	remembered := func() map[types.UID]*memory { return maps.Collect(kind.memories.All()) }
	for range 3 {
		now = now.Add(time.Hour / 2)
		if _, known := kind.memory(stays).unused.Load("s-1"); !known {
			t.Fatal("the other cluster was forgotten")
		}
	}
	if len(remembered()) != 1 || remembered()[stays.UID] == nil {
		t.Errorf("remembered: %v", remembered())
	}
	if _, known := kind.memory(gone).unused.Load("s-1"); known {
		t.Error("a cluster is remembered that is gone")
	}
}

// Users and autoscalers read the servers of a cluster as well, at the same time as its own loop.
func TestAReadForAnotherResourceChangesNoMemory(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	c := s.Cluster()
	untouched := func() bool { return reflect.DeepEqual(&kind.memory(c).vigil, &anomalies.Detector{}) }
	kind.memories = ttlmap.Map[types.UID, memory]{New: newMemory}
	if _, err := kind.Read(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if !untouched() {
		t.Error("a read for a user counts as an observation of the cluster")
	}
	s.Pass()
	if untouched() {
		t.Error("the loop of the cluster remembers nothing")
	}
}

// Servers that are met again go on with the session that they had, as long as the same authority vouches for them.
func TestServersAreRememberedWithTheirAuthority(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	o := s.Cluster()
	connects := func() *tls.Config {
		c, err := kind.tlsConfig(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := connects()
	if first.ClientSessionCache == nil || connects() != first {
		t.Error("every look begins sessions of its own")
	}
	known := *kind.memory(o).vouching.Load()
	known.ca = []byte("another one")
	kind.memory(o).vouching.Store(&known)
	if next := connects(); next == first || next.ClientSessionCache == first.ClientSessionCache || next.RootCAs == first.RootCAs {
		t.Error("an authority that is another one does not begin anew")
	}
}
