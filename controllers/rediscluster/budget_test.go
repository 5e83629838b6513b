package rediscluster

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/login"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestTheServersOfAClusterShareOneBudgetForEachObservation(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	kind := New(ownedtest.New(s.API))
	connect, err := kind.credentials(t.Context(), s.Cluster())
	if err != nil {
		t.Fatal(err)
	}
	one, other := connect(acl.UserOperator, endpoint{pod: "carts-0-0"}), connect(acl.UserOperator, endpoint{pod: "carts-1-0"})
	if one.Budget == nil || one.Budget != other.Budget {
		t.Errorf("budgets %p and %p", one.Budget, other.Budget)
	}
	if mover := connect(acl.UserMigration, endpoint{pod: "carts-0-0"}); mover.Budget != nil {
		t.Error("a mover, which reads for minutes, has a budget")
	}
	if connect, err = kind.credentials(t.Context(), s.Cluster()); err != nil {
		t.Fatal(err)
	}
	if next := connect(acl.UserOperator, endpoint{pod: "carts-0-0"}); next.Budget == one.Budget {
		t.Error("the next observation has no budget of its own")
	}
}

func TestRefusedPasswordsAreHeldBackWithoutTLSPerProcess(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	k, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	o := s.Cluster()
	plain := o.DeepCopy()
	plain.Spec.TLS = &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)}
	for name, tt := range map[string]struct {
		cluster *v1alpha1.RedisCluster
		next    endpoint
		held    bool
	}{
		"the same process":           {plain, endpoint{pod: "carts-0-0", process: "a"}, true},
		"the container restarted":    {plain, endpoint{pod: "carts-0-0", process: "b"}, false},
		"the server shows who it is": {o, endpoint{pod: "carts-0-0", process: "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			k.memory(o).refusals = login.Refusals{}
			connect, err := k.connector(t.Context(), tt.cluster, map[string]string{acl.PasswordOperator: "secret"})
			if err != nil {
				t.Fatal(err)
			}
			connect(acl.UserOperator, endpoint{pod: "carts-0-0", process: "a"}).Refusals.Refuse("quorate", "secret")
			again, err := k.connector(t.Context(), tt.cluster, map[string]string{acl.PasswordOperator: "secret"})
			if err != nil {
				t.Fatal(err)
			}
			if got := again(acl.UserOperator, tt.next).Refusals.Held("quorate", "secret"); got != tt.held {
				t.Errorf("held %v, want %v", got, tt.held)
			}
		})
	}
}
