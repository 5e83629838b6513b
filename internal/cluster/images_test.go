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
