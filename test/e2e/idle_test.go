package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// maxIdleMemory is the largest working set of the manager in bytes: what kubectl top shows and memory limits count.
const maxIdleMemory = 64 << 20

// settleTime passes between Ready and the measurement: what is Ready may still have a last event to write.
const settleTime = 20 * time.Second

// maxWritesShown bounds the message of a failure.
const maxWritesShown = 25

// TestAnIdleOperatorWritesNothing leaves two settled clusters alone for E2E_IDLE (default 60s).
func TestAnIdleOperatorWritesNothing(t *testing.T) {
	window := time.Minute
	if text := os.Getenv("E2E_IDLE"); text != "" {
		var err error
		window, err = time.ParseDuration(text)
		must(t, err)
	}
	feature := features.New("idle").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			etcd, redis := s.etcdOf(t, "orders", 3), s.redisOf(t, "carts", 1)
			s.create(ctx, t, etcd)
			s.create(ctx, t, redis)
			waitReady(ctx, t, s, etcd)
			waitReady(ctx, t, s, redis)
			// Of clusters that have just started enough is known at once, or after some looks where one was slow to answer: nothing is left
			// to be written later.
			must(t, harness.WaitCondition(ctx, s.Cluster, etcd, metav1.Condition{Type: v1alpha1.ConditionPerformanceHealthy, Status: metav1.ConditionTrue}, 10*settleTime))
			must(t, harness.WaitCondition(ctx, s.Cluster, redis, metav1.Condition{Type: v1alpha1.ConditionPerformanceHealthy, Status: metav1.ConditionTrue}, 10*settleTime))
			rest(ctx, settleTime)
		})).
		Assess("no write but the lease", step(func(ctx context.Context, t *testing.T, s *scope) {
			from := time.Now()
			rest(ctx, window)
			requests, err := s.requests(ctx, from, time.Now())
			must(t, err)
			writes, renewals, reads := sortRequests(requests, s.ns)
			figure(t, "%d writes, %d lease renewals and %d other requests in %s with settled clusters of both kinds",
				len(writes), renewals, reads, window)
			if renewals == 0 {
				t.Errorf("among %d requests there is no renewal of the lease, which every leader sends: this looks at the wrong log "+
					"or the wrong user", len(requests))
			}
			if len(writes) > 0 {
				t.Errorf("an idle operator wrote:\n%s", strings.Join(writes[:min(len(writes), maxWritesShown)], "\n"))
			}
		})).
		Assess("little memory", step(func(ctx context.Context, t *testing.T, s *scope) {
			_, text, err := s.metrics(ctx, s.token(ctx, t, "reader", true))
			must(t, err)
			resident, err := metricValue(text, "process_resident_memory_bytes")
			must(t, err)
			used, err := s.managerWorkingSet(ctx)
			must(t, err)
			const mib = 1 << 20
			figure(t, "the manager's working set is %.1f MiB (limit 64); with the pages of its program file, which the "+
				"kernel may drop, %.1f MiB are resident", used/mib, resident/mib)
			if used > maxIdleMemory {
				t.Errorf("a working set of %.1f MiB is too much", used/mib)
			}
		}))
	suite.Test(t, feature.Feature())
}

// rest lets time pass in which nothing is done.
func rest(ctx context.Context, d time.Duration) {
	_ = harness.Throughout(ctx, d, func(context.Context) error { return nil })
}

// managerWorkingSet asks the kubelet how much memory the manager's pod takes.
func (s *scope) managerWorkingSet(ctx context.Context) (float64, error) {
	pods, err := s.ManagerPods(ctx)
	if err != nil {
		return 0, err
	}
	for _, p := range pods {
		raw, err := s.Clients.CoreV1().RESTClient().Get().Resource("nodes").Name(p.Spec.NodeName).SubResource("proxy").
			Suffix("stats/summary").DoRaw(ctx)
		if err != nil {
			return 0, fmt.Errorf("ask the kubelet of %s: %w", p.Spec.NodeName, err)
		}
		var summary struct {
			Pods []struct {
				PodRef struct{ Name string }
				Memory struct{ WorkingSetBytes float64 }
			}
		}
		if err := json.Unmarshal(raw, &summary); err != nil {
			return 0, fmt.Errorf("read what the kubelet says: %w", err)
		}
		for _, stats := range summary.Pods {
			if stats.PodRef.Name == p.Name {
				return stats.Memory.WorkingSetBytes, nil
			}
		}
	}
	return 0, errors.New("no kubelet knows of the manager")
}

// request is one line of the API server's audit log.
type request struct {
	Verb       string           `json:"verb"`
	RequestURI string           `json:"requestURI"`
	Received   metav1.MicroTime `json:"requestReceivedTimestamp"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource  string `json:"resource"`
		Namespace string `json:"namespace"`
	} `json:"objectRef"`
}

// requests reads what the operator asked of the API server in a window.
func (s *scope) requests(ctx context.Context, from, to time.Time) ([]request, error) {
	const log = "/var/log/kubernetes/audit.log"
	// A file that was just rotated holds the beginning of the window.
	out, err := s.OnNode(ctx, harness.ControlPlane, "sh", "-c",
		"cat $(ls -rt /var/log/kubernetes/audit*.log | tail -n 2) | grep -F '"+harness.ManagerUser+"' || test -s "+log)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	var found []request
	for line := range strings.Lines(out) {
		var r request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("read the audit log: %q: %w", line, err)
		}
		if r.User.Username == harness.ManagerUser && r.Received.After(from) && r.Received.Time.Before(to) {
			found = append(found, r)
		}
	}
	return found, nil
}

// sortRequests tells writes from renewals of the leader election's lease and from everything else. What was told again and again in the
// namespace of an earlier test is closed six minutes later (finishTime in tools/events of client-go): that is not about what idles here.
func sortRequests(requests []request, ns string) (writes []string, renewals, others int) {
	for _, r := range requests {
		switch {
		case !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb):
			others++
		case r.ObjectRef.Resource == "leases":
			renewals++
		case r.ObjectRef.Resource == "tokenreviews", r.ObjectRef.Resource == "subjectaccessreviews":
			others++ // Questions, though their verb is create: somebody read the metrics.
		case r.ObjectRef.Resource == "events" && r.ObjectRef.Namespace != ns:
			others++
		default:
			writes = append(writes, fmt.Sprintf("%s %s at %s", r.Verb, r.RequestURI, r.Received.Format(time.TimeOnly)))
		}
	}
	return writes, renewals, others
}
