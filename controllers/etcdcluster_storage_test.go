package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// createClaim makes the claim of an ordinal from the template of the set, with a volume at once.
func (s *stage) createClaim(set *appsv1.StatefulSet, i int) {
	s.t.Helper()
	if len(set.Spec.VolumeClaimTemplates) == 0 {
		return // Its disk goes with its pod.
	}
	name := cluster.Claim(set.Name, i)
	claim := set.Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.ObjectMeta = metav1.ObjectMeta{CreationTimestamp: s.born(), Namespace: set.Namespace, Name: name, Labels: etcd.Selector(set.Name)}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: claim.Spec.Resources.Requests}
	if absent(claim.Spec) {
		claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	}
	if err := s.api.Create(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
}

// growVolumes is what a CSI driver does.
func (s *stage) growVolumes() {
	s.t.Helper()
	for _, claim := range s.claims() {
		if claim.Spec.Resources.Requests.Storage().Cmp(*claim.Status.Capacity.Storage()) == 0 {
			continue
		}
		claim.Status.Capacity = claim.Spec.Resources.Requests
		if err := s.api.Status().Update(s.t.Context(), &claim); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) claims() []corev1.PersistentVolumeClaim {
	s.t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := s.api.List(s.t.Context(), &list, client.InNamespace(s.name.Namespace)); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// store asks for other volumes.
func (s *stage) store(size, class string) {
	s.t.Helper()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Storage = &v1alpha1.StorageSpec{Size: resource.MustParse(size)}
		if class != "" {
			spec.Storage.ClassName = &class
		}
	})
}

func (s *stage) createClass(name string) {
	s.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disk"}
	if err := s.api.Create(s.t.Context(), class); err != nil {
		s.t.Fatal(err)
	}
}

// storedElsewhere expands the volumes of a cluster, and moves them to smaller ones of another class.
func (s *stage) storedElsewhere() {
	s.t.Helper()
	s.createClass("fast")
	s.untilReady()
	s.store("2Gi", "")
	s.untilReady()
	s.wantVolumes("2Gi", "")
	s.store("1Gi", "fast")
	s.untilReady()
	s.wantVolumes("1Gi", "fast")
}

func (s *stage) wantVolumes(size, class string) {
	s.t.Helper()
	for _, c := range s.claims() {
		has, of := c.Status.Capacity[corev1.ResourceStorage], ptr.Deref(c.Spec.StorageClassName, "")
		if has.Cmp(resource.MustParse(size)) != 0 || of != class {
			s.t.Errorf("%s has %s of class %q instead of %s of %q", c.Name, &has, of, size, class)
		}
	}
	record := &corev1.ConfigMap{}
	if err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.ConfigName(s.name.Name)}, record); err != nil {
		s.t.Fatal(err)
	}
	quota := map[string]string{"1Gi": "quota-backend-bytes: 335544320", "2Gi": "quota-backend-bytes: 872415232"}[size]
	for key, text := range record.Data {
		if strings.HasSuffix(key, ".yaml") && !strings.Contains(text, quota) {
			s.t.Errorf("%s does not say %s:\n%s", key, quota, text)
		}
	}
}

func (s *stage) stalled() string {
	s.t.Helper()
	op := s.newOperator()
	for range 5 {
		if _, err := op.Reconcile(s.t.Context(), s.cluster()); err != nil {
			s.t.Fatal(err)
		}
		s.kubelet()
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Message
}

func TestStorageThatCannotBeHad(t *testing.T) {
	for name, tc := range map[string]struct {
		size, class string
		refuse      error
		says        string
	}{
		"a class that does not exist": {"1Gi", "fast", nil, "StorageClass fast does not exist"},
		"no room in the namespace":    {"2Gi", "", errors.New("exceeded quota: all"), "exceeded quota: all"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, persistent())
			s.untilReady()
			s.refuseExpansion(tc.refuse)
			s.store(tc.size, tc.class)
			if got := s.stalled(); !strings.Contains(got, tc.says) {
				t.Errorf("%q does not say %q", got, tc.says)
			}
			s.wantVolumes("1Gi", "")
		})
	}
}

// A class that does not allow an expansion is found out by asking the API server for one, in any installation.
func TestVolumesThatCannotGrowAreReplaced(t *testing.T) {
	s := newStage(t, persistent())
	s.untilReady()
	s.refuseExpansion(errors.New(notExpandable + " and the storageclass that provisions the pvc must support resize"))
	s.store("2Gi", "")
	s.untilReady()
	s.wantVolumes("2Gi", "")
}

// refuseExpansion makes the API server refuse to change a claim.
func (s *stage) refuseExpansion(why error) {
	inner := s.cache
	s.cache = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.PersistentVolumeClaim); ok && why != nil {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, o.GetName(), why)
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

// The cache may show a set for a while that was deleted to be made anew. It is not made once more with what that one had.
func TestASetThatTheCacheStillShowsIsMadeAnewOnce(t *testing.T) {
	t.Parallel()
	l := etcdScenes()["stored elsewhere"]
	want, _ := l.run(t, nil)
	// Before this pass a set was made anew, and will be once more, from what the cache shows of it.
	got, _ := l.run(t, func(s scene) { s.line().at(16, func() { s.line().upset = true; s.line().lag(3, 0, "StatefulSet") }) })
	if diff := cmp.Diff(want.made, got.made); diff != "" {
		t.Errorf("(-up to date +behind):\n%s", diff)
	}
}

// A cache of another time shows the pod and the claim that a member had before it was replaced, and why.
func TestNoMemberLeavesForWhatWasKnownOfAnother(t *testing.T) {
	t.Parallel()
	s := newStage(t, persistent())
	s.untilReady()
	const name = "orders-2"
	pod, claim := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}
	for o, name := range map[client.Object]string{pod: name, claim: cluster.Claim("orders", 2)} {
		if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, o); err != nil {
			t.Fatal(err)
		}
	}
	members := s.members()
	id := members[slices.IndexFunc(members, func(m etcd.Member) bool { return m.Name == name })].ID
	for _, tc := range []struct {
		pod, claim string
		held       bool
	}{{"former", string(claim.UID), true}, {string(pod.UID), "former", true}, {string(pod.UID), string(claim.UID), false}} {
		step := etcd.RemoveMember{ID: id, Name: name, Via: "orders-0", Pod: tc.pod, Claim: tc.claim}
		err := s.op.Kind.Act(t.Context(), s.cluster(), step)
		if hold := (cluster.Hold{}); errors.As(err, &hold) != tc.held || (err != nil) != tc.held {
			t.Errorf("%+v: %v", step, err)
		}
		if left := len(s.members()) < len(members); left == tc.held {
			t.Errorf("%+v: of %d members there are %d", step, len(members), len(s.members()))
		}
	}
}

// A cluster without volumes cannot see what an earlier one of its name has left on them: it is not made over them, and leaves them alone.
func TestVolumesOfAnEarlierClusterAreNotPassedOver(t *testing.T) {
	t.Parallel()
	left := func(labels map[string]string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-orders-1", UID: "left", Labels: labels}}
	}
	for name, labels := range map[string]map[string]string{"as they were left": etcd.Labels("orders"), "restored by hand": nil} {
		s := newStage(t, etcdCluster(), left(labels))
		for range 5 {
			if _, err := s.newOperator().Reconcile(t.Context(), s.cluster()); err != nil && (labels != nil || !strings.Contains(err.Error(), "spec.storage is not set")) {
				t.Errorf("%s: %v", name, err)
			}
			s.kubelet()
		}
		if said := s.cluster().Status.Activity; !strings.Contains(said, "spec.storage is not set") {
			t.Errorf("%s: it says %s", name, said)
		}
		if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "orders"}, &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the cluster is made all the same: %v", name, err)
		}
	}
	o := etcdCluster()
	o.Spec.Size = 1
	s := newStage(t, o)
	s.untilReady()
	claim := left(etcd.Labels("orders"))
	if err := s.api.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	s.passes(20)
	if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil || claim.DeletionTimestamp != nil {
		t.Errorf("a volume that is not the cluster's own is gone: %v", err)
	}
}
