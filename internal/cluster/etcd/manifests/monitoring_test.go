package manifests

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/kube"
)

func TestMetricsAreReadWithWhatClientsAreHanded(t *testing.T) {
	withTLS := &kube.ScrapeTLS{
		ServerName: "orders-client", CA: kube.SecretValue{Secret: kube.SecretKey{Name: "orders-connection", Key: "ca.crt"}},
		Cert: kube.SecretValue{Secret: kube.SecretKey{Name: "orders-connection", Key: "tls.crt"}},
		Key:  kube.SecretKey{Name: "orders-connection", Key: "tls.key"},
	}
	mode := func(m v1alpha1.TLSMode) *v1alpha1.TLSSpec { return &v1alpha1.TLSSpec{Mode: &m} }
	for name, tc := range map[string]struct {
		spec  *v1alpha1.TLSSpec
		reach model.Transport
		want  kube.PodMetricsEndpoint
	}{
		"certificates of the operator":     {nil, model.Transport{Secure: true}, kube.PodMetricsEndpoint{Port: "client", Scheme: "https", TLS: withTLS}},
		"certificates of cert-manager":     {mode(v1alpha1.TLSCertManager), model.Transport{Secure: true}, kube.PodMetricsEndpoint{Port: "client", Scheme: "https", TLS: withTLS}},
		"certificates of the user":         {mode(v1alpha1.TLSProvided), model.Transport{Secure: true}, kube.PodMetricsEndpoint{Port: "metrics"}},
		"no certificates":                  {mode(v1alpha1.TLSDisabled), model.Transport{}, kube.PodMetricsEndpoint{Port: "metrics"}},
		"certificates that nobody has":     {nil, model.Transport{TLSSwitch: model.TLSSwitch{Both: true}}, kube.PodMetricsEndpoint{Port: "metrics"}},
		"certificates that are to go":      {mode(v1alpha1.TLSDisabled), model.Transport{Secure: true, TLSSwitch: model.TLSSwitch{TLS: mode(v1alpha1.TLSManaged)}}, kube.PodMetricsEndpoint{Port: "client", Scheme: "https", TLS: withTLS}},
		"those of the user that are to go": {mode(v1alpha1.TLSDisabled), model.Transport{Secure: true, TLSSwitch: model.TLSSwitch{TLS: mode(v1alpha1.TLSProvided)}}, kube.PodMetricsEndpoint{Port: "metrics"}},
	} {
		o := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}, Spec: v1alpha1.EtcdClusterSpec{TLS: tc.spec}}
		if diff := cmp.Diff(tc.want, PodMonitor(o, nil, tc.reach).Endpoint); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The pods have the ports that a PodMonitor names.
func TestThePortsThatAreReadAreThoseOfThePods(t *testing.T) {
	o := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}, Spec: v1alpha1.EtcdClusterSpec{Monitoring: &v1alpha1.EtcdMonitoringSpec{}}}
	c, err := Builder{Cluster: o}.etcdContainer()
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, p := range c.Ports {
		has[*p.Name] = true
	}
	for _, r := range []model.Transport{{}, {Secure: true}} {
		u, err := PodMonitor(o, nil, r).Build()
		if err != nil {
			t.Fatal(err)
		}
		ends, _, err := unstructured.NestedSlice(u.Object, "spec", "podMetricsEndpoints")
		if err != nil || len(ends) != 1 {
			t.Fatalf("%v, %v", ends, err)
		}
		end, _ := ends[0].(map[string]any)
		if port, _ := end["port"].(string); !has[port] || end["interval"] != "30s" {
			t.Errorf("it reads %v, and pods have the ports %v", end, has)
		}
	}
}
