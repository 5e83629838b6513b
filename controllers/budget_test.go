package controllers

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis"
)

func TestTheServersOfAClusterShareOneBudgetForEachObservation(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	kind := NewRedisKind(newChildren(s.api))
	connect, err := kind.credentials(t.Context(), s.cluster())
	if err != nil {
		t.Fatal(err)
	}
	one, other := connect(redis.UserOperator, "carts-0-0", redis.Address{}), connect(redis.UserOperator, "carts-1-0", redis.Address{})
	if one.Budget == nil || one.Budget != other.Budget {
		t.Errorf("budgets %p and %p", one.Budget, other.Budget)
	}
	if mover := connect(redis.UserMigration, "carts-0-0", redis.Address{}); mover.Budget != nil {
		t.Error("a mover, which reads for minutes, has a budget")
	}
	if connect, err = kind.credentials(t.Context(), s.cluster()); err != nil {
		t.Fatal(err)
	}
	if next := connect(redis.UserOperator, "carts-0-0", redis.Address{}); next.Budget == one.Budget {
		t.Error("the next observation has no budget of its own")
	}
}
