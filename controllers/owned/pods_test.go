package owned

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/test/fakeapi"
)

func TestPodsAreOverdueOnceKubernetesHadItsTime(t *testing.T) {
	for name, tc := range map[string]struct {
		generation, seen int64
		age              time.Duration
		want             bool
	}{
		"it was just made":                 {1, 1, 59 * time.Second, false},
		"it was made a minute ago":         {1, 1, time.Minute, true},
		"nobody has looked at it":          {1, 0, time.Hour, false},
		"it was just changed":              {4, 3, time.Hour, false},
		"it was changed, and that is seen": {4, 4, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: tc.generation, CreationTimestamp: metav1.NewTime(fakeapi.Now.Add(-tc.age))}}
			set.Status.ObservedGeneration = tc.seen
			if got := Overdue(set, fakeapi.Now); got != tc.want {
				t.Error(got)
			}
		})
	}
}

// TestTheLastWordsOfAServerAreItsOwn has what a server of Redis 7.0 logs of probes.
func TestTheLastWordsOfAServerAreItsOwn(t *testing.T) {
	const knock = "1:S 24 Nov 2026 20:38:27.287 # Error accepting a client connection: error:0A000126:SSL routines::unexpected eof while reading (conn: fd=24)\n"
	const trace = "goroutine 1 [running]:\ngo.etcd.io/etcd/pkg/v3/schedule.(*fifo).run(0x2f4f81e09570)\n\tgo.etcd.io/etcd/pkg/v3@v3.7.3/schedule/schedule.go:187 +0x115\n" +
		"created by go.etcd.io/etcd/pkg/v3/schedule.NewFIFOScheduler in goroutine 177\n\tgo.etcd.io/etcd/pkg/v3@v3.7.3/schedule/schedule.go:101 +0x16f"
	for name, tc := range map[string]struct{ message, want string }{
		"it says nothing":       {"", "container redis ended with exit code 137"},
		"it was knocked at":     {"26:SSL routines::unexpected eof while reading\n" + knock + knock, "container redis ended with exit code 137"},
		"it says why it ends":   {knock + "1:M 24 Nov 2026 20:39:16.000 # Can't save in background: fork: Cannot allocate memory\n" + knock, "1:M 24 Nov 2026 20:39:16.000 # Can't save in background: fork: Cannot allocate memory"},
		"it has panicked":       {"panic: not a version\n\n" + trace, "panic: not a version"},
		"at length":             {", {0x3a9656621d00, 0x2, 0x2})\n\tgo.etcd.io/etcd/pkg/v3@v3.7.3/schedule/schedule.go:41\n" + trace, "container redis ended with exit code 137"},
		"long ago":              {"v3.7.3/wal.go:206 +0x79\n" + trace, "container redis ended with exit code 137"},
		"it has something else": {"Bad file format reading the append only file", "Bad file format reading the append only file"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Message: tc.message}}
			if got := terminationMessage(corev1.ContainerStatus{Name: "redis", LastTerminationState: ended}); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
