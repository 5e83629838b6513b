package controllersim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/fakeapi"
)

// Kubelet makes claims and pods and starts what the gate lets start.
func (s *Etcd) Kubelet() {
	s.T.Helper()
	ctx := s.T.Context()
	collect(s.T, s)
	set := &appsv1.StatefulSet{}
	if err := s.API.Get(ctx, s.Name, set); err != nil {
		return
	}
	cm := &corev1.ConfigMap{}
	if err := s.API.Get(ctx, types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.ConfigName(s.Name.Name)}, cm); err != nil {
		return
	}
	record, err := model.ParseRecord(cm.Data)
	if err != nil {
		return // No gate makes anything of it.
	}
	s.endPods(int(*set.Spec.Replicas))
	s.runBackups()
	s.growVolumes()
	for i := range int(*set.Spec.Replicas) {
		s.runPod(set, record, i)
	}
	s.Net.Settle()
}

// endPods takes the pods away that the set does not make any more, and the claims that are being deleted.
func (s *Etcd) endPods(replicas int) {
	s.T.Helper()
	for i := range model.MaxSize {
		name := cluster.Pod(s.Name.Name, i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name.Namespace, Name: name}}
		if i >= replicas && s.API.Delete(s.T.Context(), pod) == nil && s.Procs[name] != nil {
			s.Net.Stop(s.Procs[name])
		}
		claim := &corev1.PersistentVolumeClaim{}
		err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.Claim(s.Name.Name, i)}, claim)
		if apierrors.IsNotFound(err) {
			delete(s.disks, name)
		}
	}
}

func (s *Etcd) runPod(set *appsv1.StatefulSet, record model.Record, i int) {
	s.T.Helper()
	ctx := s.T.Context()
	name := cluster.Pod(set.Name, i)
	pod := &corev1.Pod{}
	if err := s.API.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, pod); err == nil {
		if metav1.GetControllerOf(pod) == nil { // The set that it was of has been deleted without it.
			pod.OwnerReferences = append(pod.OwnerReferences, *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
			s.Must(s.API.Update(ctx, pod))
		}
		if pod.Status.Conditions != nil {
			return
		}
		s.Must(s.API.Delete(ctx, pod)) // It is held back or has ended: its gate or etcd looks again.
	}
	if s.disks[name] == nil {
		s.disks[name] = &etcdfake.Disk{}
		s.createClaim(set, i)
	}
	if old := s.Procs[name]; old != nil { // It ended with its pod.
		s.Net.Stop(old)
	}
	if problem := s.misfit(set, name); problem != nil {
		s.createPod(set, name, i, problem)
		return
	}
	if i >= len(record.Members) { // It has no name there yet, or not any more.
		s.createPod(set, name, i, held(model.GateReport{Reason: model.GateNotMember}))
		return
	}
	d := s.decide(record, i)
	if d.SetAside {
		s.Aside++
		s.disks[name] = &etcdfake.Disk{}
		d = s.decide(record, i)
	}
	if !d.Start && d.Report.Reason != model.GateNotMember && d.Report.Reason != model.GateHeld {
		s.T.Fatalf("%s is held back: %s", name, d.Report.Message)
	}
	if !d.Start {
		s.createPod(set, name, i, held(d.Report))
		return
	}
	if d.Epoch != "" {
		s.epochs[name] = d.Epoch
	}
	s.start(set, record, i, d)
}

// start starts the server of a pod whose gate lets it.
func (s *Etcd) start(set *appsv1.StatefulSet, record model.Record, i int, d gate.Decision) {
	s.T.Helper()
	name := record.Members[i].Name
	token := string(set.UID)
	if record.Restore != nil {
		token = record.Restore.Token
	}
	proc, err := s.Net.Start(etcdfake.Config{
		Self: record.Members[i], Token: token, State: d.State, Members: record.Members,
		Version: set.Spec.Template.Annotations[v1alpha1.AnnotationVersion],
		Plain:   listens(set, model.PlainPeerPort), TLS: listens(set, model.PeerPort),
	}, s.disks[name])
	switch {
	case errors.Is(err, etcdfake.ErrRemoved):
		s.createPod(set, name, i, crashed(s.disks[name], err.Error()))
	case errors.Is(err, etcdfake.ErrVersion):
		s.createPod(set, name, i, crashed(s.disks[name], "what it panics with"))
	default:
		s.Must(err)
		s.Procs[name] = proc
		s.createPod(set, name, i, nil)
	}
}

// listens reports whether a container of the template has a port.
func listens(set *appsv1.StatefulSet, port int32) bool {
	return slices.ContainsFunc(set.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == port })
	})
}

// decide is what the gate of a pod decides.
func (s *Etcd) decide(record model.Record, i int) gate.Decision {
	name := record.Members[i].Name
	return gate.Decide(gate.Input{
		Self: record.Members[i], Record: record, Answers: s.Net.Answers(record.Members[i], record.Members),
		Disk: map[bool]gate.Disk{true: gate.DiskReady}[s.disks[name].HasLog], Epoch: s.epochs[name], Log: &model.LogEnd{Term: 1, Index: 1},
	})
}

// born is when the next pod or claim is made, which is long ago and a minute after the one before.
func (s *Etcd) born() metav1.Time {
	s.made++
	return metav1.NewTime(fakeapi.Now.AddDate(-1, 0, 0).Add(time.Duration(s.made) * time.Minute))
}

// held is what the kubelet says of a pod that its gate does not let start.
func held(report model.GateReport) *corev1.PodStatus {
	return &corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
		Name: manifests.ContainerGate, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: report.Encode()}},
	}}}
}

// crashed is what the kubelet says of a pod whose gate has let etcd go, which has ended for the third time with these last words.
func crashed(disk *etcdfake.Disk, last string) *corev1.PodStatus {
	report := model.GateReport{Reason: model.GateStart, Agreed: disk.Agreed().Minor}
	return &corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{
			Name: manifests.ContainerGate, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: report.Encode()}},
		}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: manifests.ContainerEtcd, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: last}},
		}},
	}
}

// createPod makes a pod that runs, unless something keeps it from that.
func (s *Etcd) createPod(set *appsv1.StatefulSet, name string, i int, problem *corev1.PodStatus) {
	s.T.Helper()
	born := s.born()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: born,
			Namespace:         set.Namespace, Name: name, Labels: set.Spec.Template.Labels, Annotations: set.Spec.Template.Annotations,
			UID:             types.UID(fmt.Sprintf("%s-%d", name, s.made)),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec: corev1.PodSpec{Containers: set.Spec.Template.Spec.Containers},
	}
	if err := s.API.Create(s.T.Context(), pod); err != nil {
		s.T.Fatal(err)
	}
	if problem != nil {
		pod.Status = *problem
		if err := s.API.Status().Update(s.T.Context(), pod); err != nil {
			s.T.Fatal(err)
		}
		return
	}
	pod.Status = corev1.PodStatus{
		PodIP:      fmt.Sprintf("10.0.0.%d", i),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: manifests.ContainerEtcd, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}},
	}
	if err := s.API.Status().Update(s.T.Context(), pod); err != nil {
		s.T.Fatal(err)
	}
}
