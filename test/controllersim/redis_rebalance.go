package controllersim

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

// Level checks that every shard has about as many keys as the others.
func (s *Redis) Level() bool {
	for _, name := range []string{"carts-0-0", "carts-1-0", "carts-2-0"} {
		keys := 0
		for k := range s.Servers[name].Data {
			if s.Servers[name].Owns(k.Slot) {
				keys++
			}
		}
		if keys < 25 || keys > 45 {
			return false
		}
	}
	return true
}

// Balanced returns the condition Balanced.
func (s *Redis) Balanced() *metav1.Condition {
	s.T.Helper()
	return meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionBalanced)
}
