package controllersim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Kubelet creates the pods that the StatefulSets ask for and keeps a server in each.
func (s *Redis) Kubelet(ctx context.Context) {
	s.T.Helper()
	var sets appsv1.StatefulSetList
	if err := s.API.List(ctx, &sets); err != nil {
		s.T.Fatal(err)
	}
	s.abandon(ctx, sets.Items)
	for i := range sets.Items {
		set := &sets.Items[i]
		if set.Spec.Replicas == nil {
			set.Spec.Replicas = new(int32(1)) // As the API server does.
		}
		s.evict(ctx, set)
		for ordinal := range int(*set.Spec.Replicas) {
			name := cluster.Pod(set.Name, ordinal)
			var pod corev1.Pod
			err := s.API.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, &pod)
			switch {
			case apierrors.IsNotFound(err) && s.mounts(ctx):
				s.run(ctx, set, name)
			case client.IgnoreNotFound(err) != nil:
				s.T.Fatal(err)
			}
		}
	}
}

// mounts tells whether the auth Secret has all keys that a pod mounts. No container of it starts before.
func (s *Redis) mounts(ctx context.Context) bool {
	s.T.Helper()
	var auth corev1.Secret
	err := s.API.Get(ctx, types.NamespacedName{Namespace: "default", Name: cluster.AuthSecret("carts")}, &auth)
	if client.IgnoreNotFound(err) != nil {
		s.T.Fatal(err)
	}
	return !slices.ContainsFunc(acl.PasswordKeys, func(key string) bool { return len(auth.Data[key]) == 0 })
}

// abandon ends the servers whose StatefulSet is gone. Those that have ended already keep their disk.
func (s *Redis) abandon(ctx context.Context, sets []appsv1.StatefulSet) {
	s.T.Helper()
	for name, server := range s.Servers {
		of := name[:strings.LastIndex(name, "-")]
		if !server.Up || slices.ContainsFunc(sets, func(set appsv1.StatefulSet) bool { return set.Name == of }) {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if err := client.IgnoreNotFound(s.API.Delete(ctx, pod)); err != nil {
			s.T.Fatal(err)
		}
		s.Net.Remove(server)
		delete(s.Servers, name)
	}
}

// evict deletes the pods that a StatefulSet has no room for.
func (s *Redis) evict(ctx context.Context, set *appsv1.StatefulSet) {
	s.T.Helper()
	for ordinal := int(*set.Spec.Replicas); ; ordinal++ {
		name := cluster.Pod(set.Name, ordinal)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name}}
		server := s.Servers[name]
		err := s.API.Delete(ctx, pod)
		if client.IgnoreNotFound(err) != nil {
			s.T.Fatal(err)
		}
		if err != nil && server == nil {
			return
		}
		if server != nil {
			s.Net.Remove(server)
			delete(s.Servers, name)
		}
	}
}

// claim makes the claim of a pod, unless there is one of its name.
func (s *Redis) claim(ctx context.Context, set *appsv1.StatefulSet, pod string) {
	s.T.Helper()
	if len(set.Spec.VolumeClaimTemplates) == 0 {
		return
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: cluster.VolumeData + "-" + pod, Labels: set.Spec.VolumeClaimTemplates[0].Labels,
	}}
	if err := s.API.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		s.T.Fatal(err)
	}
}

func (s *Redis) run(ctx context.Context, set *appsv1.StatefulSet, name string) {
	s.T.Helper()
	s.ips++
	ip := fmt.Sprintf("10.0.0.%d", s.ips)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name, UID: types.UID(fmt.Sprintf("uid-%d", s.ips)),
			Labels: maps.Clone(set.Spec.Template.Labels), Annotations: set.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: manifests.ContainerServer, Resources: set.Spec.Template.Spec.Containers[0].Resources}}},
		Status: corev1.PodStatus{PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	s.claim(ctx, set, name)
	pod.Labels[appsv1.PodIndexLabel] = name[strings.LastIndex(name, "-")+1:]
	problem := misfit(&set.Spec)
	if problem != nil {
		pod.Status = *problem
	}
	if err := s.API.Create(ctx, pod); err != nil {
		s.T.Fatal(err)
	}
	if problem != nil {
		if server := s.Servers[name]; server != nil { // It ended with its pod.
			server.Stop()
		}
		return
	}
	addr := model.Address{IP: ip, Port: model.ClientPort}
	if server := s.Servers[name]; server != nil {
		server.Stop()
		server.Start(addr)
		server.Version = versionOf(set)
		s.announce(ctx, server, ip)
		return
	}
	shard, err := strconv.Atoi(set.Labels[v1alpha1.LabelShard])
	if err != nil {
		s.T.Fatal(err)
	}
	s.Servers[name] = s.Net.Add(addr, shard, name+".carts-peers")
	s.Servers[name].Version = versionOf(set)
	s.announce(ctx, s.Servers[name], ip)
}

// versionOf is the version that the template of a StatefulSet is for.
func versionOf(set *appsv1.StatefulSet) string {
	for _, arg := range set.Spec.Template.Spec.InitContainers[0].Args {
		if version, ok := strings.CutPrefix(arg, "--version="); ok {
			return version
		}
	}
	return ""
}
