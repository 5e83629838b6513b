package rediscluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
)

// TestWhenAContainerIsStartedAgain reads it from what the kubelet says, as that words it (doBackOff in its source).
func TestWhenAContainerIsStartedAgain(t *testing.T) {
	ended := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	crashed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, FinishedAt: metav1.NewTime(ended)}}
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	const said = " restarting failed container=redis pod=carts-0-0_shop(0a1b2c)"
	for name, tc := range map[string]struct {
		container   string
		state, last corev1.ContainerState
		want        time.Time
	}{
		"it runs":                   {state: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, last: crashed},
		"it has just ended":         {state: crashed},
		"it is held":                {state: waiting("CrashLoopBackOff", "back-off 10s"+said), last: crashed, want: ended.Add(10 * time.Second)},
		"it is held for long":       {state: waiting("CrashLoopBackOff", "back-off 2m40s"+said), last: crashed, want: ended.Add(160 * time.Second)},
		"nobody says for how long":  {state: waiting("CrashLoopBackOff", "restarting failed container"), last: crashed, want: ended.Add(owned.LeastHeld)},
		"nor in words that we know": {state: waiting("CrashLoopBackOff", "back-off soon"+said), last: crashed, want: ended.Add(owned.LeastHeld)},
		"nobody says when it ended": {state: waiting("CrashLoopBackOff", "back-off 10s"+said)},
		"it has no image":           {state: waiting("ImagePullBackOff", "back-off 10s"+said), last: crashed},
		"another one is held":       {container: "exporter", state: waiting("CrashLoopBackOff", "back-off 10s"+said), last: crashed},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "redis", State: tc.state, LastTerminationState: tc.last,
			}}}}
			if tc.container != "" {
				pod.Status.ContainerStatuses[0].Name = tc.container
			}
			if got := podOf(pod, 0, 0).HeldUntil; !got.Equal(tc.want) {
				t.Errorf("it is held until %s, want %s (%s)", got, tc.want, manifests.ContainerServer)
			}
		})
	}
}

func TestWhenTheProcessBeforeHadEnded(t *testing.T) {
	made, ended, started := time.Unix(100, 0), time.Unix(200, 0), time.Unix(300, 0)
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}}
	over := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(ended)}}
	unknown := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255}}
	for name, tc := range map[string]struct {
		state, last corev1.ContainerState
		restarts    int32
		want        time.Time
	}{
		"the first of its pod":                {state: running, want: made},
		"it is over":                          {state: over, want: ended},
		"another one runs":                    {state: running, last: over, restarts: 1, want: ended},
		"another one is held":                 {state: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, last: over, restarts: 1, want: ended},
		"another one runs after nobody knows": {state: running, last: unknown, restarts: 1, want: started},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: manifests.ContainerServer, State: tc.state, LastTerminationState: tc.last, RestartCount: tc.restarts,
		}}}}
		if got := podOf(pod, 0, 0).Ended; !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestAServerThatWillNeverStart(t *testing.T) {
	ended := func(container, words string, restarts int32) *corev1.Pod {
		status := []corev1.ContainerStatus{{
			Name: container, RestartCount: restarts, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: words}},
		}}
		if container == manifests.ContainerServer {
			return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: status}}
		}
		return &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: status}}
	}
	held := gate.Decide(gate.Disk{Nodes: "nonsense", Data: true}).Message
	ready := ended(manifests.ContainerGate, held, 3)
	ready.Status.InitContainerStatuses[0].Ready = true
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"its log is damaged":           {ended(manifests.ContainerServer, "Bad file format reading the append only file a.1.incr.aof", 2), "Bad file format reading the append only file a.1.incr.aof"},
		"once is not enough":           {ended(manifests.ContainerServer, "Bad file format reading the append only file a.1.incr.aof", 1), ""},
		"its gate cannot tell who":     {ended(manifests.ContainerGate, held, 2), "nodes.conf cannot be read"},
		"its gate has been slow":       {ended(manifests.ContainerGate, "read password: no such file", 5), ""},
		"somebody else says the words": {ended("sidecar", held, 5), ""},
		"its gate has let it go":       {ready, ""},
	} {
		if got := podOf(tc.pod, 0, 0).Fatal; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
