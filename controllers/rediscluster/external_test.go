package rediscluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/kubecache"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestRedisIsReachedByNodePorts(t *testing.T) {
	t.Parallel()
	host := "redis.example.com"
	s := newRedisStage(t, fakeapi.RedisCluster())
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	now := kind.Now()
	kind.Now = func() time.Time { return now }
	s.Settle()
	before := s.Uids()
	s.Open(&v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalNodePort, Host: &host})
	s.ExpectHost(host)
	o := s.Cluster()
	if len(o.Status.ExternalEndpoints) != 6 || len(s.Exposed()) != 12 {
		t.Errorf("endpoints %v, Services %v", o.Status.ExternalEndpoints, s.Exposed())
	}
	if !clustertls.Vouches(s.Secret(cluster.ServerTLSSecret("carts")).Data[corev1.TLSCertKey], host) {
		t.Error("the certificate is not for the host")
	}
	if nodes := string(s.Secret(cluster.ConnectionSecret("carts")).Data["external-nodes"]); strings.Count(nodes, host+":31") != 6 {
		t.Errorf("external-nodes %s", nodes)
	}
	for pod, uid := range s.Uids() {
		if before[pod] != uid {
			t.Errorf("pod %s was restarted", pod)
		}
	}
	writes := s.API.Writes.Load()
	for range 10 {
		s.Pass()
	}
	if n := s.API.Writes.Load() - writes; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
	s.SettledAfterLoss("carts-0-1")
	s.ExpectHost(host)

	s.Open(nil)
	s.ExpectHost("svc.cluster.local")
	if len(s.Exposed()) != 12 {
		t.Errorf("Services %v are left while clients may not have heard", s.Exposed())
	}
	now = now.Add(2 * time.Minute)
	for range 3 {
		s.Pass() // The certificate gives the host up as well.
	}
	if left := s.Exposed(); len(left) > 0 {
		t.Errorf("Services %v are left", left)
	}
	if nodes, ok := s.Secret(cluster.ConnectionSecret("carts")).Data["external-nodes"]; ok {
		t.Errorf("external-nodes %s", nodes)
	}
}

func TestRedisWaitsForItsLoadBalancers(t *testing.T) {
	t.Parallel()
	o := fakeapi.RedisCluster()
	o.Spec.ExternalAccess = &v1alpha1.RedisExternalAccess{
		Type: v1alpha1.ExternalLoadBalancer, Annotations: map[string]v1alpha1.TemplateValue{"service.example.com/pool": "outer"},
	}
	s := newRedisStage(t, o)
	for range 100 {
		s.Pass()
	}
	status := s.Cluster().Status
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAvailable) || !strings.Contains(status.Activity, "Service carts-0-0-external has no load balancer yet") {
		t.Errorf("status %+v", status)
	}
	s.ExpectHost("svc.cluster.local")
	for i, v := range s.Services(s.T.Context()) {
		if _, _, ok := manifests.ExposedPod(&v); !ok {
			continue
		}
		if v.Annotations["service.example.com/pool"] != "outer" {
			t.Errorf("annotations of %s: %v", v.Name, v.Annotations)
		}
		v.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("198.51.100.%d", i)}}
		if err := s.API.Status().Update(t.Context(), &v); err != nil {
			t.Fatal(err)
		}
	}
	s.Settle()
	for name, server := range s.Servers {
		host := server.Announces["cluster-announce-hostname"]
		if !strings.HasPrefix(host, "198.51.100.") || server.Announces["cluster-announce-ip"] != server.Addr.IP {
			t.Errorf("%s announces %v", name, server.Announces)
		}
		if !clustertls.Vouches(s.Secret(cluster.ServerTLSSecret("carts")).Data[corev1.TLSCertKey], host) {
			t.Errorf("the certificate is not for %s", host)
		}
	}
}

func TestACertificateOfTheUserHasToBeForTheHostOutside(t *testing.T) {
	ca, err := clustertls.NewCA("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := clustertls.Issue(ca, clustertls.Leaf{CommonName: "carts", DNSNames: []string{"inside"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	mode, name := v1alpha1.TLSProvided, "mine"
	w := outside{tls: &v1alpha1.TLSSpec{Mode: &mode, SecretName: &name}, certificate: leaf.Cert}
	for host, want := range map[string]string{"inside": "", "outside": `in Secret "mine" is not for outside`, "203.0.113.7": `is not for 203.0.113.7`} {
		if got := w.unproven(host); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
	got := owned.TLSReady(w.tls, clustertls.Report{Missing: w.unproven("outside")}, nil)
	if got.Status != "False" || !strings.Contains(got.Message, "is not for outside") {
		t.Errorf("%+v", got)
	}
}

func TestTheAddressOfANode(t *testing.T) {
	node := func(addresses ...corev1.NodeAddress) *corev1.Node {
		return &corev1.Node{ObjectMeta: owned.ObjectMeta(fakeapi.RedisCluster(), "n"), Status: corev1.NodeStatus{Addresses: addresses}}
	}
	inner, outer := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.1"}
	six := corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "2001:db8::1"}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{HostIP: "10.0.0.9"}}
	for name, tc := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"external": {node(inner, outer), "203.0.113.1"}, "internal": {node(inner), "10.0.0.1"}, "IPv4": {node(six, inner), "10.0.0.1"},
		"that of the pod's host": {nil, "10.0.0.9"},
	} {
		var objects []client.Object
		if tc.node != nil {
			tc.node.Namespace = ""
			objects = append(objects, tc.node)
		}
		c := &owned.Client{}
		k := New(c)
		if tc.node != nil {
			c.Nodes = fakeapi.New(t, objects...)
		}
		got, err := k.nodeAddress(t.Context(), pod)
		if err != nil || got != tc.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, tc.want)
		}
	}
	if kept, err := kubecache.TransformNode(node(inner, outer)); err != nil || !slices.Equal(kept.(*corev1.Node).Status.Addresses, []corev1.NodeAddress{inner, outer}) {
		t.Errorf("%v %v", kept, err)
	}
}
