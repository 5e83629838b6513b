package rediscluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestARedisClusterThatIsCreatedAgainAdoptsItsOrphans(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	secrets, pods, servers := controllersim.SecretData(t, s.Past), controllersim.PodUIDs(t, s.API), ids(s)
	controllersim.Recreate(t, s.API, s.Cluster(), fakeapi.RedisCluster())
	s.Settle()
	if now := s.Cluster(); now.UID != "u-2" {
		t.Fatalf("the cluster has UID %s", now.UID)
	}
	for range 5 {
		s.Pass()
	}
	if diff := cmp.Diff(secrets, controllersim.SecretData(t, s.Past)); diff != "" {
		t.Errorf("Secrets (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(pods, controllersim.PodUIDs(t, s.API)); diff != "" {
		t.Errorf("pods (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(servers, ids(s)); diff != "" {
		t.Errorf("primaries (-before +after):\n%s", diff)
	}
	if left := controllersim.Uncontrolled(t, s.Past, s.Cluster()); len(left) > 0 {
		t.Errorf("orphans that were not adopted: %v", left)
	}
}

// TestTheAppointmentOfAnOrphanedServiceHolds: the Service is the only record of which replica was
// appointed primary.
func TestTheAppointmentOfAnOrphanedServiceHolds(t *testing.T) {
	t.Parallel()
	o := fakeapi.RedisCluster()
	o.Spec.Mode, o.Spec.Shards = ptr.To(v1alpha1.RedisReplicated), 0
	o.CreationTimestamp = metav1.NewTime(fakeapi.Now)
	w := fakeapi.New(t, o)
	k := New(ownedtest.New(w))
	b, err := k.builder(t.Context(), o)
	fakeapi.Must(t, err)
	want := model.Appointment{Pod: "carts-0-1", History: "id"}
	service := b.Primary(want, model.FailoverCandidate{})
	service.OwnerReferences = nil
	fakeapi.Must(t, w.Apply(t.Context(), service, client.FieldOwner(cluster.ManagedBy)))
	got, err := k.primaryRecord(t.Context(), o)
	if err != nil || got.appointed.Pod != want.Pod {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// ids returns the primary that each server copies, empty for a primary itself.
func ids(s *controllersim.Redis) map[string]string {
	out := map[string]string{}
	for name, server := range s.Servers {
		out[name] = server.Primary()
	}
	return out
}
