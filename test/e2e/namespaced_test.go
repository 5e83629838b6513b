package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

func TestANamespacedOperatorKeepsToItsNamespace(t *testing.T) {
	// One namespace must not have two operators: the one for all of them comes back when that of this test is gone with its
	// namespace, whatever became of the test.
	t.Cleanup(func() { scaleManager(context.Background(), t, &scope{Cluster: kind}, 1) })
	var outside *scope
	var foreigner *v1alpha1.EtcdCluster
	feature := features.New("config/namespaced").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			stopManager(ctx, t, s)
			outside = anotherNamespace(ctx, t, s)
			foreigner = outside.etcdOf(t, "orders", 1)
			s.create(ctx, t, foreigner)
			must(t, s.DeployNamespaced(ctx, t.TempDir(), s.ns))
		})).
		Assess("clusters in its namespace become Ready", step(func(ctx context.Context, t *testing.T, s *scope) {
			etcd, redis := s.etcdOf(t, "orders", 1), s.redisOf(t, "carts", 0)
			s.create(ctx, t, etcd)
			s.create(ctx, t, redis)
			waitReady(ctx, t, s, etcd)
			waitReady(ctx, t, s, redis)
			writeMarks(ctx, t, s, etcd)
			writeMarks(ctx, t, s, redis)
			user := s.userOf("orders-app", nil)
			s.create(ctx, t, user)
			must(t, harness.WaitReady(ctx, s.Cluster, user, time.Minute))
			must(t, s.Delete(ctx, user))
			must(t, s.WaitGone(ctx, user, time.Minute))
		})).
		Assess("a cluster elsewhere is left alone", step(func(ctx context.Context, t *testing.T, s *scope) {
			// It is older than the two that are Ready by now.
			if status := refresh(ctx, t, s, foreigner).Status; status.ObservedGeneration != 0 || len(status.Conditions) > 0 {
				t.Errorf("it has a status: %+v", status)
			}
			found, err := outside.remains(ctx, foreigner.Name, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
				&appsv1.StatefulSetList{}, &corev1.PodList{})
			must(t, err)
			if len(found) > 0 {
				t.Errorf("there are %v", found)
			}
		})).
		Assess("its rights end at its namespace", step(func(ctx context.Context, t *testing.T, s *scope) {
			wantNamespacedRights(ctx, t, s, outside.ns)
		}))
	suite.Test(t, feature.Feature())
}

// stopManager stops the operator for all namespaces and waits until it works no more.
func stopManager(ctx context.Context, t *testing.T, s *scope) {
	t.Helper()
	scaleManager(ctx, t, s, 0)
	must(t, harness.Eventually(ctx, "the last manager to end", time.Minute, func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		err := s.List(ctx, &pods, client.InNamespace(harness.SystemNamespace))
		return len(pods.Items) == 0, fmt.Sprintf("%d pods are left", len(pods.Items)), err
	}))
}

// anotherNamespace makes a namespace beside that of the test.
func anotherNamespace(ctx context.Context, t *testing.T, s *scope) *scope {
	t.Helper()
	ns, err := s.NewNamespace(ctx, "outside")
	must(t, err)
	t.Cleanup(func() {
		(&scope{s.Cluster, ns}).wantNoLeaks(context.WithoutCancel(ctx), t)
		if err := s.DeleteNamespace(context.WithoutCancel(ctx), ns); err != nil {
			t.Errorf("remove the namespace: %v", err)
		}
	})
	return &scope{s.Cluster, ns}
}

// wantNamespacedRights asks what kubectl auth can-i asks. What is allowed shows that the question names the right user.
func wantNamespacedRights(ctx context.Context, t *testing.T, s *scope, elsewhere string) {
	t.Helper()
	const everywhere = ""
	for _, q := range []struct {
		verb, group, resource, ns string
		want                      bool
	}{
		{"get", "", "secrets", s.ns, true},
		{"list", "quorate.dev", "etcdclusters", s.ns, true},
		{"patch", "apps", "statefulsets", s.ns, true},
		{"create", "authentication.k8s.io", "tokenreviews", everywhere, false},
		{"create", "authorization.k8s.io", "subjectaccessreviews", everywhere, false},
		{"get", "storage.k8s.io", "storageclasses", everywhere, false}, // The Role names them, and grants nothing thereby.
		{"list", "", "secrets", everywhere, false},
		{"get", "", "secrets", everywhere, false},
		{"get", "", "secrets", elsewhere, false},
		{"get", "", "secrets", harness.SystemNamespace, false},
		{"list", "quorate.dev", "etcdclusters", everywhere, false},
		{"list", "quorate.dev", "etcdclusters", elsewhere, false},
		{"patch", "apps", "statefulsets", elsewhere, false},
		{"delete", "", "pods", elsewhere, false},
		{"update", "coordination.k8s.io", "leases", harness.SystemNamespace, false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + s.ns + ":" + harness.Manager,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + s.ns, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: q.ns, Verb: q.verb, Group: q.group, Resource: q.resource,
			},
		}}
		answer, err := s.Clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		must(t, err)
		if answer.Status.Allowed != q.want {
			t.Errorf("may %s %s in namespace %q (empty: all): %v, want %v: %s", q.verb, q.resource, q.ns, answer.Status.Allowed, q.want,
				answer.Status.Reason)
		}
	}
}
