package controllersim

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	redisconfig "github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
)

// announce is what the gate makes of the ConfigMap.
func (s *Redis) announce(ctx context.Context, server *redisfake.Server, ip string) {
	s.T.Helper()
	var config corev1.ConfigMap
	if err := s.API.Get(ctx, types.NamespacedName{Namespace: "default", Name: cluster.ConfigName("carts")}, &config); err != nil {
		s.T.Fatal(err)
	}
	pod, _, _ := strings.Cut(server.Host, ".")
	all := map[string]model.Announcement{}
	if text := config.Data[redisconfig.AnnounceKey]; text != "" {
		var err error
		if all, err = redisconfig.ReadAnnouncements([]byte(text)); err != nil {
			s.T.Fatal(err)
		}
	}
	server.Announces = all[pod].Parameters(cluster.PodHost(pod, "carts", "default", "cluster.local"), ip)
}

// allocate gives Services their addresses and ports, as the API server does, and leads them to servers, as kube-proxy does.
func (s *Redis) allocate(ctx context.Context) {
	s.T.Helper()
	clear(s.Net.Services)
	for i, v := range s.Services(ctx) {
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
			if err := s.API.Patch(ctx, &v, client.MergeFrom(before)); err != nil {
				s.T.Fatal(err)
			}
		}
		if pod, inside, ok := manifests.ExposedPod(&v); ok && inside {
			s.Net.Services[manifests.InsideOf(&v)] = pod + ".carts-peers"
		}
	}
}

// Services lists the Services that lead to single pods.
func (s *Redis) Services(ctx context.Context) []corev1.Service {
	s.T.Helper()
	var list corev1.ServiceList
	if err := s.API.List(ctx, &list); err != nil {
		s.T.Fatal(err)
	}
	return list.Items
}

// Exposed are the names of the Services that were made for external access.
func (s *Redis) Exposed() []string {
	s.T.Helper()
	var out []string
	for _, v := range s.Services(s.T.Context()) {
		if _, _, ok := manifests.ExposedPod(&v); ok {
			out = append(out, v.Name)
		}
	}
	return out
}

// Open makes the servers reachable from outside.
func (s *Redis) Open(access *v1alpha1.RedisExternalAccess) {
	s.T.Helper()
	o := s.Cluster()
	o.Spec.ExternalAccess = access
	o.Generation++
	if err := s.API.Update(s.T.Context(), o); err != nil {
		s.T.Fatal(err)
	}
	for range 5 {
		s.Pass()
	}
	s.Settle()
}

// ExpectHost insists that all servers send clients to hosts that end like this.
func (s *Redis) ExpectHost(suffix string) {
	s.T.Helper()
	for name, server := range s.Servers {
		if host := server.Announces["cluster-announce-hostname"]; !strings.HasSuffix(host, suffix) {
			s.T.Errorf("%s sends clients to %s, want %s", name, host, suffix)
		}
	}
}

// SettledAfterLoss deletes a pod: its successor announces from the start what it is to announce.
func (s *Redis) SettledAfterLoss(name string) {
	s.T.Helper()
	if err := s.API.Delete(s.T.Context(), &corev1.Pod{ObjectMeta: owned.ObjectMeta(s.Cluster(), name)}); err != nil {
		s.T.Fatal(err)
	}
	s.Kubelet(s.T.Context())
	s.ExpectHost("redis.example.com")
	s.Settle()
}
