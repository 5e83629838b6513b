package etcdcluster

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestEtcdGrowsAgainAfterAClaimLostItsLabels(t *testing.T) {
	t.Parallel()
	for name, label := range map[string]string{"managed-by": cluster.LabelManagedBy, "instance": cluster.LabelInstance} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, controllersim.Persistent())
			s.UntilReady()
			s.Unlabel(2, label)
			s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 })
			s.UntilReady()
			fakeapi.Must(t, s.API.Get(t.Context(), s.ClaimKey(2), &corev1.PersistentVolumeClaim{}))
			s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
			c := s.UntilStalled()
			if c.Reason != planner.ReasonUnlabelledClaim || !strings.Contains(c.Message, "kubectl -n default delete pvc data-orders-2") {
				t.Errorf("it says %s: %s", c.Reason, c.Message)
			}
			fakeapi.Must(t, s.API.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: owned.ObjectMeta(s.Cluster(), cluster.Claim("orders", 2))}))
			s.UntilReady()
			if got := s.Cluster().Status.Ready; got != "3/3" {
				t.Errorf("%s members are ready", got)
			}
		})
	}
}

func TestTheClaimOfAMemberIsObservedWithoutItsLabels(t *testing.T) {
	t.Parallel()
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	s.Unlabel(1, cluster.LabelManagedBy, cluster.LabelInstance, cluster.LabelComponent)
	claim := &corev1.PersistentVolumeClaim{}
	fakeapi.Must(t, s.API.Get(t.Context(), s.ClaimKey(1), claim))
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	fakeapi.Must(t, s.API.Update(t.Context(), claim))
	fakeapi.Must(t, s.API.Delete(t.Context(), claim))
	s.Restart()
	state, err := s.Op.Kind.Observe(t.Context(), s.Cluster())
	fakeapi.Must(t, err)
	i := slices.IndexFunc(state.Claims, func(c model.Claim) bool { return c.Ordinal == 1 })
	if len(state.Claims) != 3 || i < 0 || !state.Claims[i].Unlabelled || !state.Claims[i].Leaving {
		t.Errorf("observed %+v", state.Claims)
	}
}

func TestASettledEtcdClusterReadsNoClaimPastTheCache(t *testing.T) {
	t.Parallel()
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	s.Round()
	before := len(s.Calls)
	s.Round()
	for _, c := range s.Calls[before:] {
		if strings.Contains(c.Name, "PersistentVolumeClaim data-") {
			t.Errorf("it calls %s", c.Name)
		}
	}
}

func TestNoClusterIsFoundedBesideRetainedClaimsWithoutLabels(t *testing.T) {
	t.Parallel()
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	id := s.Cluster().Status.ClusterID
	for i := range 3 {
		s.Unlabel(i, cluster.LabelManagedBy, cluster.LabelInstance, cluster.LabelComponent)
	}
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 })
	s.Recreate()
	s.UntilReady()
	if got := s.Cluster().Status.ClusterID; got != id {
		t.Errorf("the cluster is %s, its data is of %s", got, id)
	}
}

// The claim may be made between the observation and the write.
func TestTheRecordOfANewClusterTellsOfAClaimWithoutLabels(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claims []int
		want   model.Bootstrap
	}{
		"no claim":                        {nil, model.BootstrapNew},
		"the claim of the first member":   {[]int{0}, model.BootstrapRetained},
		"a claim beyond the wanted size":  {[]int{6}, model.BootstrapRetained},
		"the claims of all three members": {[]int{0, 1, 2}, model.BootstrapRetained},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := controllersim.Persistent()
			s := newStage(t, o)
			for _, i := range tc.claims {
				fakeapi.Must(t, s.API.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: owned.ObjectMeta(o, cluster.Claim(o.Name, i))}))
			}
			s.Restart()
			fakeapi.Must(t, s.Op.Kind.Act(t.Context(), s.Cluster(), steps.WriteBootstrap{Bootstrap: model.BootstrapNew, Size: 3, Version: model.Version{Major: 3, Minor: 6, Patch: 16}}))
			config := &corev1.ConfigMap{}
			fakeapi.Must(t, s.API.Get(t.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.ConfigName(s.Name.Name)}, config))
			record, err := model.ParseRecord(config.Data)
			fakeapi.Must(t, err)
			if record.Bootstrap != tc.want {
				t.Errorf("the record says %s, want %s", record.Bootstrap, tc.want)
			}
		})
	}
}
