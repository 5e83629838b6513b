// Package kube builds the parts of Kubernetes objects that all data stores share, as apply
// configurations. It takes values and returns values. It must not call the Kubernetes API, and must
// not contain anything that only one data store needs.
package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// nonRoot is the user, group and file system group of pods unless the user chooses others: the "nonroot" user of the
// distroless images.
const nonRoot = 65532

// Owner returns an owner reference that makes an object a controlled child.
func Owner(apiVersion, kind, name string, uid types.UID) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion(apiVersion).WithKind(kind).WithName(name).WithUID(uid).
		WithController(true).WithBlockOwnerDeletion(true)
}

// ContainerSecurity is the security context of every container: the restricted Pod Security Standard and a read-only
// root file system.
func ContainerSecurity() *corev1ac.SecurityContextApplyConfiguration {
	return corev1ac.SecurityContext().
		WithAllowPrivilegeEscalation(false).
		WithReadOnlyRootFilesystem(true).
		WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))
}

// MemoryLimit tells a process of ours the memory limit of its container, in bytes, or what its node can give where it has none.
func MemoryLimit() *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName("GOMEMLIMIT").WithValueFrom(corev1ac.EnvVarSource().WithResourceFieldRef(
		corev1ac.ResourceFieldSelector().WithResource("limits.memory")))
}

// PodSecurity is the security context of every pod: the restricted Pod Security Standard, with what the user set on
// top. Admission has checked that the user stays within the standard.
func PodSecurity(user *corev1.PodSecurityContext) (*corev1ac.PodSecurityContextApplyConfiguration, error) {
	sc := corev1ac.PodSecurityContext()
	if user != nil {
		var err error
		if sc, err = Convert[corev1ac.PodSecurityContextApplyConfiguration](user); err != nil {
			return nil, err
		}
	}
	sc.WithRunAsNonRoot(true)
	if sc.RunAsUser == nil {
		sc.WithRunAsUser(nonRoot)
	}
	if sc.RunAsGroup == nil {
		sc.WithRunAsGroup(nonRoot)
	}
	if sc.FSGroup == nil {
		sc.WithFSGroup(nonRoot)
	}
	if sc.FSGroupChangePolicy == nil {
		sc.WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)
	}
	if sc.SeccompProfile == nil {
		sc.WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	}
	return sc, nil
}

// Convert turns an API object into its apply configuration (or back): the two have the same JSON form.
func Convert[T any](in any) (*T, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", in, err)
	}
	out := new(T)
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("decode %T: %w", out, err)
	}
	return out, nil
}

// TemplateHash is the hash of a pod template without the image and the resources of the given init containers, which are the operator's
// own, and without the hooks of containers, which the operator writes, too: an operator upgrade must restart no pod. The
// template must not carry the hash yet.
func TemplateHash(tpl *corev1ac.PodTemplateSpecApplyConfiguration, own ...string) (string, error) {
	copied, err := Convert[corev1ac.PodTemplateSpecApplyConfiguration](tpl)
	if err != nil {
		return "", err
	}
	for i, c := range copied.Spec.InitContainers {
		for _, name := range own {
			if c.Name != nil && *c.Name == name {
				copied.Spec.InitContainers[i].Image, copied.Spec.InitContainers[i].Resources = nil, nil
			}
		}
	}
	for i := range copied.Spec.Containers {
		copied.Spec.Containers[i].Lifecycle = nil
	}
	raw, err := json.Marshal(copied)
	if err != nil {
		return "", fmt.Errorf("encode pod template: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}
