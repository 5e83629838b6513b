package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

func TestRetainedClaimsBringTheDataBack(t *testing.T) {
	t.Parallel()
	plain := v1alpha1.TLSDisabled
	feature := features.New("deletionPolicy Retain").
		Assess("etcd", step(func(ctx context.Context, t *testing.T, s *scope) {
			retained := func() *v1alpha1.EtcdCluster {
				return s.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) { e.Storage = volume(v1alpha1.DeletionRetain) })
			}
			deleteAndRecreate(ctx, t, s, 3, retained)
			waitRemains(ctx, t, s, "orders", 3)
			forgotten := s.etcdOf(t, "orders", 1, func(e *v1alpha1.EtcdClusterSpec) { e.Storage = nil })
			must(t, s.Create(ctx, forgotten))
			waitStalled(ctx, t, s, forgotten, "spec.storage is not set")
			must(t, s.Delete(ctx, forgotten))
			waitRemains(ctx, t, s, "orders", 3)
			third := retained()
			createReady(ctx, t, s, third)
			checkMarks(ctx, t, s, third)
			must(t, s.Delete(ctx, third))
		})).
		Assess("etcd, with a password that is all that opens it", step(func(ctx context.Context, t *testing.T, s *scope) {
			deleteAndRecreate(ctx, t, s, 1, func() *v1alpha1.EtcdCluster {
				return s.etcdOf(t, "plain", 1, func(e *v1alpha1.EtcdClusterSpec) {
					e.Storage, e.TLS = volume(v1alpha1.DeletionRetain), &v1alpha1.TLSSpec{Mode: &plain}
				})
			}, "*v1.Secret plain-auth")
		})).
		Assess("redis", step(func(ctx context.Context, t *testing.T, s *scope) {
			deleteAndRecreate(ctx, t, s, 6, func() *v1alpha1.RedisCluster {
				return s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) { r.Storage = volume(v1alpha1.DeletionRetain) })
			})
		}))
	suite.Test(t, feature.Feature())
}

// deleteAndRecreate checks that the claims, and what else is named, are all that stays of a deleted cluster, and that it is
// enough.
func deleteAndRecreate[O target](ctx context.Context, t *testing.T, s *scope, claims int, fresh func() O, kept ...string) {
	t.Helper()
	first := fresh()
	createReady(ctx, t, s, first)
	writeMarks(ctx, t, s, first)
	must(t, s.Delete(ctx, first))
	waitRemains(ctx, t, s, first.GetName(), claims, kept...)
	second := fresh()
	began := time.Now()
	createReady(ctx, t, s, second)
	figure(t, "%s is Ready %.1f s after it was created again", second.GetName(), time.Since(began).Seconds())
	checkMarks(ctx, t, s, second)
	must(t, s.Delete(ctx, second))
}

func TestDeletedClaimsGoWithTheCluster(t *testing.T) {
	t.Parallel()
	feature := features.New("deletionPolicy Delete").
		Assess("etcd", step(func(ctx context.Context, t *testing.T, s *scope) {
			c := s.etcdOf(t, "orders", 1)
			createReady(ctx, t, s, c)
			must(t, s.Delete(ctx, c))
			waitRemains(ctx, t, s, c.Name, 0)
		})).
		Assess("redis", step(func(ctx context.Context, t *testing.T, s *scope) {
			c := s.redisOf(t, "carts", 0)
			createReady(ctx, t, s, c)
			must(t, s.Delete(ctx, c))
			waitRemains(ctx, t, s, c.Name, 0)
		}))
	suite.Test(t, feature.Feature())
}

// waitRemains waits until nothing of a deleted cluster is left but so many claims and what is named.
func waitRemains(ctx context.Context, t *testing.T, s *scope, name string, claims int, named ...string) {
	t.Helper()
	what := fmt.Sprintf("only %d claims to remain of %s", claims, name)
	must(t, harness.Eventually(ctx, what, 3*time.Minute, func(ctx context.Context) (bool, string, error) {
		rest, err := s.remains(ctx, name, &corev1.PodList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
			&appsv1.StatefulSetList{}, &policyv1.PodDisruptionBudgetList{})
		if err != nil {
			return false, "unknown", err
		}
		kept, err := s.remains(ctx, name, &corev1.PersistentVolumeClaimList{})
		return slices.Equal(rest, named) && len(kept) == claims, fmt.Sprintf("there are %v and the claims %v", rest, kept), err
	}))
	// What is gone stays gone: no claim follows its pod a little later.
	must(t, harness.Throughout(ctx, 5*time.Second, func(ctx context.Context) error {
		kept, err := s.remains(ctx, name, &corev1.PersistentVolumeClaimList{})
		if err == nil && len(kept) != claims {
			err = fmt.Errorf("the claims are now %v, want %d", kept, claims)
		}
		return err
	}))
}

// remains lists what carries the label of a cluster.
func (s *scope) remains(ctx context.Context, name string, lists ...client.ObjectList) ([]string, error) {
	var found []string
	for _, list := range lists {
		err := s.List(ctx, list, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: name})
		if err != nil {
			return nil, err
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			found = append(found, fmt.Sprintf("%T %s", o, o.(metav1.Object).GetName()))
			return nil
		})
	}
	slices.Sort(found)
	return found, nil
}
