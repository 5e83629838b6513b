package controllersim

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Drop deletes all objects that the operator has applied.
func (s *Etcd) Drop(o client.Object) {
	s.T.Helper()
	vanish(s.T, s, o)
	collect(s.T, s)
	s.later()
}

func (s *Etcd) later() {
	s.T.Helper()
	s.children.ForgetSecrets()
}

// Drop deletes all objects that the operator has applied.
func (s *Redis) Drop(o client.Object) {
	s.T.Helper()
	vanish(s.T, s, o)
	collect(s.T, s)
	for name, server := range s.Servers {
		if s.Past.Present["Pod"][types.NamespacedName{Namespace: "default", Name: name}] == nil {
			server.Stop() // What it has is on its volume.
		}
	}
	s.later()
}

func (s *Redis) later() {
	s.T.Helper()
	s.MinuteLater()
}
