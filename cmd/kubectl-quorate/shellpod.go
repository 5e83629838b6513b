package main

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
	etcdmanifests "github.com/quorate/quorate/internal/cluster/etcd/manifests"
	redismanifests "github.com/quorate/quorate/internal/cluster/redis/manifests"
)

const (
	containerShell = "shell"
	connectionDir  = "/connection"
	// componentShell keeps the pod out of what belongs to the cluster: operators count only what has their own labels.
	componentShell = "shell"
)

// shellPod is the pod that a client runs in. The agent is copied into it, because it brings the connection Secret and the client together, and
// images of data stores may have nothing else that could.
func shellPod(o clusterObject, servers *corev1.PodSpec, options shellOptions, tty bool) (*corev1.Pod, error) {
	args := []string{"shell", "--secret-dir=" + connectionDir}
	server, gate := etcdmanifests.ContainerEtcd, etcdmanifests.ContainerGate
	switch c := o.(type) {
	case *v1alpha1.EtcdCluster:
		args = append(args, "--client=etcdctl")
	case *v1alpha1.RedisCluster:
		server, gate = redismanifests.ContainerServer, redismanifests.ContainerGate
		args = append(args, "--client="+string(c.Spec.ServerEngine())+"-cli", fmt.Sprintf("--sharded=%t", !c.Spec.IsReplicated() && options.pod == ""))
	}
	if options.pod != "" {
		// The certificates are for this name too.
		args = append(args, fmt.Sprintf("--host=%s.%s.%s.svc", options.pod, cluster.PeersService(o.GetName()), o.GetNamespace()))
	}
	image, err := imageOf(servers.Containers, server)
	if err != nil {
		return nil, err
	}
	agent, err := imageOf(servers.InitContainers, gate)
	if err != nil {
		return nil, err
	}
	interactive := len(options.args) == 0
	tools := corev1.VolumeMount{Name: "tools", MountPath: job.ToolsDir}
	install := shellContainer("install", agent, []string{"/agent", "install", "--dir=" + job.ToolsDir}, tools)
	shell := shellContainer(containerShell, image, slices.Concat([]string{job.ToolsDir + "/" + job.AgentFile}, args, []string{"--"}, options.args),
		tools, corev1.VolumeMount{Name: "connection", MountPath: connectionDir, ReadOnly: true})
	shell.Env = []corev1.EnvVar{{Name: "HOME", Value: "/nonexistent"}} // No history is kept: it holds keys, and may hold passwords.
	shell.Stdin, shell.StdinOnce, shell.TTY = interactive, interactive, tty
	labels := cluster.Labels(o.GetName(), componentShell, "quorate-shell")
	delete(labels, cluster.LabelManagedBy) // A person has made it.
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: o.GetName() + "-shell-", Namespace: o.GetNamespace(), Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: ptr.To(int64(options.ttl / time.Second)),
			TerminationGracePeriodSeconds: ptr.To(int64(1)), AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
			SecurityContext: servers.SecurityContext, ImagePullSecrets: servers.ImagePullSecrets,
			Tolerations: servers.Tolerations, NodeSelector: servers.NodeSelector,
			InitContainers: []corev1.Container{install}, Containers: []corev1.Container{shell},
			Volumes: []corev1.Volume{
				{Name: "tools", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "connection", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
					SecretName: cluster.ConnectionSecret(o.GetName()), DefaultMode: ptr.To(int32(0o440)),
				}}},
			},
		},
	}, nil
}

func shellContainer(name, image string, command []string, mounts ...corev1.VolumeMount) corev1.Container {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	return corev1.Container{
		Name: name, Image: image, Command: command, VolumeMounts: mounts,
		Resources: corev1.ResourceRequirements{Requests: amounts, Limits: limits},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// imageOf is the image of a container.
func imageOf(containers []corev1.Container, name string) (string, error) {
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return "", fmt.Errorf("the pods of the cluster have no container %s: was the StatefulSet changed by hand?", name)
	}
	return containers[i].Image, nil
}
