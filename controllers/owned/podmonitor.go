package owned

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
)

// PodMonitors are read by name from the API server, and deleted when spec.monitoring is: a watch would keep the manager from starting
// where their CRD is missing, and would take the right to read those of others.
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;create;patch;delete

const (
	// monitorsAsked is how often the API server is asked whether it knows PodMonitors while it does not.
	monitorsAsked = 30 * time.Second
	// monitorRead is how often a PodMonitor is read that was found in place: so long may a change by other hands last.
	monitorRead = time.Minute
	// monitoredForgotten is when what is known of a cluster is forgotten that nobody has looked at.
	monitoredForgotten = time.Hour
)

// monitoring is what the operator knows of how clusters are monitored. With a restart it is lost, and read anew.
type monitoring struct {
	mu sync.Mutex
	// served says whether the API server knows PodMonitors, as it did at asked.
	served   bool
	asked    time.Time
	clusters map[types.UID]monitored
	swept    time.Time
}

// monitored is what is known of one cluster.
type monitored struct {
	// seen is when the cluster was last looked at, and tried says that it was tried to bring everything into place.
	seen  time.Time
	tried bool
	// wish tells apart what the PodMonitor was to be when it was last found in place, at read; the empty one is for none.
	wish string
	read time.Time
	// problem is what kept the last attempt from bringing everything into place, nil: nothing did.
	problem error
}

// of is what is known of a cluster.
func (m *monitoring) of(uid types.UID) monitored {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusters[uid]
}

// note changes what is known of a cluster. Those that nobody has looked at for long are gone, and are forgotten.
func (m *monitoring) note(uid types.UID, now time.Time, change func(*monitored)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.swept) > monitoredForgotten {
		maps.DeleteFunc(m.clusters, func(_ types.UID, c monitored) bool { return now.Sub(c.seen) > monitoredForgotten })
		m.swept = now
	}
	if m.clusters == nil {
		m.clusters = map[types.UID]monitored{}
	}
	c := m.clusters[uid]
	change(&c)
	c.seen = now
	m.clusters[uid] = c
}

// knowsPodMonitors tells whether the API server does. While it does not, it is asked from time to time, by one cluster for all.
func (c *Client) knowsPodMonitors() bool {
	if served, ask := c.monitoring.due(c.Now()); !ask {
		return served
	}
	_, err := c.RESTMapper().RESTMapping(kube.PodMonitorKind.GroupKind(), kube.PodMonitorKind.Version)
	c.monitoring.answered(err == nil, c.Now())
	return err == nil
}

// due says whether PodMonitors are known, as far as that was asked, and whether who wants to know is to ask again.
func (m *monitoring) due(now time.Time) (served, ask bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.served || now.Sub(m.asked) < monitorsAsked {
		return m.served, false
	}
	m.asked = now // Others do not ask meanwhile.
	return false, true
}

// answered notes whether the API server knows PodMonitors.
func (m *monitoring) answered(served bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.served, m.asked = served, now
}

// EnsurePodMonitor brings the PodMonitor of a cluster into place, or takes it away where there is to be none.
func (c *Client) EnsurePodMonitor(ctx context.Context, owner Owner, want kube.PodMonitor, wanted bool) error {
	var object *unstructured.Unstructured
	wish := ""
	if wanted {
		var err error
		if object, err = want.Build(); err != nil {
			return err
		}
		raw, err := json.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("encode PodMonitor %s: %w", want.Name, err)
		}
		sum := sha256.Sum256(raw)
		wish = string(sum[:])
	}
	known := c.monitoring.of(owner.GetUID())
	if !known.read.IsZero() && known.wish == wish && (!wanted || c.Now().Sub(known.read) < monitorRead) {
		return nil
	}
	if !c.knowsPodMonitors() {
		return noPodMonitors(wanted)
	}
	err := c.bringPodMonitor(ctx, owner, want.Name, object)
	if apierrors.IsForbidden(err) && !wanted {
		err = nil // Who may not read one has not made one.
	}
	if err != nil {
		return err
	}
	c.monitoring.note(owner.GetUID(), c.Now(), func(m *monitored) { m.wish, m.read = wish, c.Now() })
	return nil
}

// bringPodMonitor makes or corrects a PodMonitor, or deletes it where none is wanted.
func (c *Client) bringPodMonitor(ctx context.Context, owner Owner, name string, want *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kube.PodMonitorKind)
	live.SetNamespace(owner.GetNamespace())
	live.SetName(name)
	if want == nil {
		return c.DeleteOwned(ctx, owner, live)
	}
	err := c.Apply(ctx, owner, live, client.ApplyConfigurationFromUnstructured(want))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) { // The CRD was deleted meanwhile.
		c.monitoring.answered(false, c.Now())
		return noPodMonitors(true)
	}
	return err
}

// noPodMonitors is what is wrong where the API server knows none: nothing, if none is wanted.
func noPodMonitors(wanted bool) error {
	if !wanted {
		return nil
	}
	return cluster.Refusal{Reason: v1alpha1.ReasonPodMonitorCRDMissing, Message: "there is no PodMonitor, because the CRD " + kube.PodMonitorCRD +
		" is not installed: install the operator of Prometheus, or set spec.monitoring.podMonitor.enabled to false and have the metrics read otherwise"}
}

// DeleteOwned deletes an object if it is a child of the owner. live is an empty object with name and namespace set.
func (c *Client) DeleteOwned(ctx context.Context, owner Owner, live client.Object) error {
	gvk, err := apiutil.GVKForObject(live, c.Scheme())
	if err != nil {
		return fmt.Errorf("delete %T: %w", live, err)
	}
	what := gvk.Kind + " " + live.GetName()
	err = c.Get(ctx, client.ObjectKeyFromObject(live), live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	if !metav1.IsControlledBy(live, owner) || live.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := live.GetUID()
	return IgnoreDeleted(c.Delete(ctx, live, client.Preconditions{UID: &uid}), what)
}

// NoteMonitoring remembers what came of an attempt to bring into place what spec.monitoring asks for. It is no error of the pass: nothing waits for
// metrics. The condition tells it, and it is tried again with the next pass.
func (c *Client) NoteMonitoring(owner Owner, problem error) {
	c.monitoring.note(owner.GetUID(), c.Now(), func(m *monitored) { m.tried, m.problem = true, problem })
}

// MonitoringCondition says how far that is; nil where nothing is asked for and nothing is left of it. found is what was seen since to be wrong.
func (c *Client) MonitoringCondition(owner Owner, wanted bool, found error) *metav1.Condition {
	known := c.monitoring.of(owner.GetUID())
	problem := errors.Join(known.problem, found)
	out := &metav1.Condition{Type: v1alpha1.ConditionMonitoringReady, Status: metav1.ConditionFalse}
	var (
		refusal cluster.Refusal
		hold    cluster.Hold
	)
	switch {
	case !wanted && problem == nil:
		return nil
	case !known.tried:
		out.Status, out.Reason, out.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "nothing was looked at yet"
		if owner.IsPaused() {
			out.Reason, out.Message = v1alpha1.ReasonPaused, "spec.paused is true, so nothing is brought into place"
		}
	case known.problem != nil && !WaitsForIssuer(known.problem): // Whatever else is missing may be its doing.
		out.Reason, out.Message = v1alpha1.ReasonReconcileError, strings.ReplaceAll(known.problem.Error(), "\n", "; ")
	case errors.As(problem, &refusal):
		out.Reason, out.Message = refusal.Reason, refusal.Message
	case errors.As(problem, &hold):
		out.Reason, out.Message = v1alpha1.ReasonMonitoringPending, hold.Message
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, v1alpha1.ReasonMonitored, "all that spec.monitoring asks for is in place"
	}
	return out
}

// ReportMonitoring puts that into the conditions of a cluster, or takes it out.
func ReportMonitoring(list *[]metav1.Condition, now time.Time, generation int64, ready *metav1.Condition) {
	if ready == nil {
		meta.RemoveStatusCondition(list, v1alpha1.ConditionMonitoringReady)
		return
	}
	conditions.Set(list, now, generation, *ready)
}
