package controllersim

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// api is the API server of a stage as users reach it.
func api(s scene) client.Client { return s.Line().Past.API }

func vanish(t *testing.T, s scene, o client.Object) {
	t.Helper()
	if err := client.IgnoreNotFound(api(s).Delete(t.Context(), o)); err != nil {
		t.Fatal(err)
	}
}

// remake deletes a cluster with all that goes with it, and makes another one under its name.
func remake(t *testing.T, s scene, o, again client.Object) {
	t.Helper()
	vanish(t, s, o)
	collect(t, s)
	if err := api(s).Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
}

// collect is the garbage collector of Kubernetes: it deletes what has had owners that are gone.
func collect(t *testing.T, s scene) {
	t.Helper()
	p := s.Line().Past
	for {
		p.CatchUp()
		var orphan client.Object
		for _, objects := range p.Present {
			for _, o := range objects {
				if o.GetDeletionTimestamp() == nil && p.Orphaned(o) {
					orphan = o
				}
			}
		}
		if orphan == nil {
			return
		}
		vanish(t, s, orphan)
	}
}
