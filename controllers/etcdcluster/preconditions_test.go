package etcdcluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestAPodThatChangedSinceItWasObservedIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	pod := &corev1.Pod{}
	key := types.NamespacedName{Namespace: s.Name.Namespace, Name: "orders-2"}
	fakeapi.Must(t, s.API.Get(t.Context(), key, pod))
	step := steps.DeletePod{Name: pod.Name, UID: string(pod.UID), ResourceVersion: pod.ResourceVersion}
	pod.Annotations = map[string]string{"changed": "since"}
	fakeapi.Must(t, s.API.Update(t.Context(), pod))
	fakeapi.Must(t, s.NewOperator().Kind.Act(t.Context(), s.Cluster(), step))
	if err := s.API.Get(t.Context(), key, pod); err != nil {
		t.Errorf("the pod: %v", err)
	}
	step.ResourceVersion = pod.ResourceVersion
	fakeapi.Must(t, s.NewOperator().Kind.Act(t.Context(), s.Cluster(), step))
	if err := s.API.Get(t.Context(), key, pod); err == nil {
		t.Error("the pod that was decided on is still there")
	}
}

func TestAClaimIsDeletedOnlyByTheNewestRecordAndSpecification(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change        func(s *controllersim.Etcd)
		IgnoreDeleted bool
	}{
		"nothing has changed":           {func(*controllersim.Etcd) {}, true},
		"the specification has changed": {func(s *controllersim.Etcd) { s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 5 }) }, false},
		"the record has changed":        {func(s *controllersim.Etcd) { s.Rerecord() }, false},
		"the claim has changed":         {func(s *controllersim.Etcd) { s.TouchClaim() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, controllersim.Persistent())
			s.UntilReady()
			o, config, claim := s.Cluster(), &corev1.ConfigMap{}, &corev1.PersistentVolumeClaim{}
			key := types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.Claim(o.Name, 2)}
			fakeapi.Must(t, s.API.Get(t.Context(), key, claim))
			fakeapi.Must(t, s.API.Get(t.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.ConfigName(o.Name)}, config))
			step := steps.DeleteClaim{Name: claim.Name, UID: string(claim.UID), ResourceVersion: claim.ResourceVersion}
			tc.change(s)
			children := ownedtest.New(&fakeapi.API{Client: &controllersim.Outdated{Client: s.API, Old: config, Reads: 1000}}) // The cache is behind.
			children.Direct = s.API
			err := New(children).Act(t.Context(), o, step)
			if gone := s.API.Get(t.Context(), key, claim) != nil; gone != tc.IgnoreDeleted {
				t.Errorf("the claim is deleted: %t (%v), want %t", gone, err, tc.IgnoreDeleted)
			}
		})
	}
}
