package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// mebibyte is the size of one bulky value.
const mebibyte = 1 << 20

// TestEtcdIsDefragmentedUnderLoad frees most of the databases while a writer runs.
func TestEtcdIsDefragmentedUnderLoad(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("freed space goes back to the file system").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			c.Spec.Maintenance = &v1alpha1.EtcdMaintenanceSpec{
				Defragmentation: &v1alpha1.DefragmentationSpec{MinFree: ptr.To(resource.MustParse("64Mi"))},
			}
			createReady(ctx, t, s, c)
			inBulk(ctx, t, s, c, func(ctx context.Context, bulk *clientv3.Client) error {
				for range 120 {
					if _, err := bulk.Put(ctx, "bulky", strings.Repeat("x", mebibyte)); err != nil {
						return err
					}
				}
				return nil
			})
		})).
		Assess("one member after the other, while writes go on", step(func(ctx context.Context, t *testing.T, s *scope) {
			load := startLoad(ctx, t, s, c)
			inBulk(ctx, t, s, c, func(ctx context.Context, bulk *clientv3.Client) error {
				r, err := bulk.Delete(ctx, "bulky")
				if err == nil {
					_, err = bulk.Compact(ctx, r.Header.Revision)
				}
				return err
			})
			must(t, harness.Eventually(ctx, "three defragmentations", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
				notes, err := s.notes(ctx, "ServingAgain")
				return len(notes) == 3, fmt.Sprint(notes), err
			}))
			waitReady(ctx, t, s, c)
			summary := stopLoad(ctx, t, load, "three members defragmented; ")
			nothingLost(t, summary)
			noErrors(t, summary)
		})).
		Assess("all serve again, and were not restarted", step(func(ctx context.Context, t *testing.T, s *scope) {
			notes, err := s.notes(ctx, "ServingAgain")
			must(t, err)
			for _, note := range notes {
				figure(t, "%s", note)
			}
			for _, p := range s.pods(ctx, t, c) {
				if p.Labels[v1alpha1.LabelServing] != "true" || p.Status.ContainerStatuses[0].RestartCount > 0 {
					t.Errorf("%s: labels %v, %d restarts", p.Name, p.Labels, p.Status.ContainerStatuses[0].RestartCount)
				}
			}
		}))
	suite.Test(t, feature.Feature())
}

// TestAFullEtcdIsCured fills a small database with history while a writer runs.
func TestAFullEtcdIsCured(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("a database that reached its quota").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			c.Spec.Config = &v1alpha1.EtcdConfig{QuotaBackendBytes: ptr.To(resource.MustParse("32Mi"))}
			createReady(ctx, t, s, c)
		})).
		Assess("is written to again", step(func(ctx context.Context, t *testing.T, s *scope) {
			load := startLoad(ctx, t, s, c)
			inBulk(ctx, t, s, c, func(ctx context.Context, bulk *clientv3.Client) error {
				for {
					_, err := bulk.Put(ctx, "bulky", strings.Repeat("x", mebibyte))
					if errors.Is(err, rpctypes.ErrNoSpace) {
						return nil
					}
					if err != nil {
						return err
					}
				}
			})
			began := time.Now()
			must(t, harness.Eventually(ctx, "the alarm to be disarmed", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
				notes, err := s.notes(ctx, "DisarmingAlarm")
				return len(notes) > 0, fmt.Sprint(notes), err
			}))
			waitReady(ctx, t, s, c)
			healed := time.Since(began)
			_, err := load.WaitAcked(ctx, 100, time.Minute)
			must(t, err)
			nothingLost(t, stopLoad(ctx, t, load, "full, and Ready again after %.1f s; ", healed.Seconds()))
			must(t, harness.WaitCondition(ctx, s.Cluster, c, metav1.Condition{Type: v1alpha1.ConditionSpaceHealthy, Status: metav1.ConditionTrue}, time.Minute))
		}))
	suite.Test(t, feature.Feature())
}

// inBulk runs what moves much data, with a client of the first member.
func inBulk(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, do func(context.Context, *clientv3.Client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	bulk, err := s.Etcd(ctx, s.ns, c.Name+"-0", conn)
	must(t, err)
	defer func() { _ = bulk.Close() }()
	must(t, do(ctx, bulk))
}

// notes are what the events with a reason say.
func (s *scope) notes(ctx context.Context, reason string) ([]string, error) {
	var list eventsv1.EventList
	if err := s.List(ctx, &list, client.InNamespace(s.ns)); err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list.Items {
		if e.Reason == reason {
			out = append(out, e.Note)
		}
	}
	return out, nil
}
