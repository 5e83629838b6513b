package etcdcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

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
			s := newStage(t, controllersim.Persistent())
			s.UntilReady()
			s.RefuseExpansion(tc.refuse)
			s.Store(tc.size, tc.class)
			if got := s.Stalled(); !strings.Contains(got, tc.says) {
				t.Errorf("%q does not say %q", got, tc.says)
			}
			s.WantVolumes("1Gi", "")
		})
	}
}

// A class that does not allow an expansion is found out by asking the API server for one, in any installation.
func TestVolumesThatCannotGrowAreReplaced(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	s.RefuseExpansion(errors.New(notExpandable + " and the storageclass that provisions the pvc must support resize"))
	s.Store("2Gi", "")
	s.UntilReady()
	s.WantVolumes("2Gi", "")
}

// A cache of another time shows the pod and the claim that a member had before it was replaced, and why.
func TestNoMemberLeavesForWhatWasKnownOfAnother(t *testing.T) {
	t.Parallel()
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	const name = "orders-2"
	pod, claim := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}
	for o, name := range map[client.Object]string{pod: name, claim: cluster.Claim("orders", 2)} {
		if err := s.API.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, o); err != nil {
			t.Fatal(err)
		}
	}
	members := s.Members()
	id := members[slices.IndexFunc(members, func(m model.Member) bool { return m.Name == name })].ID
	for _, tc := range []struct {
		pod, claim string
		held       bool
	}{{"former", string(claim.UID), true}, {string(pod.UID), "former", true}, {string(pod.UID), string(claim.UID), false}} {
		step := steps.RemoveMember{ID: id, Name: name, Via: "orders-0", Pod: tc.pod, Claim: tc.claim}
		err := s.Op.Kind.Act(t.Context(), s.Cluster(), step)
		if hold := (cluster.Hold{}); errors.As(err, &hold) != tc.held || (err != nil) != tc.held {
			t.Errorf("%+v: %v", step, err)
		}
		if left := len(s.Members()) < len(members); left == tc.held {
			t.Errorf("%+v: of %d members there are %d", step, len(members), len(s.Members()))
		}
	}
}

// A cluster without volumes cannot see what an earlier one of its name has left on them: it is not made over them, and leaves them alone.
func TestVolumesOfAnEarlierClusterAreNotPassedOver(t *testing.T) {
	t.Parallel()
	left := func(labels map[string]string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-orders-1", UID: "left", Labels: labels}}
	}
	for name, labels := range map[string]map[string]string{"as they were left": manifests.Labels("orders"), "restored by hand": nil} {
		s := newStage(t, fakeapi.EtcdCluster(), left(labels))
		for range 5 {
			if _, err := s.NewOperator().Reconcile(t.Context(), s.Cluster()); err != nil && (labels != nil || !strings.Contains(err.Error(), "spec.storage is not set")) {
				t.Errorf("%s: %v", name, err)
			}
			s.Kubelet()
		}
		if said := s.Cluster().Status.Activity; !strings.Contains(said, "spec.storage is not set") {
			t.Errorf("%s: it says %s", name, said)
		}
		if err := s.API.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "orders"}, &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the cluster is made all the same: %v", name, err)
		}
	}
	o := fakeapi.EtcdCluster()
	o.Spec.Size = 1
	s := newStage(t, o)
	s.UntilReady()
	claim := left(manifests.Labels("orders"))
	if err := s.API.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	s.Passes(20)
	if err := s.API.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil || claim.DeletionTimestamp != nil {
		t.Errorf("a volume that is not the cluster's own is gone: %v", err)
	}
}
