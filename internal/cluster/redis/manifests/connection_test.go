package manifests

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/redistest"
)

// Whoever writes must not be led to replicas, also while only they are reached from outside.
func TestConnectionFromOutsideLeadsToThePrimary(t *testing.T) {
	c := redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")
	c.Spec.Mode = ptr.To(v1alpha1.RedisReplicated)
	doors := []model.Door{
		{Pod: "carts-primary", Problem: "no load balancer yet"},
		{Pod: "carts-replicas", Announcement: model.Announcement{Host: "replicas.example.com"}},
	}
	for _, want := range []string{"", "rediss://default:secret@primary.example.com:6379"} {
		got := Connection(c, Login{Domain: "cluster.local", Username: acl.UserDefault, Password: "secret", CA: nil, Doors: doors})
		if string(got["external-uri"]) != want || len(got["external-nodes"]) == 0 {
			t.Errorf("external-uri is %q, want %q; external-nodes %q", got["external-uri"], want, got["external-nodes"])
		}
		doors[0] = model.Door{Pod: "carts-primary", Announcement: model.Announcement{Host: "primary.example.com"}}
	}
}

func TestConnection(t *testing.T) {
	c := redistest.Cluster(v1alpha1.EngineValkey, "9.1.2")
	got := Connection(c, Login{Domain: "cluster.local", Username: acl.UserDefault, Password: "p@ss:word/", CA: []byte("ca"), Doors: nil})
	for key, want := range map[string]string{
		"type": "redis", "provider": "valkey", "host": "carts-client.shop.svc.cluster.local", "port": "6379", "username": "default",
		"password": "p@ss:word/", "uri": "rediss://default:p%40ss%3Aword%2F@carts-client.shop.svc.cluster.local:6379",
		"ca.crt": "ca", "tls.crt": "", "tls.key": "", // Any certificate of the servers' authority opens the cluster bus.
	} {
		if string(got[key]) != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	c.Spec.TLS, c.Spec.Auth = &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)}, &v1alpha1.AuthSpec{Mode: ptr.To(v1alpha1.AuthDisabled)}
	got = Connection(c, Login{Domain: "cluster.local", Username: acl.UserDefault, Password: "secret", CA: nil, Doors: nil})
	for _, key := range []string{"username", "password", "ca.crt", "tls.crt", "tls.key"} {
		if v, ok := got[key]; ok {
			t.Errorf("%s is %q without authentication and TLS", key, v)
		}
	}
	if string(got["uri"]) != "redis://carts-client.shop.svc.cluster.local:6379" {
		t.Errorf("uri %s", got["uri"])
	}
}

func TestEndpointsOutside(t *testing.T) {
	doors := []model.Door{
		{Pod: "c-1-0", Announcement: model.Announcement{Host: "10.1.1.1", TLSPort: 31010}, NodePort: 31010},
		{Pod: "c-0-0", Announcement: model.Announcement{Host: "lb.example.com"}},
		{Pod: "c-0-1", Problem: "no address"},
	}
	want := []v1alpha1.RedisExternalEndpoint{{Name: "c-0-0", Address: "lb.example.com:6379"}, {Name: "c-1-0", Address: "10.1.1.1:31010"}}
	if diff := cmp.Diff(want, Endpoints(doors)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := Connection(redistest.Cluster(v1alpha1.EngineValkey, "9.1.2"), Login{Domain: "cluster.local", Username: acl.UserDefault, Password: "secret", CA: nil, Doors: doors})
	if string(got["external-nodes"]) != "lb.example.com:6379,10.1.1.1:31010" || string(got["external-uri"]) != "rediss://default:secret@lb.example.com:6379" {
		t.Errorf("external-nodes %s, external-uri %s", got["external-nodes"], got["external-uri"])
	}
}
