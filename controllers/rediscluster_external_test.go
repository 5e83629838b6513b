package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// announce is what the gate makes of the ConfigMap.
func (s *redisStage) announce(ctx context.Context, server *redisfake.Server, ip string) {
	s.t.Helper()
	var config corev1.ConfigMap
	if err := s.api.Get(ctx, types.NamespacedName{Namespace: "default", Name: cluster.ConfigName("carts")}, &config); err != nil {
		s.t.Fatal(err)
	}
	pod, _, _ := strings.Cut(server.Host, ".")
	all := map[string]redis.Announcement{}
	if text := config.Data[redis.AnnounceKey]; text != "" {
		var err error
		if all, err = redis.ReadAnnouncements([]byte(text)); err != nil {
			s.t.Fatal(err)
		}
	}
	server.Announces = all[pod].Parameters(cluster.PodHost(pod, "carts", "default", "cluster.local"), ip)
}

// allocate gives Services their addresses and ports, as the API server does, and leads them to servers, as kube-proxy does.
func (s *redisStage) allocate(ctx context.Context) {
	s.t.Helper()
	clear(s.net.Services)
	for i, v := range s.services(ctx) {
		before := v.DeepCopy()
		if v.Spec.ClusterIP == "" {
			v.Spec.ClusterIP = fmt.Sprintf("10.96.0.%d", i+1)
		}
		for j := range v.Spec.Ports {
			if p := &v.Spec.Ports[j]; v.Spec.Type == corev1.ServiceTypeNodePort && p.NodePort == 0 {
				p.NodePort = int32(31000 + 10*i + j)
			}
		}
		if !equality.Semantic.DeepEqual(before, &v) {
			if err := s.api.Patch(ctx, &v, client.MergeFrom(before)); err != nil {
				s.t.Fatal(err)
			}
		}
		if pod, inside, ok := redis.ExposedPod(&v); ok && inside {
			s.net.Services[redis.InsideOf(&v)] = pod + ".carts-peers"
		}
	}
}

func (s *redisStage) services(ctx context.Context) []corev1.Service {
	s.t.Helper()
	var list corev1.ServiceList
	if err := s.api.List(ctx, &list); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// exposed are the names of the Services that were made for external access.
func (s *redisStage) exposed() []string {
	s.t.Helper()
	var out []string
	for _, v := range s.services(s.t.Context()) {
		if _, _, ok := redis.ExposedPod(&v); ok {
			out = append(out, v.Name)
		}
	}
	return out
}

func (s *redisStage) open(access *v1alpha1.RedisExternalAccess) {
	s.t.Helper()
	o := s.cluster()
	o.Spec.ExternalAccess = access
	o.Generation++
	if err := s.api.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
	for range 5 {
		s.pass()
	}
	s.settle()
}

// expectHost insists that all servers send clients to hosts that end like this.
func (s *redisStage) expectHost(suffix string) {
	s.t.Helper()
	for name, server := range s.servers {
		if host := server.Announces["cluster-announce-hostname"]; !strings.HasSuffix(host, suffix) {
			s.t.Errorf("%s sends clients to %s, want %s", name, host, suffix)
		}
	}
}

func TestRedisIsReachedByNodePorts(t *testing.T) {
	t.Parallel()
	host := "redis.example.com"
	s := newRedisStage(t, redisCluster())
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("%T", s.loop.Kind)
	}
	now := kind.Now()
	kind.Now = func() time.Time { return now }
	s.settle()
	before := s.uids()
	s.open(&v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalNodePort, Host: &host})
	s.expectHost(host)
	o := s.cluster()
	if len(o.Status.ExternalEndpoints) != 6 || len(s.exposed()) != 12 {
		t.Errorf("endpoints %v, Services %v", o.Status.ExternalEndpoints, s.exposed())
	}
	if !clustertls.Vouches(s.secret(cluster.ServerTLSSecret("carts")).Data[corev1.TLSCertKey], host) {
		t.Error("the certificate is not for the host")
	}
	if nodes := string(s.secret(cluster.ConnectionSecret("carts")).Data["external-nodes"]); strings.Count(nodes, host+":31") != 6 {
		t.Errorf("external-nodes %s", nodes)
	}
	for pod, uid := range s.uids() {
		if before[pod] != uid {
			t.Errorf("pod %s was restarted", pod)
		}
	}
	writes := s.api.writes.Load()
	for range 10 {
		s.pass()
	}
	if n := s.api.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
	s.settledAfterLoss("carts-0-1")
	s.expectHost(host)

	s.open(nil)
	s.expectHost("svc.cluster.local")
	if len(s.exposed()) != 12 {
		t.Errorf("Services %v are left while clients may not have heard", s.exposed())
	}
	now = now.Add(2 * time.Minute)
	for range 3 {
		s.pass() // The certificate gives the host up as well.
	}
	if left := s.exposed(); len(left) > 0 {
		t.Errorf("Services %v are left", left)
	}
	if nodes, ok := s.secret(cluster.ConnectionSecret("carts")).Data["external-nodes"]; ok {
		t.Errorf("external-nodes %s", nodes)
	}
}

// settledAfterLoss deletes a pod: its successor announces from the start what it is to announce.
func (s *redisStage) settledAfterLoss(name string) {
	s.t.Helper()
	if err := s.api.Delete(s.t.Context(), &corev1.Pod{ObjectMeta: objectMeta(s.cluster(), name)}); err != nil {
		s.t.Fatal(err)
	}
	s.kubelet(s.t.Context())
	s.expectHost("redis.example.com")
	s.settle()
}

func TestRedisWaitsForItsLoadBalancers(t *testing.T) {
	t.Parallel()
	o := redisCluster()
	o.Spec.ExternalAccess = &v1alpha1.RedisExternalAccess{
		Type: v1alpha1.ExternalLoadBalancer, Annotations: map[string]v1alpha1.TemplateValue{"service.example.com/pool": "outer"},
	}
	s := newRedisStage(t, o)
	for range 100 {
		s.pass()
	}
	status := s.cluster().Status
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAvailable) || !strings.Contains(status.Activity, "Service carts-0-0-external has no load balancer yet") {
		t.Errorf("status %+v", status)
	}
	s.expectHost("svc.cluster.local")
	for i, v := range s.services(s.t.Context()) {
		if _, _, ok := redis.ExposedPod(&v); !ok {
			continue
		}
		if v.Annotations["service.example.com/pool"] != "outer" {
			t.Errorf("annotations of %s: %v", v.Name, v.Annotations)
		}
		v.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("198.51.100.%d", i)}}
		if err := s.api.Status().Update(t.Context(), &v); err != nil {
			t.Fatal(err)
		}
	}
	s.settle()
	for name, server := range s.servers {
		host := server.Announces["cluster-announce-hostname"]
		if !strings.HasPrefix(host, "198.51.100.") || server.Announces["cluster-announce-ip"] != server.Addr.IP {
			t.Errorf("%s announces %v", name, server.Announces)
		}
		if !clustertls.Vouches(s.secret(cluster.ServerTLSSecret("carts")).Data[corev1.TLSCertKey], host) {
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
	got := tlsReady(w.tls, clustertls.Report{Missing: w.unproven("outside")}, nil)
	if got.Status != "False" || !strings.Contains(got.Message, "is not for outside") {
		t.Errorf("%+v", got)
	}
}

func TestTheAddressOfANode(t *testing.T) {
	node := func(addresses ...corev1.NodeAddress) *corev1.Node {
		return &corev1.Node{ObjectMeta: objectMeta(redisCluster(), "n"), Status: corev1.NodeStatus{Addresses: addresses}}
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
		c := &Children{}
		k := NewRedisKind(c)
		if tc.node != nil {
			c.Nodes = newWorld(t, objects...)
		}
		got, err := k.nodeAddress(t.Context(), pod)
		if err != nil || got != tc.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, tc.want)
		}
	}
	if kept, err := onlyScheduling(node(inner, outer)); err != nil || !slices.Equal(kept.(*corev1.Node).Status.Addresses, []corev1.NodeAddress{inner, outer}) {
		t.Errorf("%v %v", kept, err)
	}
}
