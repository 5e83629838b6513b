package etcdcluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
)

func TestAFullDiskIsNamedWithItsCure(t *testing.T) {
	pod := func(words string, restarts int32) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders-0"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: manifests.ContainerEtcd, RestartCount: restarts,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: words}},
		}}}}
	}
	const full = `{"level":"fatal","msg":"failed to commit tx","error":"write /data/member/snap/db: no space left on device"}`
	if got := podState(pod(full, 2)); !got.Full || got.Fatal != "" || got.Problem != "cannot run: no space left on device: set a larger spec.storage.size" {
		t.Errorf("full %t, fatal %q, problem %q", got.Full, got.Fatal, got.Problem)
	}
	for name, other := range map[string]*corev1.Pod{"once is not enough": pod(full, 1), "another cause": pod("wal: crc mismatch", 3)} {
		if got := podState(other); got.Full {
			t.Errorf("%s: full, problem %q", name, got.Problem)
		}
	}
}
