package controllersim

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
)

// Chosen returns a Secret with a password that the user has chosen.
func Chosen(password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chosen"}, Data: map[string][]byte{owned.PasswordKey: []byte(password)},
	}
}

// Choose changes the password as a user would.
func (s *TimedEtcd) Choose(password string) {
	s.T.Helper()
	live := s.Secret("chosen")
	live.Data[owned.PasswordKey] = []byte(password)
	if err := s.API.Update(s.T.Context(), live); err != nil {
		s.T.Fatal(err)
	}
}

// Password is the one that clients are given, if root has it too.
func (s *TimedEtcd) Password() string {
	s.T.Helper()
	given := string(s.Secret("orders-connection").Data[owned.PasswordKey])
	for name, p := range s.Procs {
		c := &etcdfake.Client{Network: s.Net, Process: p, TLS: s.Cluster().Spec.TLS.TLSMode() != v1alpha1.TLSDisabled, Password: given}
		if a, err := c.Auth(s.T.Context(), given); err != nil || !a.PasswordWorks {
			s.T.Fatalf("%s does not take the password that clients are given: %+v, %v", name, a, err)
		}
	}
	return given
}
