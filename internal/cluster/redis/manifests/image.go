package manifests

import (
	"cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// Image of the server, see cluster.PublicImage for the registry.
func Image(spec *v1alpha1.RedisClusterSpec, registry string) string {
	switch {
	case spec.Image != nil:
		return *spec.Image
	case spec.ServerEngine() == v1alpha1.EngineValkey:
		return cluster.PublicImage(registry, valkeyImage+":"+spec.Version)
	}
	return cluster.PublicImage(registry, redisImage+":"+spec.Version)
}

// RegistryOf is the registry that Image was given for an image, empty for the public one and for images of one's own.
func RegistryOf(image string) string {
	return cmp.Or(cluster.RegistryOf(image, redisImage), cluster.RegistryOf(image, valkeyImage))
}

// CheckImage is what a check of a backup starts servers from: the image of its cluster, nil where that is gone, if that version reads the
// data, and else the public one of what wrote it, as well while the cluster goes to another version, of which there may be no image. It is
// empty where nobody knows what wrote the data. A server reads the RDB of earlier versions.
func CheckImage(o *v1alpha1.RedisCluster, engine v1alpha1.RedisEngine, wrote, registry string) string {
	v, err := software.ParseVersion(wrote)
	if err != nil || (engine != v1alpha1.EngineRedis && engine != v1alpha1.EngineValkey) {
		return ""
	}
	if o != nil && o.Spec.ServerEngine() == engine {
		now, err := software.ParseVersion(o.Spec.Version)
		runs, _ := software.ParseVersion(o.Status.CurrentVersion) // What is none is not the same.
		if err == nil && (o.Spec.Image != nil || runs == now) && now.AtLeast(v.Major, v.Minor) {
			return Image(&o.Spec, registry)
		}
	}
	return Image(&v1alpha1.RedisClusterSpec{Engine: &engine, Version: wrote}, registry)
}
