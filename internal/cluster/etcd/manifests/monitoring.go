package manifests

import (
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/kube"
)

// PodMonitor has Prometheus read the metrics of the members, which tell them on the port of clients to whoever proves to be one. What it takes
// is in the connection Secret, but for clusters whose certificates somebody else brings: those hand out none for clients. There the
// port for probes is read, as it is without TLS.
func PodMonitor(o *v1alpha1.EtcdCluster, owner *metav1ac.OwnerReferenceApplyConfiguration, r model.Transport) kube.PodMonitor {
	m := kube.PodMonitor{
		Name: cluster.EtcdMonitor(o.Name), Namespace: o.Namespace, Labels: Labels(o.Name), Selector: Selector(o.Name), Owner: owner,
		Endpoint: kube.PodMetricsEndpoint{Port: "metrics"},
	}
	if o.Spec.Monitoring != nil {
		m.User = o.Spec.Monitoring.PodMonitor
	}
	if from := r.Certificates(o.Spec.TLS); r.Secure && from.Issued() {
		secret := func(key string) kube.SecretKey {
			return kube.SecretKey{Name: cluster.ConnectionSecret(o.Name), Key: key}
		}
		m.Endpoint.Port, m.Endpoint.Scheme = "client", "https"
		m.Endpoint.TLS = &kube.ScrapeTLS{
			ServerName: cluster.ClientService(o.Name), CA: kube.SecretValue{Secret: secret("ca.crt")},
			Cert: kube.SecretValue{Secret: secret("tls.crt")}, Key: secret("tls.key"),
		}
	}
	return m
}
