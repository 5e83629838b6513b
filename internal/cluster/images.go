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

// RegistryOf is the registry that PublicImage was given for an image of the public repository, which is named without a tag. It is empty
// for the public one, and for an image that is no copy.
//
//	RegistryOf("registry.example.com/copies/coreos/etcd:v3.6.16", "quay.io/coreos/etcd") registry.example.com/copies
func RegistryOf(image, public string) string {
	repository, _, _ := strings.Cut(image, "@")
	if tag := strings.LastIndex(repository, ":"); tag > strings.LastIndex(repository, "/") {
		repository = repository[:tag]
	}
	host, path, _ := strings.Cut(public, "/")
	registry, found := strings.CutSuffix(repository, "/"+path)
	if !found || registry == host {
		return ""
	}
	return registry
}
