package owned

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestAPodThatRanOutOfMemoryIsToldFromOthers(t *testing.T) {
	pod := func(reason, message string) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: job.Container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: reason, Message: message}},
		}}}}
	}
	j := &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}}
	killed := JobState(j, []corev1.Pod{pod("Error", fakeapi.HasFailed.Encode()), pod(reasonOOM, "12:00:00 starting a server")}, fakeapi.Now)
	if p := killed.Problem(); !killed.Starved || p == nil || p.Reason != job.ReasonMemory {
		t.Errorf("%+v", p)
	}
	other := JobState(j, []corev1.Pod{pod(reasonOOM, ""), pod("Error", fakeapi.HasFailed.Encode())}, fakeapi.Now)
	if p := other.Problem(); other.Starved || p == nil || p.Reason != "NotAllowed" {
		t.Errorf("what was before the last attempt counts: %+v", p)
	}
}

// A container that somebody puts into every pod keeps no other one from its work.
func TestAPodThatHasBegunIsNotStuckForTheSakeOfAnother(t *testing.T) {
	pod := func(own corev1.ContainerState) []corev1.Pod {
		return []corev1.Pod{{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "mesh", Image: "mesh:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
			{Name: job.Container, State: own},
		}}}}
	}
	if j := JobState(&batchv1.Job{}, pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), fakeapi.Now); j.Trouble != "" || j.Unpulled != "" {
		t.Errorf("it runs: %+v", j)
	}
	if j := JobState(&batchv1.Job{}, pod(corev1.ContainerState{}), fakeapi.Now); j.Trouble != "ImagePullBackOff" || j.Unpulled != "mesh:1" {
		t.Errorf("it has not begun: %+v", j)
	}
}

// Kubernetes ends a Job when its pods have ended, which one with a proxy that was injected never does.
func TestAJobHasEndedWhenItsAgentHasAndItsPodDoesNot(t *testing.T) {
	pod := func(phase corev1.PodPhase, code int32, message string, ago time.Duration) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "istio-proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: job.Container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, Message: message, FinishedAt: metav1.NewTime(fakeapi.Now.Add(-ago)),
			}}},
		}}}
	}
	begun := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for name, tc := range map[string]struct {
		pods                               []corev1.Pod
		ended, failed, again, eventDeduper bool
	}{
		"it has just ended":          {pods: []corev1.Pod{pod(corev1.PodRunning, 0, fakeapi.WasTaken.Encode(), 29*time.Second)}, eventDeduper: true},
		"it did its work":            {pods: []corev1.Pod{pod(corev1.PodRunning, 0, fakeapi.WasTaken.Encode(), 30*time.Second)}, ended: true, eventDeduper: true},
		"it left no word":            {pods: []corev1.Pod{pod(corev1.PodRunning, 0, "", time.Minute)}, ended: true},
		"it failed for good":         {pods: []corev1.Pod{pod(corev1.PodRunning, job.ExitFinal, fakeapi.HasFailed.Encode(), time.Minute)}, ended: true, failed: true, eventDeduper: true},
		"it would be tried again":    {pods: []corev1.Pod{pod(corev1.PodRunning, 1, fakeapi.HasFailed.Encode(), time.Minute)}, ended: true, failed: true, again: true, eventDeduper: true},
		"it was killed":              {pods: []corev1.Pod{pod(corev1.PodRunning, 137, "", time.Minute)}, ended: true, failed: true, again: true},
		"it is tried again":          {pods: []corev1.Pod{pod(corev1.PodFailed, 1, fakeapi.HasFailed.Encode(), time.Hour)}, eventDeduper: true},
		"another attempt has begun":  {pods: []corev1.Pod{pod(corev1.PodRunning, 1, fakeapi.HasFailed.Encode(), time.Hour), begun}, eventDeduper: true},
		"it has not begun":           {pods: []corev1.Pod{begun}},
		"another attempt has worked": {pods: []corev1.Pod{pod(corev1.PodFailed, 1, "", time.Hour), pod(corev1.PodRunning, 0, fakeapi.WasTaken.Encode(), time.Minute)}, ended: true, eventDeduper: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := JobState(&batchv1.Job{}, tc.pods, fakeapi.Now)
			if j.Ended != tc.ended || j.Held != tc.ended || j.Failed != tc.failed || j.Again != tc.again || (j.Report != nil) != tc.eventDeduper {
				t.Errorf("%+v", j)
			}
			if tc.ended && !j.Since.Equal(fakeapi.Now.Add(-time.Minute)) && !j.Since.Equal(fakeapi.Now.Add(-30*time.Second)) {
				t.Errorf("it ended at %s", j.Since)
			}
		})
	}
}

func TestAJobWithoutAPodIsToldFromOneWhosePodIsNotSeenYet(t *testing.T) {
	began := metav1.NewTime(fakeapi.Now.Add(time.Hour))
	for name, tc := range map[string]struct {
		status  batchv1.JobStatus
		podless bool
		since   time.Time
	}{
		"made":                   {batchv1.JobStatus{}, true, fakeapi.Now},
		"begun an hour later":    {batchv1.JobStatus{StartTime: &began}, true, began.Time},
		"its pod is made":        {batchv1.JobStatus{Active: 1}, false, fakeapi.Now},
		"it rests between two":   {batchv1.JobStatus{Failed: 1}, false, fakeapi.Now},
		"its pod is gone by now": {batchv1.JobStatus{Succeeded: 1}, false, fakeapi.Now},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", CreationTimestamp: metav1.NewTime(fakeapi.Now)}, Status: tc.status}
			if j := JobState(job, nil, fakeapi.Now); j.Podless != tc.podless || !j.Since.Equal(tc.since) || j.Namespace != "shop" {
				t.Errorf("%+v", j)
			}
		})
	}
}

// A Job of the same name may have taken its place since, which is not to run.
func TestAJobIsResumedByItsUID(t *testing.T) {
	inner, ok := fakeapi.New(t).Client.(client.WithWatch)
	if !ok {
		t.Fatal("it cannot be watched")
	}
	var sent string
	k := &Client{Client: interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption) error {
			raw, err := p.Data(o)
			sent = string(raw)
			return err
		},
	})}
	if err := k.ResumeJob(t.Context(), fakeapi.Backup(nil), "first-take", "job-uid"); err != nil || !strings.Contains(sent, `"uid":"job-uid"`) {
		t.Errorf("%s %v", sent, err)
	}
}
