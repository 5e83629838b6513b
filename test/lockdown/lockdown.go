// Package lockdown holds pods against what linters of manifests ask for (kube-linter's default checks, the restricted Pod Security
// Standard). Left out, with the reason: a limit of CPU, which would slow failovers down and protects nobody from a process that
// has requests; an image by its digest, which is the choice of whoever installs; and the cluster's own labels of owner or team.
package lockdown

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Pod says what a pod is for, where that makes a difference.
type Pod struct {
	Spec corev1.PodSpec
	// Serves says that it runs until it is deleted, so that it has probes.
	Serves bool
	// Sized says that what its containers need is known: they have requests, and a limit of memory. What a data store needs its user knows.
	Sized bool
	// Identity says that it talks to the API server or to a cloud, so that it has a token and a service account of its own.
	Identity bool
}

// Faults are what is wrong with a pod, empty where nothing is.
func Faults(p Pod) []string {
	f := &faults{}
	s := p.Spec
	f.want(!s.HostNetwork && !s.HostPID && !s.HostIPC, "it shares something with its node")
	f.want(!slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }), "it mounts a directory of its node")
	f.want(len(s.Containers) > 0, "it has no container")
	f.want(s.SecurityContext != nil, "it has no security context")
	if c := s.SecurityContext; c != nil {
		f.want(ptr.Deref(c.RunAsNonRoot, false), "it may run as root")
		f.want(ptr.Deref(c.RunAsUser, 1) > 0, "it runs as root")
		f.want(c.SeccompProfile != nil && c.SeccompProfile.Type != corev1.SeccompProfileTypeUnconfined, "it has no seccomp profile")
	}
	if p.Identity {
		f.want(s.ServiceAccountName != "" && s.ServiceAccountName != "default", "it works with the service account that everybody has")
	} else {
		f.want(s.AutomountServiceAccountToken != nil && !*s.AutomountServiceAccountToken, "it has a token that it does not use")
	}
	for _, c := range s.InitContainers {
		f.container(c, p)
	}
	for _, c := range s.Containers {
		f.container(c, p)
		f.want(!p.Serves || (c.LivenessProbe != nil && c.ReadinessProbe != nil), "%s lacks a probe", c.Name)
	}
	return f.found
}

// WithToken names the containers that have a token of the service account.
func WithToken(s corev1.PodSpec) (names []string) {
	tokens := map[string]bool{}
	for _, v := range s.Volumes {
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool { return p.ServiceAccountToken != nil }) {
			tokens[v.Name] = true
		}
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		if ptr.Deref(s.AutomountServiceAccountToken, true) || slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return tokens[m.Name] }) {
			names = append(names, c.Name)
		}
	}
	return names
}

type faults struct{ found []string }

func (f *faults) want(holds bool, format string, args ...any) {
	if !holds {
		f.found = append(f.found, fmt.Sprintf(format, args...))
	}
}

func (f *faults) container(c corev1.Container, p Pod) {
	name := c.Name
	f.want(c.SecurityContext != nil, "%s has no security context", name)
	if s := c.SecurityContext; s != nil {
		f.want(s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation && !ptr.Deref(s.Privileged, false), "%s may get more privileges", name)
		f.want(ptr.Deref(s.ReadOnlyRootFilesystem, false), "%s may write to its root file system", name)
		f.want(s.Capabilities != nil && slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(s.Capabilities.Add) == 0, "%s has capabilities", name)
		f.want(ptr.Deref(s.RunAsNonRoot, true) && ptr.Deref(s.RunAsUser, 1) > 0, "%s runs as root", name)
	}
	f.want(c.Image != "", "%s has no image", name)
	_, tag, _ := strings.Cut(c.Image[strings.LastIndexByte(c.Image, '/')+1:], ":")
	f.want(tag != "" && tag != "latest", "%s has an image that may be another one tomorrow: %s", name, c.Image)
	for _, port := range c.Ports {
		f.want(port.ContainerPort >= 1024 && port.HostPort == 0, "%s takes the port %d of the node, or one for root", name, port.ContainerPort)
	}
	for _, e := range c.Env {
		// A Secret is mounted: the environment is shown by many tools, and by crashes.
		f.want(e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil, "%s has a secret in its environment: %s", name, e.Name)
		upper := strings.ToUpper(e.Name)
		f.want(!strings.Contains(upper, "PASSWORD") && !strings.Contains(upper, "TOKEN"), "%s has what looks like a secret in its environment: %s", name, e.Name)
	}
	if p.Sized {
		f.want(!c.Resources.Requests.Cpu().IsZero() && !c.Resources.Requests.Memory().IsZero(), "%s lacks requests", name)
		f.want(!c.Resources.Limits.Memory().IsZero(), "%s lacks a limit of memory", name)
	}
}

// Written is the pod in what is written to the API server, an object or an apply configuration; ok is false where there is none in it.
func Written(o any) (p Pod, ok bool, err error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return p, false, fmt.Errorf("write %T as JSON: %w", o, err)
	}
	var workload struct {
		Kind string                 `json:"kind"`
		Spec appsv1.StatefulSetSpec `json:"spec"`
	}
	kinds := []string{"Deployment", "StatefulSet", "DaemonSet", "Job"}
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil || !slices.Contains(kinds, kind.Kind) {
		return p, false, err
	}
	if err := json.Unmarshal(raw, &workload); err != nil {
		return p, false, fmt.Errorf("read a %s: %w", kind.Kind, err)
	}
	p.Spec = workload.Spec.Template.Spec
	p.Serves = kind.Kind != "Job"
	p.Identity = ptr.Deref(p.Spec.AutomountServiceAccountToken, true)
	return p, true, nil
}
