package controllersim

import (
	"testing"

	"github.com/quorate/quorate/test/fakeapi"
)

// A settled cluster of either kind is one whose children are not gone through at each look.
func TestSettledClustersStand(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) {
		s := newStage(t, fakeapi.EtcdCluster())
		s.Restart()
		for range 100 {
			s.Round()
		}
		o := s.Cluster()
		if !s.Op.Snapshots.Unchanged(t.Context(), o) {
			t.Errorf("it is ensured at every look: %+v", o.Status)
		}
	})
	t.Run("redis", func(t *testing.T) {
		s := newRedisStage(t, fakeapi.RedisCluster())
		s.Settle()
		s.Pass()
		o := s.Cluster()
		if !s.Loop.Snapshots.Unchanged(t.Context(), o) {
			t.Errorf("it is ensured at every look: %+v", o.Status)
		}
	})
}
