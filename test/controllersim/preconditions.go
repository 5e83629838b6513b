package controllersim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

// Rerecord changes the record as another operator does.
func (s *Etcd) Rerecord() {
	s.T.Helper()
	config := &corev1.ConfigMap{}
	fakeapi.Must(s.T, s.API.Get(s.T.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.ConfigName(s.Name.Name)}, config))
	config.Data["min-available"] = "1"
	fakeapi.Must(s.T, s.API.Update(s.T.Context(), config))
}

// TouchClaim changes a claim, so that it has another version.
func (s *Etcd) TouchClaim() {
	s.T.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	fakeapi.Must(s.T, s.API.Get(s.T.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.Claim(s.Name.Name, 2)}, claim))
	claim.Annotations = map[string]string{"changed": "since"}
	fakeapi.Must(s.T, s.API.Update(s.T.Context(), claim))
}
