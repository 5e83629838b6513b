package owned

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// Backups, checks and restores run in Jobs, and a Job that is over, or of no use any more, is deleted.
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete

// TakeLimit is how long a Job may take that makes a backup.
const TakeLimit = 24 * time.Hour

const (
	// flowTimeout bounds the question how far a Job is. It is asked again.
	flowTimeout = time.Second
	// maxFlow is far more than the answer.
	maxFlow = 64 << 10
	// letGo is how long after its agent a pod may end.
	letGo = 30 * time.Second
)

// Job reads what Kubernetes says of a Job of the agent and of its pods, which the labels select, and how far it is; nil when there is
// none that belongs to the owner.
func (c *Client) Job(ctx context.Context, owner Owner, name string, selector map[string]string) (*planner.Job, error) {
	job := &batchv1.Job{}
	err := c.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, job)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Job %s: %w", name, err)
	}
	if own, err := c.Owns(ctx, owner, job); !own || err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(owner.GetNamespace()), client.MatchingLabels(selector)); err != nil {
		return nil, fmt.Errorf("list the pods of Job %s: %w", name, err)
	}
	out := JobState(job, podsOf(job, pods.Items), c.Now())
	out.Again = out.Again && c.Now().Sub(owner.GetCreationTimestamp().Time) < TakeLimit // Kubernetes would not try for ever either.
	if out.Ended {
		return out, nil
	}
	for _, p := range podsOf(job, pods.Items) {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			out.Flow = c.Flow(ctx, &p)
		}
	}
	return out, nil
}

// podsOf are the pods of a Job, the oldest first.
func podsOf(job *batchv1.Job, pods []corev1.Pod) []corev1.Pod {
	out := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, job) })
	slices.SortFunc(out, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return out
}

// JobState returns the facts that planners decide on. now is the time of the operator.
func JobState(j *batchv1.Job, pods []corev1.Pod, now time.Time) *planner.Job {
	out := &planner.Job{
		Name: j.Name, Namespace: j.Namespace, UID: string(j.UID), For: j.Annotations[job.AnnotationFor], Leaving: j.DeletionTimestamp != nil,
		Suspended: ptr.Deref(j.Spec.Suspend, false), Podless: podless(j, pods), Since: j.CreationTimestamp.Time,
	}
	if began := j.Status.StartTime; began != nil { // It may have been suspended before.
		out.Since = began.Time
	}
	for i := range pods {
		p := &pods[i]
		status := ContainerStatus(p.Status.ContainerStatuses, job.Container)
		if status.State.Terminated == nil {
			out.Unpulled, out.Waiting = "", p.CreationTimestamp.Time
			if status.State.Running != nil {
				continue // Whatever somebody has put beside it.
			}
			if trouble := StuckReason(p); trouble != "" {
				out.Trouble = trouble
			}
			out.Unpulled = unpulled(p)
			continue
		}
		out.Starved = status.State.Terminated.Reason == reasonOOM
		if r, ok := job.ParseReport(status.State.Terminated.Message); ok && !out.Starved {
			out.Report, out.Trouble = &r, ""
			if r.Problem != nil {
				out.Trouble = r.Problem.Message
			}
			continue
		}
		out.Report, out.Trouble = nil, terminationMessage(status)
	}
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type { // The others are on the way to these two.
		case batchv1.JobComplete:
			out.Ended, out.Since = true, c.LastTransitionTime.Time
		case batchv1.JobFailed:
			out.Ended, out.Failed, out.Since = true, true, c.LastTransitionTime.Time
			if out.Trouble == "" {
				out.Trouble = c.Message
			}
		}
	}
	endHeld(out, pods, now)
	return out
}

// podless reports whether a Job never had a pod.
func podless(job *batchv1.Job, pods []corev1.Pod) bool {
	st := job.Status
	return len(pods) == 0 && st.Active == 0 && st.Failed == 0 && st.Succeeded == 0
}

// endHeld takes a Job as ended whose agent has, while another container keeps the newest pod running: the proxy of a service mesh that was injected runs
// for ever, and Kubernetes neither takes the Job as complete nor tries it again before the whole pod ends. An attempt that it would try again has
// not failed for good, see plan.Job.
func endHeld(out *planner.Job, pods []corev1.Pod, now time.Time) {
	if out.Ended || len(pods) == 0 {
		return
	}
	p := &pods[len(pods)-1]
	end := ContainerStatus(p.Status.ContainerStatuses, job.Container).State.Terminated
	if end == nil || p.Status.Phase != corev1.PodRunning || now.Sub(end.FinishedAt.Time) < letGo {
		return
	}
	out.Ended, out.Held, out.Since = true, true, end.FinishedAt.Time
	out.Failed = end.ExitCode != 0
	out.Again = out.Failed && end.ExitCode != job.ExitFinal
}

// Flow asks a pod how far it is. It may be about to begin or to end: no answer is none.
func (c *Client) Flow(ctx context.Context, p *corev1.Pod) *job.Flow {
	ctx, cancel := context.WithTimeout(ctx, flowTimeout)
	defer cancel()
	name, ip := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p.Status.PodIP
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c.Dial(ctx, name, ip, job.FlowPort)
		},
	}
	url := "http://" + net.JoinHostPort(ip, strconv.Itoa(job.FlowPort)) + job.FlowPath
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	out := &job.Flow{}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, maxFlow)).Decode(out) != nil {
		return nil
	}
	return out
}

// ResumeJob lets a suspended Job run.
func (c *Client) ResumeJob(ctx context.Context, owner Owner, name, uid string) error {
	job := &batchv1.Job{ObjectMeta: ObjectMeta(owner, name)}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"suspend":false}}`, uid))
	if err := c.Patch(ctx, job, patch, client.FieldOwner(cluster.ManagedBy)); err != nil {
		return fmt.Errorf("let Job %s run: %w", name, err)
	}
	return nil
}

// DeleteJob deletes a Job together with its pods: it is there until they are gone.
func (c *Client) DeleteJob(ctx context.Context, owner Owner, name, uid string) error {
	only := types.UID(uid)
	job := &batchv1.Job{ObjectMeta: ObjectMeta(owner, name)}
	return IgnoreDeleted(c.Delete(ctx, job, client.Preconditions{UID: &only}, client.PropagationPolicy(metav1.DeletePropagationForeground)), "Job "+name)
}

// DeleteBackup deletes a Backup, if it still is the one that was decided on.
func (c *Client) DeleteBackup(ctx context.Context, owner Owner, name, uid string) error {
	only := types.UID(uid)
	b := &v1alpha1.Backup{ObjectMeta: ObjectMeta(owner, name)}
	return IgnoreDeleted(c.Delete(ctx, b, client.Preconditions{UID: &only}), "Backup "+name)
}

// StartJob makes a Job of the agent that belongs to the owner. field is that of the specification which names its destination, empty where
// that is not checked first.
func (c *Client) StartJob(ctx context.Context, o Owner, w job.Work, field string) error {
	if field != "" {
		if err := c.CheckDestination(ctx, o, field, w.Destination); err != nil {
			return err
		}
	} else if err := c.CheckAccount(ctx, o, "spec.destination", w.Destination); err != nil {
		return err
	}
	w.Namespace, w.Image = o.GetNamespace(), c.AgentImage
	var err error
	if w.Owner, err = c.OwnerReference(o); err != nil {
		return err
	}
	job, err := w.Job()
	if err != nil {
		return err
	}
	return c.Apply(ctx, o, &batchv1.Job{ObjectMeta: ObjectMeta(o, w.Name)}, job)
}
