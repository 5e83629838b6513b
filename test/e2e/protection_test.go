package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// TestProtectionStopsPeopleAndNobodyElse shows with the controllers of a real Kubernetes what test/envtest shows for each kind of object.
func TestProtectionStopsPeopleAndNobodyElse(t *testing.T) {
	t.Parallel()
	var etcd *v1alpha1.EtcdCluster
	feature := features.New("config/protection").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			etcd = s.etcdOf(t, "orders", 1, func(e *v1alpha1.EtcdClusterSpec) { e.Storage = volume(v1alpha1.DeletionDelete) })
			createReady(ctx, t, s, etcd)
		})).
		Assess("a namespace that is deleted goes", step(func(ctx context.Context, t *testing.T, s *scope) {
			other := anotherNamespace(ctx, t, s)
			claim := claimOf(other.ns)
			s.create(ctx, t, claim)
			protect(ctx, t, s, claim, s.ns, other.ns)
			must(t, s.DeleteNamespace(ctx, other.ns))
		})).
		Assess("nobody deletes the cluster by mistake", step(func(ctx context.Context, t *testing.T, s *scope) {
			const words = "kubectl annotate etcdclusters.quorate.dev orders"
			if err := s.Delete(ctx, etcd); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
				t.Errorf("want it refused with %q, got %v", words, err)
			}
			if _, err := s.Run(ctx, "delete", "pvc", "-n", s.ns, "--all"); err == nil || !strings.Contains(err.Error(), "it holds the data of a member") {
				t.Errorf("all claims: %v", err)
			}
		})).
		Assess("on purpose it goes, and its claims with it", step(func(ctx context.Context, t *testing.T, s *scope) {
			_, err := s.Run(ctx, "annotate", "etcdclusters.quorate.dev", "orders", "-n", s.ns, "quorate.dev/allow-deletion=true")
			must(t, err)
			must(t, s.Delete(ctx, etcd))
			waitRemains(ctx, t, s, etcd.Name, 0)
		})).
		Teardown(step(unprotect))
	suite.Test(t, feature.Feature())
}

func claimOf(ns string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data-gone-0", Labels: map[string]string{cluster.LabelManagedBy: cluster.ManagedBy}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
		},
	}
}

// protect installs the policy for some namespaces: other tests delete as they like. It waits until a witness cannot be deleted any more.
func protect(ctx context.Context, t *testing.T, s *scope, witness client.Object, namespaces ...string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Root, "config/protection/policy.yaml"))
	must(t, err)
	first, second, _ := strings.Cut(string(raw), "\n---\n")
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	must(t, yaml.UnmarshalStrict([]byte(first), &policy))
	must(t, yaml.UnmarshalStrict([]byte(second), &binding))
	policy.Name, binding.Name, binding.Spec.PolicyName = s.ns, s.ns, s.ns
	binding.Spec.MatchResources = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces,
		}}},
		// CRDs belong to no namespace.
		ExcludeResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.OperationAll},
			Rule:       admissionv1.Rule{APIGroups: []string{"apiextensions.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"*"}},
		}}},
	}
	for _, o := range []client.Object{&policy, &binding} {
		s.create(ctx, t, o)
	}
	must(t, harness.Until(ctx, s.Cluster, &policy, harness.Deadline{What: "Kubernetes to check the types of the policy", Within: time.Minute}, func(p *admissionv1.ValidatingAdmissionPolicy) (bool, string) {
		if p.Status.TypeChecking != nil && len(p.Status.TypeChecking.ExpressionWarnings) > 0 {
			t.Errorf("it warns: %+v", p.Status.TypeChecking.ExpressionWarnings)
		}
		return p.Status.ObservedGeneration == p.Generation, fmt.Sprintf("%+v", p.Status)
	}))
	must(t, harness.Eventually(ctx, "the policy to be heeded", time.Minute, func(ctx context.Context) (bool, string, error) {
		err := s.Delete(ctx, witness, client.DryRunAll)
		return apierrors.IsForbidden(err), fmt.Sprint(err), nil
	}))
}

// unprotect removes the policy, and waits until a witness can be deleted again: what is left of the test is to go.
func unprotect(ctx context.Context, t *testing.T, s *scope) {
	t.Helper()
	for _, o := range []client.Object{
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: s.ns}},
	} {
		must(t, client.IgnoreNotFound(s.Delete(ctx, o)))
	}
	witness := claimOf(s.ns)
	s.create(ctx, t, witness)
	must(t, harness.Eventually(ctx, "the policy to be forgotten", time.Minute, func(ctx context.Context) (bool, string, error) {
		err := s.Delete(ctx, witness, client.DryRunAll)
		return err == nil, fmt.Sprint(err), nil
	}))
}
