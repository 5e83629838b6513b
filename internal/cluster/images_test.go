package cluster

import "testing"

func TestPublicImagesComeFromTheRegistryOfTheInstallation(t *testing.T) {
	for name, tc := range map[string]struct{ registry, image, want string }{
		"none":             {"", "quay.io/coreos/etcd:v3.6.16", "quay.io/coreos/etcd:v3.6.16"},
		"a host":           {"registry.example.com:5000", "docker.io/library/redis:8.0.2", "registry.example.com:5000/library/redis:8.0.2"},
		"a path in it":     {"registry.example.com/copies", "docker.io/valkey/valkey:8.1.1", "registry.example.com/copies/valkey/valkey:8.1.1"},
		"a slash too many": {"registry.example.com/", "quay.io/coreos/etcd:v3.6.16", "registry.example.com/coreos/etcd:v3.6.16"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PublicImage(tc.registry, tc.image); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestTheRegistryOfTheInstallationIsReadFromAnImage(t *testing.T) {
	const public = "quay.io/coreos/etcd"
	for name, tc := range map[string]struct{ image, want string }{
		"the public one":    {"quay.io/coreos/etcd:v3.6.16", ""},
		"a host":            {"registry.example.com:5000/coreos/etcd:v3.6.16", "registry.example.com:5000"},
		"a host, no tag":    {"registry.example.com:5000/coreos/etcd", "registry.example.com:5000"},
		"a path in it":      {"registry.example.com/copies/coreos/etcd:v3.6.16", "registry.example.com/copies"},
		"by digest":         {"registry.example.com/coreos/etcd:v3.6.16@sha256:0123", "registry.example.com"},
		"another image":     {"registry.example.com/own/etcd:v3.6.16", ""},
		"a name like it":    {"registry.example.com/notcoreos/etcd:v3.6.16", ""},
		"nothing before it": {"coreos/etcd:v3.6.16", ""},
		"none":              {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := RegistryOf(tc.image, public)
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if tag := public + ":v1"; got != "" && RegistryOf(PublicImage(got, tag), public) != got {
				t.Errorf("it makes %s, which is of another registry", PublicImage(got, tag))
			}
		})
	}
}
