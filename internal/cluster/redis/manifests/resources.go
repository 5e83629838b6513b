package manifests

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Names of the containers.
const (
	ContainerServer = "redis"
	ContainerGate   = "gate"
)

// annotationConfig carries the hash of the part of the configuration that takes a restart, so that a change of it changes
// the template.
const annotationConfig = "quorate.dev/config-hash"

// AnnotationCertificates is what a pod was started with: the fingerprints of the authorities that its server trusts and of its
// certificate. Servers are made to read both anew while they run; where that cannot be proven of the authorities, they are
// restarted for others, see Stale.
const AnnotationCertificates = "quorate.dev/certificates"

// AnnotationResources is the cpu and memory, on a pod, that its server's container was made with or asked to have since. What somebody else
// has asked for, such as an autoscaler, does not show in it.
const AnnotationResources = "quorate.dev/resources"

// gracePeriod is how long a server may take to stop, in seconds: it lets its replicas catch up (10 s at most by
// default) and flushes its append-only file.
const gracePeriod = 60

// Builder makes the Kubernetes objects of one cluster.
type Builder struct {
	Cluster *v1alpha1.RedisCluster
	Owner   *metav1ac.OwnerReferenceApplyConfiguration
	// Domain of the Kubernetes cluster's DNS.
	Domain string
	// AgentImage is the image of the start gate.
	AgentImage string
	// Registry takes the place of the public one, empty: none does.
	Registry string
	// TLSSecret holds the servers' certificate; empty without TLS.
	TLSSecret string
	// Doors are where pods are reached from outside.
	Doors []model.Door
	// CertificateSum tells apart what that Secret holds; empty without TLS.
	CertificateSum string
}

// Labels of everything that belongs to a cluster.
func Labels(c *v1alpha1.RedisCluster) map[string]string {
	return cluster.Labels(c.Name, v1alpha1.ComponentRedis, string(c.Spec.ServerEngine()))
}

// Selector selects all pods of a cluster.
func Selector(c *v1alpha1.RedisCluster) map[string]string {
	return cluster.Selector(c.Name, v1alpha1.ComponentRedis)
}

// OnePerShard selects one pod of each shard. That is for autoscalers, which take every pod that the scale subresource selects for one of what
// they count: with all pods they would ask for as many shards as there are to be pods.
func OnePerShard(c *v1alpha1.RedisCluster) map[string]string {
	out := maps.Clone(Selector(c))
	out[appsv1.PodIndexLabel] = "0"
	return out
}

// shardLabels adds the shard to labels.
func shardLabels(l map[string]string, shard int) map[string]string {
	out := maps.Clone(l)
	out[v1alpha1.LabelShard] = strconv.Itoa(shard)
	return out
}

// Config is the ConfigMap that the start gates read.
func (b Builder) Config() (*corev1ac.ConfigMapApplyConfiguration, error) {
	text, err := config.Config(&b.Cluster.Spec)
	if err != nil {
		return nil, err
	}
	data := map[string]string{config.ConfigKey: text}
	if len(b.Doors) > 0 {
		if data[config.AnnounceKey], err = config.Announcements(b.Doors); err != nil {
			return nil, err
		}
	}
	return corev1ac.ConfigMap(cluster.ConfigName(b.Cluster.Name), b.Cluster.Namespace).
		WithLabels(Labels(b.Cluster)).WithOwnerReferences(b.Owner).WithData(data), nil
}

// Peers is the headless Service that gives every pod a name, ready or not.
func (b Builder) Peers() *corev1ac.ServiceApplyConfiguration {
	return b.service(cluster.PeersService(b.Cluster.Name), corev1ac.ServiceSpec().
		WithClusterIP(corev1.ClusterIPNone).
		WithPublishNotReadyAddresses(true).
		WithPorts(servicePort("redis", model.ClientPort), servicePort("bus", model.BusPort)))
}

// Client is the Service through which clients find a first server; it tells them about the others.
func (b Builder) Client() *corev1ac.ServiceApplyConfiguration {
	return b.service(cluster.ClientService(b.Cluster.Name), corev1ac.ServiceSpec().
		WithPorts(servicePort("redis", model.ClientPort)))
}

func (b Builder) service(name string, spec *corev1ac.ServiceSpecApplyConfiguration) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(name, b.Cluster.Namespace).
		WithLabels(Labels(b.Cluster)).WithOwnerReferences(b.Owner).
		WithSpec(spec.WithSelector(Selector(b.Cluster)))
}

func servicePort(name string, port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().WithName(name).WithPort(port).WithTargetPort(intstr.FromString(name)).WithProtocol(corev1.ProtocolTCP)
}

// Budget keeps voluntary evictions from taking more than one pod of a shard at a time, and none of a guarded one.
func (b Builder) Budget(shard int, guarded bool) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	most := int32(1)
	if guarded {
		most = 0
	}
	return policyv1ac.PodDisruptionBudget(cluster.ShardSet(b.Cluster.Name, shard), b.Cluster.Namespace).
		WithLabels(shardLabels(Labels(b.Cluster), shard)).WithOwnerReferences(b.Owner).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(most)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(shardLabels(Selector(b.Cluster), shard))))
}

// Where images of the servers are published.
const (
	redisImage  = "docker.io/library/redis"
	valkeyImage = "docker.io/valkey/valkey"
)

// Environment variables and mounts of the gate, see cmd/agent.
const (
	GateConfigDir = "/etc/quorate/config"
	GateAuthDir   = "/etc/quorate/auth"
	GateDataDir   = model.DataDir
	GateRunDir    = model.RunDir
)
