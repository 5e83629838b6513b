package owned

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster"
)

// terminationMessageLimit keeps what a container said at its end short enough for a status.
const terminationMessageLimit = 300

// reasonOOM is why a container ended that needed more memory than its limit.
const reasonOOM = "OOMKilled"

// CrashLoop is why a container waits that has ended several times.
const CrashLoop = "CrashLoopBackOff"

// Overdue reports whether a StatefulSet should have all of its pods: it was made a while ago, and Kubernetes has looked at it since it was changed last.
func Overdue(set *appsv1.StatefulSet, now time.Time) bool {
	seen := set.Status.ObservedGeneration
	return seen > 0 && seen >= set.Generation && now.Sub(set.CreationTimestamp.Time) >= cluster.MadeWithin
}

// PodReady reports whether the Ready condition of a pod is True.
func PodReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ReadySince is when the pod got ready, zero when it is not.
func ReadySince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// HasRun reports whether a container of the pod has been started at some time.
func HasRun(p *corev1.Pod, container string) bool {
	c := ContainerStatus(p.Status.ContainerStatuses, container)
	return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil || c.RestartCount > 0
}

// StartedAt is when a container of the pod was last started, zero when it does not run.
func StartedAt(p *corev1.Pod, container string) time.Time {
	if r := ContainerStatus(p.Status.ContainerStatuses, container).State.Running; r != nil {
		return r.StartedAt.Time
	}
	return time.Time{}
}

// ContainerStatus returns the status of the named container, the zero value if there is none.
func ContainerStatus(list []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	for _, c := range list {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

// StuckReason says what keeps a pod from running that will not change by itself, empty when nothing does: the kubelet goes on
// trying, but with the same image and the same settings. It leaves out what differs from one attempt to the next,
// because it goes into the status.
func StuckReason(p *corev1.Pod) string { return stuckIn(p, p.Status.ContainerStatuses...) }

// CannotRunReason says what keeps one container of a pod from running, empty when nothing does. Others beside it are in nobody's way, which a webhook
// may have added; those before it are, and they may be anybody's.
func CannotRunReason(p *corev1.Pod, container string) string {
	c := ContainerStatus(p.Status.ContainerStatuses, container)
	if c.State.Running != nil {
		return ""
	}
	return stuckIn(p, c)
}

// stuckIn looks at all init containers, and at these.
func stuckIn(p *corev1.Pod, containers ...corev1.ContainerStatus) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return describe(c.Reason, c.Message)
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, containers) {
		w := c.State.Waiting
		if w == nil || w.Reason == "" || w.Reason == "PodInitializing" || w.Reason == "ContainerCreating" {
			continue
		}
		if w.Reason == CrashLoop {
			return describe(w.Reason, terminationMessage(c))
		}
		return describe(w.Reason, w.Message)
	}
	if p.Status.Phase == corev1.PodFailed {
		return describe("Failed", p.Status.Reason)
	}
	return ""
}

// LeastHeld is how long Kubernetes waits at least, as it is mostly set up, before it starts a container again that has ended several times
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restarts).
const LeastHeld = 10 * time.Second

// backOff is how the kubelet says for how long it waits, counted from when the container ended.
var backOff = regexp.MustCompile(`^back-off (\S+) restarting`)

// BackOffUntil is when a container is started again at the earliest that has ended several times; zero when it is not held.
func BackOffUntil(p *corev1.Pod, container string) time.Time {
	c := ContainerStatus(p.Status.ContainerStatuses, container)
	ended := c.LastTerminationState.Terminated
	if c.State.Waiting == nil || c.State.Waiting.Reason != CrashLoop || ended == nil {
		return time.Time{}
	}
	held := LeastHeld
	if m := backOff.FindStringSubmatch(c.State.Waiting.Message); m != nil {
		if d, err := time.ParseDuration(m[1]); err == nil {
			held = d
		}
	}
	return ended.FinishedAt.Add(held)
}

// unpulled is the image that keeps a pod from starting, because nobody can get it; empty for none.
func unpulled(p *corev1.Pod) string {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError"}, w.Reason) {
			return c.Image
		}
	}
	return ""
}

// fatalTries is how often a server must have ended over its data before that is believed.
const fatalTries = 2

// FatalStart says why a server will never start from the data in a pod, empty while it may. fatal finds that in what the server, or the start
// gate before it, said at its end.
func FatalStart(p *corev1.Pod, fatal func(lastWords string) string, containers ...string) string {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if !slices.Contains(containers, c.Name) || c.RestartCount < fatalTries || c.Ready {
			continue
		}
		for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t == nil || t.ExitCode == 0 {
				continue
			}
			if words := fatal(t.Message); words != "" {
				return words
			}
		}
	}
	return ""
}

func describe(reason, message string) string { return strings.TrimSuffix(reason+": "+message, ": ") }

// probeNoise are the lines that Redis and Valkey log of whoever connects without a word, as the probes of the kubelet do where TLS is on. The
// first one may be cut off.
var probeNoise = regexp.MustCompile(`(?m)^.*(?:Error accepting a client connection: |SSL routines::unexpected eof while reading).*$\n?`)

// stackTrace are the lines of a panic of Go that say where it was. The first one may be cut off.
var stackTrace = regexp.MustCompile(`(?m)^(?:\t.*|.*\+0x[0-9a-f]+|.*0x[0-9a-f]+\}?\)|goroutine \d+ .*:|created by .*|\S+\(.*\))$\n?`)

// terminationMessage is what a container said at its end, this time or the last, or how it ended when it said nothing.
func terminationMessage(c corev1.ContainerStatus) string {
	t := c.State.Terminated
	if t == nil {
		t = c.LastTerminationState.Terminated
	}
	if t == nil {
		return ""
	}
	if t.Reason == reasonOOM {
		return "container " + c.Name + " needs more memory than its limit"
	}
	if text := strings.TrimSpace(stackTrace.ReplaceAllString(probeNoise.ReplaceAllString(t.Message, ""), "")); text != "" {
		return strings.ToValidUTF8(text[max(0, len(text)-terminationMessageLimit):], "")
	}
	return fmt.Sprintf("container %s ended with exit code %d", c.Name, t.ExitCode)
}
