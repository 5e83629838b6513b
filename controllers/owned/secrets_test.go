package owned

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/test/fakeapi"
)

// TestASecretHasWhatIsWantedAndWhatOthersAdd: what was wanted before goes, also where nothing else changes.
func TestASecretHasWhatIsWantedAndWhatOthersAdd(t *testing.T) {
	o := fakeapi.RedisCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	ensure := func(writes int64, data map[string]string, want map[string]string) {
		t.Helper()
		raw := map[string][]byte{}
		for k, v := range data {
			raw[k] = []byte(v)
		}
		before := w.Writes.Load()
		if err := c.EnsureSecret(t.Context(), o, Secret{Name: "mine", Type: corev1.SecretTypeOpaque, Data: raw}); err != nil {
			t.Fatal(err)
		}
		if n := w.Writes.Load() - before; n != writes {
			t.Errorf("%d writes, want %d", n, writes)
		}
		live, err := c.OwnSecret(t.Context(), o, "mine")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for k, v := range live.Data {
			got[k] = string(v)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	inside, both := map[string]string{"uri": "a"}, map[string]string{"uri": "a", "external-nodes": "b"}
	ensure(1, both, both)
	ensure(0, both, both)
	fakeapi.Foreign(t, w, "mine", "external-uri")
	ensure(0, both, map[string]string{"uri": "a", "external-nodes": "b", "external-uri": "theirs"})
	ensure(1, inside, map[string]string{"uri": "a", "external-uri": "theirs"})
	ensure(0, inside, map[string]string{"uri": "a", "external-uri": "theirs"})
}
