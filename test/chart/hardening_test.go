package chart

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// TestTheOperatorIsLockedDown is what linters of manifests ask for. Left out, with the reason: a limit of cpu, which would slow failovers
// down and protects nobody from a process that has requests, and an image by its digest, which is the choice of image.digest.
func TestTheOperatorIsLockedDown(t *testing.T) {
	for name, all := range map[string][]*unstructured.Unstructured{
		"chart": render(t, everything), "config": inTree(t, "config/manager/manager.yaml"),
	} {
		t.Run(name, func(t *testing.T) {
			pod := only[appsv1.Deployment](t, all).Spec.Template.Spec
			c := pod.Containers[0]
			for what, holds := range map[string]bool{
				"one container":                          len(pod.Containers) == 1 && len(pod.InitContainers) == 0,
				"nothing of the node":                    !pod.HostNetwork && !pod.HostPID && !pod.HostIPC && len(pod.Volumes) == 0,
				"runs as non-root":                       pod.SecurityContext != nil && ptr.Deref(pod.SecurityContext.RunAsNonRoot, false),
				"the seccomp profile of the runtime":     pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
				"a service account of its own":           pod.ServiceAccountName != "" && pod.ServiceAccountName != "default",
				"a grace period":                         ptr.Deref(pod.TerminationGracePeriodSeconds, 0) > 0,
				"no way to more privileges":              !ptr.Deref(c.SecurityContext.AllowPrivilegeEscalation, true) && !ptr.Deref(c.SecurityContext.Privileged, false),
				"no capabilities":                        len(c.SecurityContext.Capabilities.Add) == 0 && c.SecurityContext.Capabilities.Drop[0] == "ALL",
				"a file system that is only read":        ptr.Deref(c.SecurityContext.ReadOnlyRootFilesystem, false),
				"probes":                                 c.LivenessProbe != nil && c.ReadinessProbe != nil && c.LivenessProbe.HTTPGet.Path != c.ReadinessProbe.HTTPGet.Path,
				"requests":                               !c.Resources.Requests.Cpu().IsZero() && !c.Resources.Requests.Memory().IsZero(),
				"a limit of memory":                      !c.Resources.Limits.Memory().IsZero(),
				"no port below 1024, none of the node's": portsAreOurs(c.Ports),
				"no secret in the environment":           noSecrets(c.Env),
			} {
				if !holds {
					t.Errorf("wanted: %s", what)
				}
			}
		})
	}
}

func portsAreOurs(ports []corev1.ContainerPort) bool {
	for _, p := range ports {
		if p.ContainerPort < 1024 || p.HostPort != 0 {
			return false
		}
	}
	return len(ports) > 0
}

func noSecrets(env []corev1.EnvVar) bool {
	for _, e := range env {
		name := strings.ToUpper(e.Name)
		if strings.Contains(name, "PASSWORD") || strings.Contains(name, "TOKEN") || (e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil) {
			return false
		}
	}
	return true
}
