package controllersim

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
)

// What an operator has generated for a new cluster is in use from then on: one that was held up before it wrote its own does not put that in
// its place.
func TestWhatAnotherOperatorHasGeneratedStays(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]workload{"orders": etcdScenes()["created"], "carts": redisScenes()["created"]} {
		reference, _ := l.run(t, nil)
		for _, secret := range []string{cluster.AuthSecret(name), cluster.CASecret(name)} {
			t.Run(secret, func(t *testing.T) {
				i := slices.IndexFunc(reference.calls, func(c *call) bool { return c.write && strings.HasSuffix(c.Name, "Secret "+secret) })
				var generated, now corev1.Secret
				key := client.ObjectKey{Namespace: "default", Name: secret}
				_, s := l.run(t, func(s scene) {
					s.Line().fault = &fault{effect: pause, at: reference.calls[i].String(), meanwhile: func() {
						overtake(s)
						if err := api(s).Get(t.Context(), key, &generated); err != nil {
							t.Error(err)
						}
					}}
				})
				if err := api(s).Get(t.Context(), key, &now); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(generated.Data, now.Data); diff != "" || len(now.Data) == 0 {
					t.Errorf("(-generated +now):\n%s", diff)
				}
			})
		}
	}
}
