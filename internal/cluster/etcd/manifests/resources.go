package manifests

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// Builder is all that the objects of a cluster are built from.
type Builder struct {
	// Cluster has the settings that pods are made with, which may not be those that the specification asks for.
	Cluster *v1alpha1.EtcdCluster
	// Version that pods are made with, on the way to Target.
	Version, Target model.Version
	// First is how the members are reached of which there is no record yet.
	First model.Transport
	// InUse are the versions that there are pods of.
	InUse  []model.Version
	Record model.Record
	// Asked tells the settings apart that the specification asks for.
	Asked string
	// Common configuration of the members, see config.Common.
	Common map[string]any
	// Storage that claims are made with, nil for ephemeral. A StatefulSet cannot change its claim template, so this is what it
	// was made with.
	Storage *v1alpha1.StorageSpec
	// Smallest is the size in bytes of the smallest volume of a member, 0 when there is none.
	Smallest int64
	// Domain of the Kubernetes cluster's DNS.
	Domain string
	// AgentImage is the operator's own image.
	AgentImage string
	// Registry takes the place of the public one, empty: none does.
	Registry string
	// SigningSum tells keys apart that members sign tokens with, empty without authentication.
	SigningSum string
	// TrustSum tells apart the sets of authorities that members trust, empty without TLS.
	TrustSum string
	// ServerSecret and PeerSecret hold the certificates that the pods mount, empty without TLS.
	ServerSecret, PeerSecret string
	Owner                    *metav1ac.OwnerReferenceApplyConfiguration
}

// Labels of everything that belongs to an etcd cluster.
func Labels(name string) map[string]string {
	return cluster.Labels(name, v1alpha1.ComponentEtcd, "etcd")
}

// Selector of the pods of an etcd cluster.
func Selector(name string) map[string]string { return cluster.Selector(name, v1alpha1.ComponentEtcd) }

// Peers are the members of all ordinals that there can be.
func (b Builder) Peers() []model.Peer {
	c := b.Cluster
	return model.Peers(c.Name, c.Namespace, b.Domain, model.MaxSize, b.Reach().Secure)
}

// Reach is how the members are reached.
func (b Builder) Reach() model.Transport {
	if len(b.Record.Members) > 0 {
		return b.Record.Transport()
	}
	return b.First
}

// Layout is what the configuration of the members depends on.
func (b Builder) Layout() config.Layout {
	reach := b.Reach()
	l := config.Layout{
		Name: b.Cluster.Name, Namespace: b.Cluster.Namespace, UID: string(b.Cluster.UID), Domain: b.Domain,
		TLS: v1alpha1.TLSDisabled, Plain: !reach.Secure || reach.Both, Auth: b.SigningSum != "", Version: b.Version, Members: b.Record.Members,
	}
	if reach.UsesTLS() {
		l.TLS = b.Cluster.Spec.TLS.TLSMode()
	}
	if b.Storage != nil {
		l.VolumeSize = b.Storage.Size.Value()
		if b.Smallest > 0 {
			l.VolumeSize = min(l.VolumeSize, b.Smallest) // Others are on their way.
		}
	}
	return l
}

// PeersService gives every member a name of its own, ready or not: members must find each other to become ready.
func (b Builder) PeersService() *corev1ac.ServiceApplyConfiguration {
	name := b.Cluster.Name
	return corev1ac.Service(cluster.PeersService(name), b.Cluster.Namespace).
		WithLabels(Labels(name)).WithOwnerReferences(b.Owner).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).WithPublishNotReadyAddresses(true).WithSelector(Selector(name)).
			WithPorts(
				corev1ac.ServicePort().WithName("client").WithPort(model.ClientPort).WithTargetPort(intstr.FromInt32(model.ClientPort)),
				corev1ac.ServicePort().WithName("peer").WithPort(model.PeerPort).WithTargetPort(intstr.FromInt32(model.PeerPort)),
				corev1ac.ServicePort().WithName("peer-plain").WithPort(model.PlainPeerPort).WithTargetPort(intstr.FromInt32(model.PlainPeerPort)),
				corev1ac.ServicePort().WithName("metrics").WithPort(model.MetricsPort).WithTargetPort(intstr.FromInt32(model.MetricsPort)),
			))
}

// servingPods selects the pods that clients may be sent to: all but one that is being defragmented.
func servingPods(name string) map[string]string {
	l := Selector(name)
	l[v1alpha1.LabelServing] = "true"
	return l
}

// ClientService leads to the ready members. It must not exist before the identity of the cluster is recorded.
func (b Builder) ClientService() *corev1ac.ServiceApplyConfiguration {
	name := b.Cluster.Name
	return corev1ac.Service(cluster.ClientService(name), b.Cluster.Namespace).
		WithLabels(Labels(name)).WithOwnerReferences(b.Owner).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).WithSelector(servingPods(name)).
			WithPorts(corev1ac.ServicePort().WithName("client").WithPort(model.ClientPort).
				WithTargetPort(intstr.FromInt32(model.ClientPort))))
}

// DisruptionBudget keeps a quorum of members through drains, see keepBudget in package planner for
// how many that are.
//
// An unhealthy pod may be evicted only while the budget is met (IfHealthyBudget, the default, said
// aloud). With a quorum of healthy members a broken one does not hold up a drain. Without one,
// AlwaysAllow would let a drain take away the members that are on their way back, and with
// ephemeral storage their data.
func (b Builder) DisruptionBudget() *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	name := b.Cluster.Name
	return policyv1ac.PodDisruptionBudget(name, b.Cluster.Namespace).
		WithLabels(Labels(name)).WithOwnerReferences(b.Owner).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMinAvailable(intstr.FromInt32(int32(b.Record.MinAvailable))). //nolint:gosec // At most seven.
			WithUnhealthyPodEvictionPolicy(policyv1.IfHealthyBudget).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(name))))
}

// Leafs are the certificates of a cluster, by the name of their Secret.
func Leafs(name, namespace, domain string) map[string]clustertls.Leaf {
	peers := cluster.ServiceNames(cluster.PeersService(name), namespace, domain)
	pods := slices.Concat(cluster.Wildcards(peers), peers)
	return map[string]clustertls.Leaf{
		cluster.PeerTLSSecret(name): {CommonName: model.PeerCommonName, DNSNames: pods},
		cluster.ServerTLSSecret(name): {
			CommonName: model.ServerCommonName,
			DNSNames:   slices.Concat(pods, cluster.ServiceNames(cluster.ClientService(name), namespace, domain), []string{"localhost"}),
			IPs:        clustertls.Loopback,
		},
		// etcd looks a client's address up among the names in its certificate, if there are any. There are none.
		cluster.ClientTLSSecret(name):   {CommonName: model.ClientCommonName},
		cluster.OperatorTLSSecret(name): {CommonName: model.RootUser},
	}
}

// Hosts are the names under which the members reach each other, and clients and the operator reach them.
func (b Builder) Hosts() []string {
	c := b.Cluster
	hosts := []string{cluster.ServiceHost(cluster.ClientService(c.Name), c.Namespace, b.Domain)}
	for _, p := range b.Peers()[:max(int(c.Spec.Size), len(b.Record.Members))] {
		hosts = append(hosts, cluster.PodHost(p.Name, c.Name, c.Namespace, b.Domain))
	}
	return hosts
}

// Connection returns the Secret that clients connect with, in the layout of the Service Binding specification
// (https://servicebinding.io/spec/core/1.1.0/#well-known-secret-entries). password is empty without authentication,
// ca and pair without TLS.
func (b Builder) Connection(password string, ca []byte, pair clustertls.Pair) map[string][]byte {
	host := cluster.ServiceHost(cluster.ClientService(b.Cluster.Name), b.Cluster.Namespace, b.Domain)
	scheme := "http"
	data := map[string][]byte{
		"type": []byte("etcd"), "provider": []byte(cluster.ManagedBy),
		"host": []byte(host), "port": fmt.Append(nil, model.ClientPort),
	}
	if len(ca) > 0 {
		scheme = "https"
		data["ca.crt"] = ca
	}
	if len(pair.Key) > 0 {
		data["tls.crt"], data["tls.key"] = pair.Cert, pair.Key
	}
	if password != "" {
		data["username"], data["password"] = []byte(model.RootUser), []byte(password)
	}
	data["uri"] = []byte(model.ClientURL(scheme, host))
	return data
}
