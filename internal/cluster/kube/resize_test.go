package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestOnlyCPUAndMemoryChangeInPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		in   *corev1.ResourceRequirements
		want string
	}{
		"nothing":         {nil, ""},
		"only a disk":     {&corev1.ResourceRequirements{Limits: amounts("ephemeral-storage", "1Gi")}, ""},
		"only requests":   {&corev1.ResourceRequirements{Requests: amounts("cpu", "0.5")}, `{"requests":{"cpu":"500m"}}`},
		"only limits":     {&corev1.ResourceRequirements{Limits: amounts("memory", "1024Mi")}, `{"limits":{"memory":"1Gi"},"requests":{"memory":"1Gi"}}`},
		"some of both":    {&corev1.ResourceRequirements{Limits: amounts("memory", "1Gi", "cpu", "2"), Requests: amounts("cpu", "1")}, `{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}`},
		"and with a disk": {&corev1.ResourceRequirements{Limits: amounts("memory", "1Gi", "ephemeral-storage", "1Gi")}, `{"limits":{"memory":"1Gi"},"requests":{"memory":"1Gi"}}`},
	} {
		got, err := InPlaceText(tc.in)
		if err != nil || got != tc.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tc.want)
		}
	}
	patch, err := ResizePatch("u", "db", &corev1.ResourceRequirements{Limits: amounts("memory", "1Gi")})
	want := `{"metadata":{"uid":"u"},"spec":{"containers":[{"name":"db","resources":{"limits":{"memory":"1Gi"},"requests":{"memory":"1Gi"}}}]}}`
	if err != nil || string(patch) != want {
		t.Errorf("the patch is %s, %v", patch, err)
	}
}

func TestHowFarAResizeHasGot(t *testing.T) {
	pod := func(has string, conditions ...corev1.PodCondition) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Resources: corev1.ResourceRequirements{Limits: amounts("memory", "2Gi")}}}}}
		p.Status.Conditions = conditions
		status := corev1.ContainerStatus{Name: "db"}
		if has != "" {
			status.Resources = &corev1.ResourceRequirements{Limits: amounts("memory", has)}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		return p
	}
	pending := func(reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: "why"}
	}
	progress := corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, Message: "in use"}
	unseen := pod("2Gi")
	unseen.ObjectMeta = metav1.ObjectMeta{Generation: 2}
	unseen.Status.ObservedGeneration = 1
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want Resize
	}{
		"done":              {pod("2Gi"), Resize{Known: true, MemoryLimit: 2 << 30}},
		"not begun":         {pod("1Gi"), Resize{Known: true, Running: true, MemoryLimit: 1 << 30}},
		"not seen":          {unseen, Resize{Known: true, Running: true, MemoryLimit: 2 << 30}},
		"less":              {pod("3Gi"), Resize{Known: true, Running: true, MemoryLimit: 2 << 30}},
		"no room":           {pod("1Gi", pending(corev1.PodReasonDeferred)), Resize{Known: true, Running: true, Deferred: true, Problem: "why", MemoryLimit: 1 << 30}},
		"never":             {pod("1Gi", pending(corev1.PodReasonInfeasible), progress), Resize{Known: true, Running: true, Infeasible: true, Problem: "why", MemoryLimit: 1 << 30}},
		"tried in vain":     {pod("1Gi", progress), Resize{Known: true, Running: true, Problem: "in use", MemoryLimit: 1 << 30}},
		"an older kubelet":  {pod(""), Resize{MemoryLimit: 2 << 30}},
		"another container": {&corev1.Pod{}, Resize{}},
	} {
		if diff := cmp.Diff(tc.want, ResizeOf(tc.pod, "db")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
