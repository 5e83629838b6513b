package controllersim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
)

// UserOf finds a user of a server; nil when there is none.
func (s *Redis) UserOf(pod, name string) *acl.User {
	users := s.Servers[pod].Users
	i := slices.IndexFunc(users, func(u acl.User) bool { return u.Name == name })
	if i < 0 {
		return nil
	}
	return &users[i]
}

// Secret reads a Secret.
func (s *Redis) Secret(name string) *corev1.Secret {
	s.T.Helper()
	var out corev1.Secret
	if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: name}, &out); err != nil {
		s.T.Fatal(err)
	}
	return &out
}
