package controllers

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
)

// TestASecretHasWhatIsWantedAndWhatOthersAdd: what was wanted before goes, also where nothing else changes.
func TestASecretHasWhatIsWantedAndWhatOthersAdd(t *testing.T) {
	o := redisCluster()
	w := newWorld(t, o)
	c := newChildren(w)
	ensure := func(writes int64, data map[string]string, want map[string]string) {
		t.Helper()
		raw := map[string][]byte{}
		for k, v := range data {
			raw[k] = []byte(v)
		}
		before := w.writes.Load()
		if err := c.EnsureSecret(t.Context(), o, "mine", corev1.SecretTypeOpaque, nil, raw); err != nil {
			t.Fatal(err)
		}
		if n := w.writes.Load() - before; n != writes {
			t.Errorf("%d writes, want %d", n, writes)
		}
		live, err := c.ownSecret(t.Context(), o, "mine")
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
	foreign(t, w, "mine", "external-uri")
	ensure(0, both, map[string]string{"uri": "a", "external-nodes": "b", "external-uri": "theirs"})
	ensure(1, inside, map[string]string{"uri": "a", "external-uri": "theirs"})
	ensure(0, inside, map[string]string{"uri": "a", "external-uri": "theirs"})
}

// foreign adds a key to a Secret as somebody else.
func foreign(t *testing.T, w *world, name, key string) {
	t.Helper()
	theirs := corev1ac.Secret(name, "default").WithData(map[string][]byte{key: []byte("theirs")})
	if err := w.Apply(t.Context(), theirs, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
}

// TestAKeyOfSomebodyElseIsNoReasonToPublishForEver: the connection Secret of a user may hold what looks like one of ours.
func TestAKeyOfSomebodyElseIsNoReasonToPublishForEver(t *testing.T) {
	s := newAccountStage(t)
	s.rest()
	foreign(t, s.api, cluster.RedisUserSecret("carts-app"), "external-uri")
	foreign(t, s.api, cluster.ConnectionSecret("carts"), "external-uri")
	s.rest()
	writes := s.api.writes.Load()
	for range 5 {
		s.pass()
	}
	s.rest()
	if n := s.api.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes", n)
	}
}

// TestAKeyThatIsNotWantedAnyMoreLeavesTheSecretOfAUser: external access has ended, and nothing else about the Secret changes.
func TestAKeyThatIsNotWantedAnyMoreLeavesTheSecretOfAUser(t *testing.T) {
	s := newAccountStage(t)
	s.rest()
	u, name := s.user(), cluster.RedisUserSecret("carts-app")
	data := s.secret(name).Data
	data["external-nodes"] = []byte("redis.example.com:31000")
	if err := s.loop.Kind.(*RedisKind).EnsureSecret(t.Context(), u, name, typeRedisBinding, redisUserLabels(u), data); err != nil {
		t.Fatal(err)
	}
	s.rest()
	if nodes, ok := s.secret(name).Data["external-nodes"]; ok {
		t.Errorf("external-nodes %s", nodes)
	}
}

// What an operator has generated for a new cluster is in use from then on: one that was held up before it wrote its own does not put that in
// its place.
func TestWhatAnotherOperatorHasGeneratedStays(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]workload{"orders": etcdScenes()["created"], "carts": redisScenes()["created"]} {
		reference, _ := l.run(t, nil)
		for _, secret := range []string{cluster.AuthSecret(name), cluster.CASecret(name)} {
			t.Run(secret, func(t *testing.T) {
				i := slices.IndexFunc(reference.calls, func(c *call) bool { return c.write && strings.HasSuffix(c.name, "Secret "+secret) })
				var generated, now corev1.Secret
				key := client.ObjectKey{Namespace: "default", Name: secret}
				_, s := l.run(t, func(s scene) {
					s.line().fault = &fault{effect: pause, at: reference.calls[i].String(), meanwhile: func() {
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
