package controllersim

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// Undo makes one pass over the Restore, and returns what it has become.
func (s *Etcd) Undo() *v1alpha1.Restore {
	s.T.Helper()
	children := ownedtest.New(&fakeapi.API{Client: s.Cache})
	children.Direct = owned.PastCache(s.API, ownedtest.ClockOf(children))
	target, ok := s.newKind(children, nil).(restore.Target)
	if !ok {
		s.T.Fatal("nothing can be restored into the kind under test")
	}
	kind := restore.New(children, map[v1alpha1.ClusterKind]restore.Target{v1alpha1.KindEtcdCluster: target})
	loop := &reconcile.Loop[*v1alpha1.Restore, planner.RestoreState]{Kind: kind, Client: s.Others, Direct: s.Others, Events: events.NewFakeRecorder(1000)}
	r := &v1alpha1.Restore{}
	key := types.NamespacedName{Namespace: "default", Name: "undo"}
	if err := s.Others.Get(s.T.Context(), key, r); err != nil {
		s.T.Fatal(err)
	}
	if _, err := loop.Reconcile(s.T.Context(), r); err != nil {
		s.T.Fatal(err)
	}
	if err := s.Others.Get(s.T.Context(), key, r); err != nil {
		s.T.Fatal(err)
	}
	return r
}

// Confirm confirms the plan of a Restore.
func (s *Etcd) Confirm(r *v1alpha1.Restore) {
	s.T.Helper()
	before := r.DeepCopy()
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.AnnotationConfirm, r.Status.Plan)
	if err := s.Others.Patch(s.T.Context(), r, client.MergeFrom(before)); err != nil {
		s.T.Fatal(err)
	}
}

// RestoredInPlace takes the cluster back to a backup.
func (s *Etcd) RestoredInPlace() {
	s.T.Helper()
	s.UntilReady()
	s.led = 2
	undo := fakeapi.Restore(nil)
	status := undo.Status
	if err := s.Others.Create(s.T.Context(), undo); err != nil {
		s.T.Fatal(err)
	}
	undo.Status = status
	if err := s.Others.Status().Update(s.T.Context(), undo); err != nil {
		s.T.Fatal(err)
	}
	id := s.Cluster().Status.ClusterID
	s.Confirm(s.Undo())
	if r := s.Undo(); !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionConfirmed) {
		s.T.Fatalf("it is not confirmed: %s", r.Status.Activity)
	}
	s.Restart()
	for range 80 {
		s.Round()
		if r := s.Undo(); meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionComplete) {
			s.UntilReady()
			if got := s.Cluster().Status.ClusterID; got == id {
				s.T.Errorf("it is still cluster %s", id)
			}
			return
		}
	}
	s.T.Fatalf("it is not restored after 80 passes: %s", s.Cluster().Status.Activity)
}
