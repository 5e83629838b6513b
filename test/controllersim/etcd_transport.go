package controllersim

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// Switched changes the mode and runs passes until the cluster is Ready with it. What is given is done before each pass.
func (s *TimedEtcd) Switched(mode v1alpha1.TLSMode, before ...func()) {
	s.T.Helper()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.TLS = &v1alpha1.TLSSpec{Mode: &mode} })
	for range 200 {
		for _, do := range before {
			do()
		}
		s.Pass()
		o := s.Cluster()
		if meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) && s.TLSReady().Reason != steps.ReasonTransport && s.handed() == mode {
			return
		}
	}
	s.T.Fatalf("not switched: %s", s.Cluster().Status.Activity)
}

// handed is what clients are told: certificates and https, or none of it.
func (s *TimedEtcd) handed() v1alpha1.TLSMode {
	s.T.Helper()
	data := s.Secret(cluster.ConnectionSecret("orders")).Data
	secure := strings.HasPrefix(string(data["uri"]), "https://")
	if secure != (len(data["ca.crt"]) > 0) || secure != (len(data["tls.key"]) > 0) {
		s.T.Errorf("the connection Secret says %s and holds other keys", data["uri"])
	}
	if secure {
		return v1alpha1.TLSManaged
	}
	return v1alpha1.TLSDisabled
}
