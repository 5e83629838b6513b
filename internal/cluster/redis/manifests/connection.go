package manifests

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Login is who connects to a cluster, and how.
type Login struct {
	// Domain of the Kubernetes cluster's DNS.
	Domain string
	// Username and Password, unused without authentication.
	Username, Password string
	// CA is the authority of the servers in PEM, unused without TLS.
	CA []byte
	// Doors are where pods are reached from outside.
	Doors []model.Door
}

// Connection is the content of the Secret that clients connect with, in the Service Binding layout
// (https://servicebinding.io/spec/core/1.1.0/#well-known-secret-entries), with the addresses of all servers besides, and of those
// that can be reached from outside. It holds no certificate: one of the servers' authority would open the cluster bus.
func Connection(c *v1alpha1.RedisCluster, l Login) map[string][]byte {
	host := cluster.ServiceHost(EntryService(c), c.Namespace, l.Domain)
	port := strconv.Itoa(model.ClientPort)
	uri := url.URL{Scheme: "redis", Host: host + ":" + port}
	data := map[string][]byte{
		"type": []byte("redis"), "provider": []byte(c.Spec.ServerEngine()),
		"host": []byte(host), "port": []byte(port),
		"nodes": []byte(strings.Join(podAddresses(c, l.Domain), ",")),
	}
	if c.Spec.Auth.AuthMode() != v1alpha1.AuthDisabled {
		uri.User = url.UserPassword(l.Username, l.Password)
		data["username"], data["password"] = []byte(l.Username), []byte(l.Password)
	}
	if c.Spec.TLS.TLSMode() != v1alpha1.TLSDisabled {
		uri.Scheme = "rediss"
		data["ca.crt"] = l.CA
	}
	data["uri"] = []byte(uri.String())
	if outside := Endpoints(l.Doors); len(outside) > 0 {
		var all []string
		for _, e := range outside {
			all = append(all, e.Address)
			if _, given := data["external-uri"]; !given && (!c.Spec.IsReplicated() || e.Name == EntryService(c)) {
				uri.Host = e.Address
				data["external-uri"] = []byte(uri.String())
			}
		}
		data["external-nodes"] = []byte(strings.Join(all, ","))
	}
	return data
}

// EntryService is the Service that clients connect to first.
func EntryService(c *v1alpha1.RedisCluster) string {
	if c.Spec.IsReplicated() {
		return cluster.PrimaryService(c.Name)
	}
	return cluster.ClientService(c.Name)
}

func podAddresses(c *v1alpha1.RedisCluster, domain string) []string {
	var out []string
	for shard := range c.Spec.ShardCount() {
		for ordinal := range 1 + c.Spec.Replicas() {
			pod := cluster.Pod(cluster.ShardSet(c.Name, shard), ordinal)
			out = append(out, cluster.PodHost(pod, c.Name, c.Namespace, domain)+":"+strconv.Itoa(model.ClientPort))
		}
	}
	return out
}
