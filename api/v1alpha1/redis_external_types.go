package v1alpha1

// ExternalAccessType is how clients outside of Kubernetes reach servers.
// +kubebuilder:validation:Enum=NodePort;LoadBalancer
type ExternalAccessType string

// Types of external access.
const (
	// ExternalNodePort opens a port on all nodes for each server.
	ExternalNodePort ExternalAccessType = "NodePort"
	// ExternalLoadBalancer asks for a load balancer for each server.
	ExternalLoadBalancer ExternalAccessType = "LoadBalancer"
)

// RedisExternalAccess is how clients outside of Kubernetes reach the servers of a RedisCluster.
// +kubebuilder:validation:XValidation:rule=`self.type == 'NodePort' || !has(self.host)`,fieldPath=".host",message="spec.externalAccess.host belongs to type NodePort: every load balancer has a host of its own; remove it"
type RedisExternalAccess struct {
	// type is NodePort or LoadBalancer. With mode Sharded every server gets a
	// Service of its own, and tells all clients, also those inside of
	// Kubernetes, to reach it there. With mode Replicated the Services
	// <name>-primary and <name>-replicas are of this type.
	// +required
	Type ExternalAccessType `json:"type"`
	// host is a DNS name or an IPv4 address that leads to the nodes, with type
	// NodePort. Default: for each server the address of the node that its pod is
	// on, the external one where it has one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$')`,message="spec.externalAccess.host must be a DNS name in lower case or an IPv4 address, without a port, for example redis.example.com"
	Host *string `json:"host,omitempty"`
	// annotations of the Services that clients outside connect to, for example
	// for the provider of the load balancers. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.matches('^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$') && k.indexOf('/') <= 253)`,message="spec.externalAccess.annotations: a key must be a valid annotation key, for example example.com/team"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k.startsWith('app.kubernetes.io/') || k.startsWith('quorate.dev/'))`,message="spec.externalAccess.annotations: keys under app.kubernetes.io/ and quorate.dev/ belong to the operator; use those of your provider"
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]TemplateValue `json:"annotations,omitempty"`
}

// RedisExternalEndpoint is where clients outside of Kubernetes reach a server.
type RedisExternalEndpoint struct {
	// name of the server's pod, or with mode Replicated of the Service.
	Name string `json:"name"`
	// address is host:port.
	Address string `json:"address"`
}

// HostOutside returns the host that leads to the nodes, empty when each server goes by its own node.
func (e *RedisExternalAccess) HostOutside() string { return value(e.Host, "") }
