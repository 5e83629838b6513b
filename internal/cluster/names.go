package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

// Names of the objects that a cluster resource is made of. They are derived from the resource's name alone, so that
// a cluster created again under the same name finds its retained claims.

// ConfigName is the ConfigMap that the start gate reads.
func ConfigName(cluster string) string { return cluster + "-config" }

// PeersService is the headless Service through which the pods find each other, ready or not.
func PeersService(cluster string) string { return cluster + "-peers" }

// ClientService is the Service that clients connect to.
func ClientService(cluster string) string { return cluster + "-client" }

// PrimaryService leads to the primary of a cluster in the mode Replicated.
func PrimaryService(cluster string) string { return cluster + "-primary" }

// ReplicasService leads to its replicas.
func ReplicasService(cluster string) string { return cluster + "-replicas" }

// ExternalService leads to one Redis pod from outside of Kubernetes.
func ExternalService(pod string) string { return pod + "-external" }

// AnnouncedService leads to it from inside, at the port that clients outside use.
func AnnouncedService(pod string) string { return pod + "-announced" }

// ConnectionSecret is the Secret with everything a client needs, in the Service Binding layout.
func ConnectionSecret(cluster string) string { return cluster + "-connection" }

// AuthSecret holds the generated passwords.
func AuthSecret(cluster string) string { return cluster + "-auth" }

// UserSecret is the Secret with everything that a client of one user needs. No Secret of a cluster ends like this, so the
// two cannot meet.
func UserSecret(user string) string { return user + "-etcd-user" }

// UserPasswordSecret holds the generated password of a user.
func UserPasswordSecret(user string) string { return user + "-etcd-user-password" }

// RedisUserSecret is the same for a user of a Redis or Valkey cluster.
func RedisUserSecret(user string) string { return user + "-redis-user" }

// RedisUserPasswordSecret holds the generated password of such a user.
func RedisUserPasswordSecret(user string) string { return user + "-redis-user-password" }

// CASecret holds the certificate authority of a cluster with managed certificates.
func CASecret(cluster string) string { return cluster + "-ca" }

// ServerTLSSecret holds the certificate that the servers show to clients.
func ServerTLSSecret(cluster string) string { return cluster + "-server-tls" }

// PeerTLSSecret holds the certificate that etcd members show to each other.
func PeerTLSSecret(cluster string) string { return cluster + "-peer-tls" }

// ClientTLSSecret holds the certificate handed out to clients.
func ClientTLSSecret(cluster string) string { return cluster + "-client-tls" }

// OperatorTLSSecret holds the certificate that the operator itself connects with.
func OperatorTLSSecret(cluster string) string { return cluster + "-operator-tls" }

// Snapshot is the claim that the Backups before upgrades of an etcd cluster are kept on.
func Snapshot(cluster string) string { return cluster + "-snapshot" }

// RestoreJob looks up the backup that a cluster is to begin with.
func RestoreJob(cluster string) string { return cluster + "-restore" }

// LoadJob loads that backup into servers that run.
func LoadJob(cluster string) string { return cluster + "-load" }

// RestoreConfig is the ConfigMap that says which backup a cluster began with.
func RestoreConfig(cluster string) string { return cluster + "-restore" }

// EtcdMonitor is the PodMonitor of an etcd cluster.
func EtcdMonitor(cluster string) string { return cluster + "-etcd" }

// Exporter is who tells the metrics of a Redis or Valkey cluster: the Deployment, the RedisUser that it connects as, and its PodMonitor.
func Exporter(cluster string) string { return cluster + "-exporter" }

// Certificate is the object of cert-manager that asks for what is in one of the Secrets above.
func Certificate(secret string) string { return strings.TrimSuffix(secret, "-tls") }

// IssuedSecret is where cert-manager writes what it has issued for one of the Secrets above.
func IssuedSecret(secret string) string { return secret + "-issued" }

// ShardSet is the StatefulSet of one Redis shard.
func ShardSet(cluster string, shard int) string { return fmt.Sprintf("%s-%d", cluster, shard) }

// MaxServers is the largest number of servers that the API allows for one cluster. No shard and no
// ordinal reaches it.
const MaxServers = 1000

// Number parses a shard or an ordinal as Kubernetes writes it into names: decimal, without sign or
// leading zeros, below MaxServers. Memory is allocated by these numbers, and whoever may create an
// object chooses its name.
func Number(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n < MaxServers && strconv.Itoa(n) == text
}

// ShardOf returns the shard of a StatefulSet, parsed from its name: labels can be changed.
func ShardOf(cluster, set string) (shard int, ok bool) {
	text, found := strings.CutPrefix(set, cluster+"-")
	shard, ok = Number(text)
	return shard, ok && found
}

// Pod is the name that a StatefulSet gives to the pod of an ordinal.
func Pod(set string, ordinal int) string { return fmt.Sprintf("%s-%d", set, ordinal) }

// VolumeData is the name of the data volume and of its claim template.
const VolumeData = "data"

// Claim is the name that a StatefulSet gives to the data volume claim of an ordinal.
func Claim(set string, ordinal int) string { return fmt.Sprintf("%s-%s-%d", VolumeData, set, ordinal) }

// PodHost is the stable DNS name of a pod behind the peers Service: <pod>.<cluster>-peers.<namespace>.svc.<domain>.
func PodHost(pod, cluster, namespace, domain string) string {
	return fmt.Sprintf("%s.%s.%s.svc.%s", pod, PeersService(cluster), namespace, domain)
}

// ServiceHost is the DNS name of a Service.
func ServiceHost(service, namespace, domain string) string {
	return fmt.Sprintf("%s.%s.svc.%s", service, namespace, domain)
}

// ServiceNames are all names under which clients may look a Service up: from its own namespace, from another one, and in
// full.
func ServiceNames(service, namespace, domain string) []string {
	return []string{
		service, service + "." + namespace, service + "." + namespace + ".svc", ServiceHost(service, namespace, domain),
	}
}

// Wildcards stand for every pod behind the given names of a headless Service.
func Wildcards(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "*." + n
	}
	return out
}
