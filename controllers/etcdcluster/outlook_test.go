package etcdcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/controllersim"
)

// What kubectl quorate plan says of a manifest is what is observed and decided before it is applied.
func TestWhatAnEditedClusterIsPlannedForIsWhatTheOperatorDoesFirst(t *testing.T) {
	changes := map[string]func(*v1alpha1.EtcdClusterSpec){
		"nothing":       func(*v1alpha1.EtcdClusterSpec) {},
		"more members":  func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 5 },
		"fewer members": func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 },
		"a setting": func(spec *v1alpha1.EtcdClusterSpec) {
			spec.Config = &v1alpha1.EtcdConfig{SnapshotCount: new(int64(5000))}
		},
		"a version": func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.6.17" },
		"sleep":     func(spec *v1alpha1.EtcdClusterSpec) { spec.Hibernated = new(true) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, controllersim.Persistent())
			s.UntilReady()
			plan := func(o *v1alpha1.EtcdCluster, ensure bool) string {
				t.Helper()
				kind := s.NewOperator().Kind
				if ensure {
					if err := kind.Ensure(t.Context(), o); err != nil {
						t.Fatal(err)
					}
				}
				seen, err := kind.Observe(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				return controllersim.InWords(kind.Next(seen))
			}
			edited, writes := s.Cluster(), s.Writes
			change(&edited.Spec)
			edited.Generation++
			outlook := plan(edited, false)
			if s.Writes != writes {
				t.Errorf("the outlook has written: %q", s.Log[writes:])
			}
			s.Edit(change)
			if diff := cmp.Diff(plan(s.Cluster(), true), outlook); diff != "" {
				t.Errorf("(-what the operator does +what was planned):\n%s", diff)
			}
			t.Log(outlook)
		})
	}
}
