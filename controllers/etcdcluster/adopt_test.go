package etcdcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/test/controllersim"
)

func TestAnEtcdClusterThatIsCreatedAgainAdoptsItsOrphans(t *testing.T) {
	t.Parallel()
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	id, secrets, pods := s.Cluster().Status.ClusterID, controllersim.SecretData(t, s.Past), controllersim.PodUIDs(t, s.API)
	controllersim.Recreate(t, s.API, s.Cluster(), controllersim.Persistent())
	s.UntilReady()
	o := s.Cluster()
	if o.UID != "u-2" || o.Status.ClusterID != id || o.Status.Ready != "3/3" {
		t.Errorf("cluster %s has id %s and %s members, want u-2 with id %s and all", o.UID, o.Status.ClusterID, o.Status.Ready, id)
	}
	s.UntilSettled()
	if diff := cmp.Diff(secrets, controllersim.SecretData(t, s.Past)); diff != "" {
		t.Errorf("Secrets (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(pods, controllersim.PodUIDs(t, s.API)); diff != "" {
		t.Errorf("pods (-before +after):\n%s", diff)
	}
	if left := controllersim.Uncontrolled(t, s.Past, o); len(left) > 0 {
		t.Errorf("orphans that were not adopted: %v", left)
	}
}
