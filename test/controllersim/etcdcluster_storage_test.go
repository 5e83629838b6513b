package controllersim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The cache may show a set for a while that was deleted to be made anew. It is not made once more with what that one had.
func TestASetThatTheCacheStillShowsIsMadeAnewOnce(t *testing.T) {
	t.Parallel()
	l := etcdScenes()["stored elsewhere"]
	want, _ := l.run(t, nil)
	// Before this pass a set was made anew, and will be once more, from what the cache shows of it.
	got, _ := l.run(t, func(s scene) { s.Line().at(16, func() { s.Line().upset = true; s.Line().Lag(3, 0, "StatefulSet") }) })
	if diff := cmp.Diff(want.made, got.made); diff != "" {
		t.Errorf("(-up to date +behind):\n%s", diff)
	}
}
