package cluster

import "strings"

// PublicImage is a public image, or its copy in a registry of one's own: there its host is replaced, and the rest of the name stays.
// An empty registry is the public one. The name begins with a host.
//
//	PublicImage("", "quay.io/coreos/etcd:v3.6.16")                            quay.io/coreos/etcd:v3.6.16
//	PublicImage("registry.example.com/copies", "quay.io/coreos/etcd:v3.6.16") registry.example.com/copies/coreos/etcd:v3.6.16
func PublicImage(registry, name string) string {
	if registry == "" {
		return name
	}
	_, path, _ := strings.Cut(name, "/")
	return strings.TrimSuffix(registry, "/") + "/" + path
}
