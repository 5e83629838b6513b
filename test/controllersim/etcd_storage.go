package controllersim

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
)

// createClaim makes the claim of an ordinal from the template of the set, with a volume at once.
func (s *Etcd) createClaim(set *appsv1.StatefulSet, i int) {
	s.T.Helper()
	if len(set.Spec.VolumeClaimTemplates) == 0 {
		return // Its disk goes with its pod.
	}
	name := cluster.Claim(set.Name, i)
	claim := set.Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.ObjectMeta = metav1.ObjectMeta{CreationTimestamp: s.born(), Namespace: set.Namespace, Name: name, Labels: manifests.Selector(set.Name)}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: claim.Spec.Resources.Requests}
	if absent(claim.Spec) {
		claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	}
	if err := s.API.Create(s.T.Context(), claim); err != nil {
		s.T.Fatal(err)
	}
}

// growVolumes is what a CSI driver does.
func (s *Etcd) growVolumes() {
	s.T.Helper()
	for _, claim := range s.claims() {
		if claim.Spec.Resources.Requests.Storage().Cmp(*claim.Status.Capacity.Storage()) == 0 {
			continue
		}
		claim.Status.Capacity = claim.Spec.Resources.Requests
		if err := s.API.Status().Update(s.T.Context(), &claim); err != nil {
			s.T.Fatal(err)
		}
	}
}

func (s *Etcd) claims() []corev1.PersistentVolumeClaim {
	s.T.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := s.API.List(s.T.Context(), &list, client.InNamespace(s.Name.Namespace)); err != nil {
		s.T.Fatal(err)
	}
	return list.Items
}

// Store asks for other volumes.
func (s *Etcd) Store(size, class string) {
	s.T.Helper()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Storage = &v1alpha1.StorageSpec{Size: resource.MustParse(size)}
		if class != "" {
			spec.Storage.ClassName = &class
		}
	})
}

func (s *Etcd) createClass(name string) {
	s.T.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disk"}
	if err := s.API.Create(s.T.Context(), class); err != nil {
		s.T.Fatal(err)
	}
}

// storedElsewhere expands the volumes of a cluster, and moves them to smaller ones of another class.
func (s *Etcd) storedElsewhere() {
	s.T.Helper()
	s.createClass("fast")
	s.UntilReady()
	s.Store("2Gi", "")
	s.UntilReady()
	s.WantVolumes("2Gi", "")
	s.Store("1Gi", "fast")
	s.UntilReady()
	s.WantVolumes("1Gi", "fast")
}

// WantVolumes checks the size and the class of all volumes.
func (s *Etcd) WantVolumes(size, class string) {
	s.T.Helper()
	for _, c := range s.claims() {
		has, of := c.Status.Capacity[corev1.ResourceStorage], ptr.Deref(c.Spec.StorageClassName, "")
		if has.Cmp(resource.MustParse(size)) != 0 || of != class {
			s.T.Errorf("%s has %s of class %q instead of %s of %q", c.Name, &has, of, size, class)
		}
	}
	record := &corev1.ConfigMap{}
	if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.ConfigName(s.Name.Name)}, record); err != nil {
		s.T.Fatal(err)
	}
	quota := map[string]string{"1Gi": "quota-backend-bytes: 335544320", "2Gi": "quota-backend-bytes: 872415232"}[size]
	for key, text := range record.Data {
		if strings.HasSuffix(key, ".yaml") && !strings.Contains(text, quota) {
			s.T.Errorf("%s does not say %s:\n%s", key, quota, text)
		}
	}
}

// Stalled makes passes and returns why the cluster cannot go on.
func (s *Etcd) Stalled() string {
	s.T.Helper()
	op := s.NewOperator()
	for range 5 {
		if _, err := op.Reconcile(s.T.Context(), s.Cluster()); err != nil {
			s.T.Fatal(err)
		}
		s.Kubelet()
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Message
}

// RefuseExpansion makes the API server refuse to change a claim.
func (s *Etcd) RefuseExpansion(why error) {
	inner := s.Cache
	s.Cache = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.PersistentVolumeClaim); ok && why != nil {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, o.GetName(), why)
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
}
