package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/chaos/report"
	"github.com/quorate/quorate/test/harness"
)

const (
	// lookEvery is how often everything is looked at, glance how long that may take: the API server may stand still.
	lookEvery = time.Second
	glance    = 4 * time.Second
	// silence is how long a writer may have nothing acknowledged in a cluster that is well.
	silence = 10 * time.Second
)

// look follows the clusters, their pods and events, the writers and the operator until the context ends. Pods and events are watched: to
// list them every second would be most of what the API server has to do.
func (r *runner) look(ctx context.Context) {
	watched := informers.NewSharedInformerFactoryWithOptions(r.Clients, 0, informers.WithNamespace(r.ns))
	pods := watched.Core().V1().Pods().Lister()
	noted := func(o any) {
		if e, ok := o.(*eventsv1.Event); ok {
			r.noteStep(e)
		}
	}
	if _, err := watched.Events().V1().Events().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: noted, UpdateFunc: func(_, o any) { noted(o) },
	}); err != nil {
		r.broken("watch events: %v", err)
	}
	watched.Start(ctx.Done())
	defer watched.Shutdown()
	watched.WaitForCacheSync(ctx.Done())
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var all sync.WaitGroup
		once, cancel := context.WithTimeout(ctx, glance)
		for _, t := range r.targets {
			all.Go(func() { r.lookAt(once, t, pods) })
		}
		all.Go(func() { r.lookAtOperator(once) })
		all.Wait()
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lookAt finds out whether a cluster is well: Ready as it was asked for, every pod ready, and writes acknowledged.
func (r *runner) lookAt(ctx context.Context, t *target, all corelisters.PodLister) {
	object := t.object.DeepCopyObject().(client.Object)
	if err := r.Get(ctx, client.ObjectKeyFromObject(t.object), object); err != nil {
		t.found("it cannot be read: " + err.Error())
		return
	}
	pods, err := all.Pods(r.ns).List(labels.SelectorFromSet(cluster.Selector(t.Name, t.component)))
	if err != nil {
		t.found(err.Error())
		return
	}
	for _, w := range t.loads {
		if s, err := w.load.Progress(ctx); err == nil && s.Acked > w.acked {
			w.acked, w.grew = s.Acked, time.Now()
		}
	}
	ready := conditionOf(object, v1alpha1.ConditionReady)
	available := conditionOf(object, v1alpha1.ConditionAvailable)
	r.healthOf(t, ready, available, pods)
	t.found(wrong(object, ready, pods, t.loads))
}

// wrong says what is wrong with a cluster, empty when nothing is.
func wrong(o client.Object, ready metav1.Condition, pods []*corev1.Pod, loads []*writer) string {
	if ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != o.GetGeneration() {
		return fmt.Sprintf("%s, %s: %s", ready.Status, ready.Reason, ready.Message)
	}
	if text := unready(pods, podsWanted(o)); text != "" {
		return "pods: " + text
	}
	for _, w := range loads {
		if time.Since(w.grew) > silence {
			return "no write is acknowledged to " + w.Name
		}
	}
	return ""
}

// found notes what is wrong with a cluster.
func (t *target) found(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen, t.why = time.Now(), why
	switch {
	case why != "":
		t.since = time.Time{}
	case t.since.IsZero():
		t.since = t.seen
	}
}

// disturbed is when a cluster was not well for the last time.
func (t *target) disturbed() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		return time.Now()
	}
	return t.since
}

func conditionOf(o client.Object, name string) metav1.Condition {
	c, ok := o.(harness.Conditioned)
	if !ok {
		return metav1.Condition{}
	}
	if found := meta.FindStatusCondition(c.GetConditions(), name); found != nil {
		return *found
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Missing", Message: "there is no condition " + name}
}

// healthOf notes what has changed about a cluster and its pods.
func (r *runner) healthOf(t *target, ready, available metav1.Condition, pods []*corev1.Pod) {
	now := time.Now()
	r.keep(func(run *report.Run) {
		h := report.Health{From: now, OK: ready.Status == metav1.ConditionTrue, Reason: ready.Reason, Text: ready.Message, Available: available.Status == metav1.ConditionTrue}
		if all := run.Ready[t.Name]; len(all) == 0 || all[len(all)-1].OK != h.OK || all[len(all)-1].Reason != h.Reason || all[len(all)-1].Available != h.Available {
			run.Ready[t.Name] = append(all, h)
			r.note("ready "+t.Name, h)
		}
		there := map[string]bool{}
		for _, p := range pods {
			there[p.Name] = true
			r.podIs(run, p.Name, report.Health{From: now, OK: harness.IsReady(p), Text: p.Spec.NodeName})
		}
		for name := range run.Pods {
			if strings.HasPrefix(name, t.Name+"-") && !there[name] {
				r.podIs(run, name, report.Health{From: now, Reason: report.Gone})
			}
		}
	})
}

// podIs notes what a pod is, if that is something else than before.
func (r *runner) podIs(run *report.Run, name string, h report.Health) {
	if all := run.Pods[name]; len(all) == 0 || all[len(all)-1].OK != h.OK || all[len(all)-1].Reason != h.Reason {
		run.Pods[name] = append(all, h)
		r.note("pod "+name, h)
	}
}

// noteStep notes a step that the operator tells of.
func (r *runner) noteStep(e *eventsv1.Event) {
	if e.Regarding.Kind != "EtcdCluster" && e.Regarding.Kind != "RedisCluster" {
		return
	}
	at := e.EventTime.Time
	if e.Series != nil {
		at = e.Series.LastObservedTime.Time
	}
	if at.IsZero() {
		at = e.CreationTimestamp.Time
	}
	r.keep(func(run *report.Run) {
		if id := fmt.Sprint(e.UID, at); !r.noted[id] && at.After(run.Began.Add(-time.Second)) {
			r.noted[id] = true
			s := report.Step{At: at, Cluster: e.Regarding.Name, Reason: e.Reason, Text: e.Note}
			run.Steps = append(run.Steps, s)
			r.note("step", s)
		}
	})
}

// lookAtOperator notes the ends of the operator's processes.
func (r *runner) lookAtOperator(ctx context.Context) {
	pods, err := r.ManagerPods(ctx)
	if err != nil {
		return
	}
	for _, p := range pods {
		for _, s := range p.Status.ContainerStatuses {
			end := s.LastTerminationState.Terminated
			id := fmt.Sprint(p.UID, s.RestartCount)
			if end == nil || r.ended[id] || end.FinishedAt.Time.Before(r.run.Began) {
				continue
			}
			r.ended[id] = true
			e := report.OperatorEnd{Pod: p.Name, At: end.FinishedAt.Time, Why: end.Reason, Code: end.ExitCode, Panic: r.panicOf(ctx, p.Name)}
			r.keep(func(run *report.Run) { run.Ends = append(run.Ends, e) })
			r.say("operator", e, "operator %s ended: %s (exit code %d)", e.Pod, e.Why, e.Code)
		}
	}
}

// panicOf finds the first line of a panic in what the process before has logged.
func (r *runner) panicOf(ctx context.Context, pod string) string {
	raw, err := r.Clients.CoreV1().Pods(harness.SystemNamespace).GetLogs(pod, &corev1.PodLogOptions{Previous: true}).DoRaw(ctx)
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(raw)) {
		if strings.HasPrefix(l, "panic:") || strings.HasPrefix(l, "fatal error:") {
			return strings.TrimSpace(l)
		}
	}
	return ""
}
