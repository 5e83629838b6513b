package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/test/harness"
)

func TestMetricsAreServedToWhoeverMayReadThem(t *testing.T) {
	feature := features.New("metrics").
		Assess("an anonymous client is refused", step(func(ctx context.Context, t *testing.T, s *scope) {
			if code, _, err := s.metrics(ctx, ""); err != nil || (code != http.StatusUnauthorized && code != http.StatusForbidden) {
				t.Errorf("status %d, %v", code, err)
			}
		})).
		Assess("a client without the right is refused", step(func(ctx context.Context, t *testing.T, s *scope) {
			if code, _, err := s.metrics(ctx, s.token(ctx, t, "nobody", false)); err != nil || code != http.StatusForbidden {
				t.Errorf("status %d, %v", code, err)
			}
		})).
		Assess("an authorized client is served", step(func(ctx context.Context, t *testing.T, s *scope) {
			code, text, err := s.metrics(ctx, s.token(ctx, t, "reader", true))
			must(t, err)
			if code != http.StatusOK || !strings.Contains(text, "controller_runtime_reconcile_total") {
				t.Errorf("status %d:\n%.500s", code, text)
			}
		}))
	suite.Test(t, feature.Feature())
}

// token makes a service account, with or without the right to read metrics, and returns a token of it.
func (s *scope) token(ctx context.Context, t *testing.T, name string, reader bool) string {
	t.Helper()
	s.create(ctx, t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}})
	if reader {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: s.ns + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "quorate-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.ns, Name: name}},
		}
		s.create(ctx, t, binding)
		t.Cleanup(func() {
			if err := s.Delete(context.WithoutCancel(ctx), binding); err != nil {
				t.Errorf("remove the binding: %v", err)
			}
		})
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)}}
	answer, err := s.Clients.CoreV1().ServiceAccounts(s.ns).CreateToken(ctx, name, request, metav1.CreateOptions{})
	must(t, err)
	return answer.Status.Token
}

// metrics asks a manager for its metrics through a forwarded port.
func (s *scope) metrics(ctx context.Context, token string) (code int, text string, err error) {
	pods, err := s.ManagerPods(ctx)
	if err != nil || len(pods) == 0 {
		return 0, "", fmt.Errorf("find the manager among %d pods: %w", len(pods), err)
	}
	pod := types.NamespacedName{Namespace: pods[0].Namespace, Name: pods[0].Name}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return s.Dial(ctx, pod, "", harness.MetricsPort)
		},
		// The manager signs its own certificate; this is about who may read, not about whom one talks to.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://manager/metrics", http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(raw), err
}

// metricValue reads a plain gauge.
func metricValue(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

func TestAnotherManagerTakesOver(t *testing.T) {
	feature := features.New("leader election").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) { scaleManager(ctx, t, s, 2) })).
		Assess("the leader's pod is deleted", step(func(ctx context.Context, t *testing.T, s *scope) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: harness.LeaderLease}}
			old := holder(refresh(ctx, t, s, lease))
			runsOut := expiry(t, lease)
			pod, _, _ := strings.Cut(old, "_")
			began := time.Now()
			must(t, s.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: pod}}))
			must(t, harness.Until(ctx, s.Cluster, lease, harness.Deadline{What: "another manager to lead", Within: time.Minute}, func(l *coordinationv1.Lease) (bool, string) {
				return holder(l) != "" && holder(l) != old, "the leader is " + holder(l)
			}))
			figure(t, "another manager leads %.1f s after the leader's pod was deleted", time.Since(began).Seconds())
			// A lease that is not released can be had only after it ran out, which every later renewal put off.
			if acquired := lease.Spec.AcquireTime; acquired == nil || !acquired.Time.Before(runsOut) {
				t.Errorf("the lease was not handed over but ran out: acquired at %s, ran out at %s or later", acquired, runsOut)
			}
		})).
		Assess("the new leader works", step(func(ctx context.Context, t *testing.T, s *scope) {
			createReady(ctx, t, s, s.etcdOf(t, "orders", 1))
		})).
		Teardown(step(func(ctx context.Context, t *testing.T, s *scope) { scaleManager(ctx, t, s, 1) }))
	suite.Test(t, feature.Feature())
}

// expiry is when a lease runs out unless its holder renews it.
func expiry(t *testing.T, l *coordinationv1.Lease) time.Time {
	t.Helper()
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		t.Fatalf("the lease does not say how long it holds: %+v", l.Spec)
	}
	return l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
}

func holder(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "") }

func scaleManager(ctx context.Context, t *testing.T, s *scope, replicas int32) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: harness.Manager}}
	before := refresh(ctx, t, s, d).DeepCopy()
	d.Spec.Replicas = ptr.To(replicas)
	must(t, s.Patch(ctx, d, client.MergeFrom(before)))
	must(t, harness.Until(ctx, s.Cluster, d, harness.Deadline{What: "the managers to run", Within: 2 * time.Minute}, func(d *appsv1.Deployment) (bool, string) {
		st := d.Status
		return st.ObservedGeneration == d.Generation && st.Replicas == replicas && st.ReadyReplicas == replicas,
			fmt.Sprintf("%d of %d are ready", st.ReadyReplicas, st.Replicas)
	}))
}

func TestAManagerKilledDuringBootstrapIsNoMatter(t *testing.T) {
	feature := features.New("the manager is killed").Assess("three times while two clusters start", step(func(ctx context.Context, t *testing.T, s *scope) {
		etcd, redis := s.etcdOf(t, "orders", 3), s.redisOf(t, "carts", 1)
		began := time.Now()
		s.create(ctx, t, etcd)
		s.create(ctx, t, redis)
		for _, moment := range []func() bool{
			func() bool { return len(s.pods(ctx, t, etcd)) > 0 },
			func() bool { return refresh(ctx, t, s, etcd).Status.ClusterID != "" },
			func() bool { return refresh(ctx, t, s, redis).Status.ShardCount > 0 },
		} {
			must(t, harness.Eventually(ctx, "the moment to kill", time.Minute, func(context.Context) (bool, string, error) {
				return moment(), "not yet", nil
			}))
			killManagers(ctx, t, s)
		}
		waitReady(ctx, t, s, etcd)
		waitReady(ctx, t, s, redis)
		figure(t, "both clusters are Ready after %.1f s although the manager was killed three times", time.Since(began).Seconds())
		writeMarks(ctx, t, s, etcd)
		writeMarks(ctx, t, s, redis)
	}))
	suite.Test(t, feature.Feature())
}

// killManagers takes the operator's pods away without a chance to say goodbye.
func killManagers(ctx context.Context, t *testing.T, s *scope) {
	t.Helper()
	pods, err := s.ManagerPods(ctx)
	must(t, err)
	for i := range pods {
		must(t, client.IgnoreNotFound(s.Delete(ctx, &pods[i], client.GracePeriodSeconds(0))))
	}
}
