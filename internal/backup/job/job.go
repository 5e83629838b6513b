package job

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
)

const (
	// Container is the name of the container in the pods of the Jobs.
	Container = "backup"
	// AnnotationFor tells what a Job was made for.
	AnnotationFor = "quorate.dev/sum"
)

// Where the pod of a Job finds what.
const (
	CredentialsDir = "/credentials"
	KeysDir        = "/keys"
	// StoreDir is where the claim of a destination pvc:// is.
	StoreDir = "/backups"
	// ScratchDir is empty room for a check.
	ScratchDir = "/scratch"
	// AccessTLSDir has the certificate of a client that may do what the Job needs, if there is TLS.
	AccessTLSDir = "/tls"
	// AccessAuthDir has passwords, where there are any.
	AccessAuthDir = "/auth"
	// ToolsDir has the agent and the certificate authorities of the operator's image, in a container of another image.
	ToolsDir        = "/tools"
	AgentFile       = "agent"
	AuthoritiesFile = "ca-certificates.crt"
)

const (
	// ExitFinal is the exit code of an attempt after which another one is in vain.
	ExitFinal = 3

	volumeCredentials = "credentials"
	volumeKeys        = "keys"
	volumeStore       = "store"
	volumeScratch     = "scratch"
	volumeTLS         = "tls"
	volumeAuth        = "auth"
	volumeTools       = "tools"

	// containerInstall copies the agent to where a container of another image finds it.
	containerInstall = "install"

	// tries of a Job beside the first, each after twice as long a rest as the one before, from ten seconds on.
	tries = 4
	// FinishedTTL is how long a Job is kept after its end, unless its owner is deleted before.
	FinishedTTL = time.Hour
)

// Access is how the pod of a Job gets at a cluster.
type Access struct {
	// Args name the servers, Stream does to what records changes: it does not begin anew where only the version is another.
	Args, Stream []string
	// TLSSecret and AuthSecret are mounted where they are named.
	TLSSecret, AuthSecret string
	// TLSKeys and AuthKeys are the keys of these Secrets that are mounted, none: all.
	TLSKeys, AuthKeys []string
	// Template says where pods of the cluster may run, and with what rights.
	Template *v1alpha1.PodTemplate
	// Streams is how many parts are taken at the same time; zero is one.
	Streams int
}

// Work is what a Job is to do.
type Work struct {
	Name, Namespace string
	Labels          map[string]string
	Owner           *metav1ac.OwnerReferenceApplyConfiguration
	// Image is the operator's own, Args what its agent is to do there, and For what tells that apart from what Jobs of the name were to do before.
	Image string
	Args  []string
	For   string
	// Destination of the data.
	Destination v1alpha1.BackupDestination
	// Access to the cluster, nil where the Job needs none.
	Access *Access
	// Scratch says that it needs room on the disk.
	Scratch bool
	// Resources of the container, nil for the default.
	Resources *corev1.ResourceRequirements
	// Server is the image of a data store that the agent runs in, so that it can start a server; empty: its own. Memory is what such a
	// server needs in bytes, unless Resources say what there is.
	Server string
	Memory int64
	// Limit is how long it may take in all.
	Limit time.Duration
	// Suspended says that it does nothing before somebody lets it.
	Suspended bool
	// Stays says that the Job is there until somebody deletes it: that it is gone would mean that it is yet to be done.
	Stays bool
}

// Labels of a Job and of its pod. They name the Backup as their instance: what belongs to the cluster is selected by other ones.
func Labels(backup, clusterName string) map[string]string {
	l := cluster.Labels(backup, v1alpha1.ComponentBackup, "quorate-backup")
	l[cluster.LabelPartOf] = clusterName
	return l
}

// ScheduleLabels are the same for what a BackupSchedule runs.
func ScheduleLabels(schedule, clusterName string) map[string]string {
	l := cluster.Labels(schedule, v1alpha1.ComponentBackupSchedule, "quorate-backup")
	l[cluster.LabelPartOf] = clusterName
	return l
}

// Selector selects the pods of the Jobs of a Backup.
func Selector(backup string) map[string]string {
	return cluster.Selector(backup, v1alpha1.ComponentBackup)
}

// Job builds the Job.
func (w Work) Job() (*batchv1ac.JobApplyConfiguration, error) {
	tpl, err := w.pod()
	if err != nil {
		return nil, err
	}
	job := batchv1ac.Job(w.Name, w.Namespace).WithLabels(w.Labels).WithOwnerReferences(w.Owner).
		WithSpec(batchv1ac.JobSpec().
			WithBackoffLimit(tries).WithActiveDeadlineSeconds(int64(w.Limit.Seconds())).
			WithPodReplacementPolicy(batchv1.Failed). // Never two at a time.
			WithPodFailurePolicy(batchv1ac.PodFailurePolicy().WithRules(
				batchv1ac.PodFailurePolicyRule().WithAction(batchv1.PodFailurePolicyActionIgnore).
					WithOnPodConditions(batchv1ac.PodFailurePolicyOnPodConditionsPattern().
						WithType(corev1.DisruptionTarget).WithStatus(corev1.ConditionTrue)), // Evicted: not its fault.
				batchv1ac.PodFailurePolicyRule().WithAction(batchv1.PodFailurePolicyActionFailJob).
					WithOnExitCodes(batchv1ac.PodFailurePolicyOnExitCodesRequirement().
						WithContainerName(Container).WithOperator(batchv1.PodFailurePolicyOnExitCodesOpIn).WithValues(ExitFinal)))).
			WithTemplate(tpl))
	if w.For != "" {
		job.WithAnnotations(map[string]string{AnnotationFor: w.For})
	}
	if w.Suspended {
		job.Spec.WithSuspend(true)
	}
	if !w.Stays {
		job.Spec.WithTTLSecondsAfterFinished(int32(FinishedTTL.Seconds()))
	}
	return job, nil
}

// StatefulSet builds a set of one pod that does the work all the time: never two at once.
func (w Work) StatefulSet() (*appsv1ac.StatefulSetApplyConfiguration, error) {
	tpl, err := w.pod()
	if err != nil {
		return nil, err
	}
	tpl.Spec.WithRestartPolicy(corev1.RestartPolicyAlways)
	return appsv1ac.StatefulSet(w.Name, w.Namespace).WithLabels(w.Labels).WithOwnerReferences(w.Owner).
		WithSpec(appsv1ac.StatefulSetSpec().WithServiceName(w.Name).WithReplicas(1).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorOf(w.Labels))).WithTemplate(tpl)), nil
}

// selectorOf is what of labels never changes.
func selectorOf(labels map[string]string) map[string]string {
	return cluster.Selector(labels[cluster.LabelInstance], labels[cluster.LabelComponent])
}

func (w Work) pod() (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	c := corev1ac.Container().WithName(Container).WithImage(w.Image).WithCommand("/agent").WithArgs(w.Args...).
		WithArgs(StoreArgs(w.Destination)...).
		WithSecurityContext(kube.ContainerSecurity()).WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithPorts(corev1ac.ContainerPort().WithName("progress").WithContainerPort(FlowPort))
	r, err := w.resources()
	if err != nil {
		return nil, err
	}
	spec := corev1ac.PodSpec().WithRestartPolicy(corev1.RestartPolicyNever).WithContainers(c.WithResources(r))
	c = &spec.Containers[0]
	if w.Server == "" {
		c.WithEnv(kube.MemoryLimit())
	} else {
		w.runInServer(spec, c)
	}
	Mount(spec, c, w.Destination)
	w.mountRest(spec, c)
	tpl := corev1ac.PodTemplateSpec().WithLabels(w.Labels).WithSpec(spec)
	var user *v1alpha1.PodTemplate
	if w.Access != nil {
		user = w.Access.Template
	}
	if err := kube.ApplyTemplate(tpl, kube.PlaceOnly(user), Container, kube.Defaults{}); err != nil {
		return nil, err
	}
	MountAccount(spec, c, w.Destination)
	return tpl, nil
}

// runInServer lets the agent run in the image of a data store, which has neither the agent nor, often, any certificate authority.
func (w Work) runInServer(spec *corev1ac.PodSpecApplyConfiguration, c *corev1ac.ContainerApplyConfiguration) {
	tools := corev1ac.VolumeMount().WithName(volumeTools).WithMountPath(ToolsDir)
	spec.WithVolumes(corev1ac.Volume().WithName(volumeTools).WithEmptyDir(corev1ac.EmptyDirVolumeSource())).
		WithInitContainers(corev1ac.Container().WithName(containerInstall).WithImage(w.Image).WithCommand("/agent").
			WithArgs("install", "--dir="+ToolsDir).WithSecurityContext(kube.ContainerSecurity()).WithResources(streamResources(1)).
			WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).WithVolumeMounts(tools))
	readOnly := *tools
	c.Command = []string{ToolsDir + "/" + AgentFile}
	c.WithImage(w.Server).WithArgs("--with-server").
		WithEnv(corev1ac.EnvVar().WithName("GOMEMLIMIT").WithValue(strconv.FormatInt(agentMemory, 10)),
			corev1ac.EnvVar().WithName("SSL_CERT_FILE").WithValue(ToolsDir+"/"+AuthoritiesFile)).
		WithVolumeMounts(readOnly.WithReadOnly(true))
}

func (w Work) mountRest(spec *corev1ac.PodSpecApplyConfiguration, c *corev1ac.ContainerApplyConfiguration) {
	if w.Scratch {
		spec.WithVolumes(corev1ac.Volume().WithName(volumeScratch).WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeScratch).WithMountPath(ScratchDir))
	}
	if w.Access == nil {
		return
	}
	if w.Access.TLSSecret != "" {
		secretMount{volumeTLS, w.Access.TLSSecret, AccessTLSDir, w.Access.TLSKeys}.add(spec, c)
	}
	if w.Access.AuthSecret != "" {
		secretMount{volumeAuth, w.Access.AuthSecret, AccessAuthDir, w.Access.AuthKeys}.add(spec, c)
	}
}

// Mount adds to a pod what its agent needs to read and write at a destination.
func Mount(spec *corev1ac.PodSpecApplyConfiguration, c *corev1ac.ContainerApplyConfiguration, d v1alpha1.BackupDestination) {
	if d.Credentials != nil {
		secretMount{volume: volumeCredentials, secret: d.Credentials.Name, dir: CredentialsDir}.add(spec, c)
	}
	if d.Encryption != nil {
		secretMount{volume: volumeKeys, secret: d.Encryption.Name, dir: KeysDir}.add(spec, c)
	}
	if claim, _ := Claim(d.URL); claim != "" {
		spec.WithVolumes(corev1ac.Volume().WithName(volumeStore).WithPersistentVolumeClaim(
			corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(claim)))
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeStore).WithMountPath(StoreDir))
	}
}

const (
	volumeToken = "account-token"
	// tokenDir is where client libraries and configurations of workload identity federation look for the token of a pod.
	tokenDir = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // A path and no credentials.
	// tokenLife in seconds: the kubelet renews the token before it ends.
	tokenLife = 3600
)

// MountAccount lets a pod run as the service account of a destination, and gives the token of it to one container alone.
func MountAccount(spec *corev1ac.PodSpecApplyConfiguration, c *corev1ac.ContainerApplyConfiguration, d v1alpha1.BackupDestination) {
	if d.ServiceAccountName == nil {
		return
	}
	spec.WithServiceAccountName(*d.ServiceAccountName).WithAutomountServiceAccountToken(false).
		WithVolumes(corev1ac.Volume().WithName(volumeToken).WithProjected(corev1ac.ProjectedVolumeSource().WithSources(
			corev1ac.VolumeProjection().WithServiceAccountToken(
				corev1ac.ServiceAccountTokenProjection().WithPath(corev1.ServiceAccountTokenKey).WithExpirationSeconds(tokenLife)))))
	c.WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeToken).WithMountPath(tokenDir).WithReadOnly(true))
}

// MountPassword adds to a pod the password of the administrator of a cluster.
func MountPassword(spec *corev1ac.PodSpecApplyConfiguration, c *corev1ac.ContainerApplyConfiguration, secret string) {
	secretMount{volumeAuth, secret, AccessAuthDir, []string{"password"}}.add(spec, c)
}

// StoreArgs tell the agent where a destination is, and what was mounted for it.
func StoreArgs(d v1alpha1.BackupDestination) []string {
	args := []string{"--url=" + AgentURL(d.URL)}
	if d.Credentials != nil {
		args = append(args, "--credentials-dir="+CredentialsDir)
	}
	if d.Encryption != nil {
		args = append(args, "--keys-dir="+KeysDir)
	}
	return args
}

// Claim is the claim and the directory in it that a URL pvc://claim/directory names, empty for any other URL.
func Claim(raw string) (claim, dir string) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "pvc" {
		return "", ""
	}
	return u.Host, strings.Trim(u.Path, "/")
}

// AgentURL is what the agent is to open: for a claim, where it is mounted.
func AgentURL(raw string) string {
	claim, dir := Claim(raw)
	if claim == "" {
		return raw
	}
	return strings.TrimSuffix("file://"+StoreDir+"/"+dir, "/")
}

// secretMount says where a Secret is mounted in a container.
type secretMount struct {
	// volume is the name of the volume, secret that of the Secret, and dir the mount path.
	volume, secret, dir string
	// keys are mounted; none: all.
	keys []string
}

// add adds the volume to a pod and mounts it in one container, read-only.
func (m secretMount) add(spec *corev1ac.PodSpecApplyConfiguration, c *corev1ac.ContainerApplyConfiguration) {
	source := corev1ac.SecretVolumeSource().WithSecretName(m.secret)
	for _, k := range m.keys {
		source.WithItems(corev1ac.KeyToPath().WithKey(k).WithPath(k))
	}
	spec.WithVolumes(corev1ac.Volume().WithName(m.volume).WithSecret(source))
	c.WithVolumeMounts(corev1ac.VolumeMount().WithName(m.volume).WithMountPath(m.dir).WithReadOnly(true))
}

// resources are what the user asks for, or what the work needs.
func (w Work) resources() (*corev1ac.ResourceRequirementsApplyConfiguration, error) {
	switch {
	case w.Resources != nil:
		return kube.Convert[corev1ac.ResourceRequirementsApplyConfiguration](w.Resources)
	case w.Server != "":
		return serverResources(w.Memory), nil
	}
	if w.Access != nil {
		return streamResources(w.Access.Streams), nil
	}
	return streamResources(1), nil
}

// streamResources are what so many streams need: they are read, packed and sent in pieces.
func streamResources(streams int) *corev1ac.ResourceRequirementsApplyConfiguration {
	limit := agentLeast + agentStream*int64(max(1, streams))
	return corev1ac.ResourceRequirements().
		WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: *resource.NewQuantity(limit/2, resource.BinarySI)}).
		WithLimits(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: *resource.NewQuantity(limit, resource.BinarySI)})
}
