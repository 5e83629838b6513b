package dbuser

import (
	"testing"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

// TestAKeyOfSomebodyElseIsNoReasonToPublishForEver: the connection Secret of a user may hold what looks like one of ours.
func TestAKeyOfSomebodyElseIsNoReasonToPublishForEver(t *testing.T) {
	s := newAccountStage(t)
	s.rest()
	fakeapi.Foreign(t, s.API, cluster.RedisUserSecret("carts-app"), "external-uri")
	fakeapi.Foreign(t, s.API, cluster.ConnectionSecret("carts"), "external-uri")
	s.rest()
	writes := s.API.Writes.Load()
	for range 5 {
		s.Pass()
	}
	s.rest()
	if n := s.API.Writes.Load() - writes; n != 0 {
		t.Errorf("%d writes", n)
	}
}

// TestAKeyThatIsNotWantedAnyMoreLeavesTheSecretOfAUser: external access has ended, and nothing else about the Secret changes.
func TestAKeyThatIsNotWantedAnyMoreLeavesTheSecretOfAUser(t *testing.T) {
	s := newAccountStage(t)
	s.rest()
	u, name := s.user(), cluster.RedisUserSecret("carts-app")
	data := s.Secret(name).Data
	data["external-nodes"] = []byte("redis.example.com:31000")
	want := owned.Secret{Name: name, Type: rediscluster.BindingType, Labels: redisUserLabels(u), Data: data}
	if err := s.Loop.Kind.(*rediscluster.Reconciler).EnsureSecret(t.Context(), u, want); err != nil {
		t.Fatal(err)
	}
	s.rest()
	if nodes, ok := s.Secret(name).Data["external-nodes"]; ok {
		t.Errorf("external-nodes %s", nodes)
	}
}
