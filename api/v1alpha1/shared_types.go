package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DeletionPolicy says what becomes of volume claims when their cluster is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Deletion policies.
const (
	// DeletionRetain keeps the claims; a cluster created again under the same name finds its data.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete removes the claims, and with them the data.
	DeletionDelete DeletionPolicy = "Delete"
)

// StorageSpec describes the persistent volume of each pod.
type StorageSpec struct {
	// size of the volume of each pod, for example 10Gi. It cannot shrink.
	// +required
	Size resource.Quantity `json:"size"`
	// className is the StorageClass of the volumes. Default: the default class of the Kubernetes cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`
	// deletionPolicy says what becomes of the volume claims when the resource is deleted: Retain (default) keeps
	// them, and a cluster created again under the same name finds its data; Delete removes them.
	// +optional
	// +default="Retain"
	DeletionPolicy *DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// TLSMode says where certificates come from.
// +kubebuilder:validation:Enum=Managed;Provided;Disabled
type TLSMode string

// TLS modes.
const (
	// TLSManaged makes the operator run a certificate authority for the cluster.
	TLSManaged TLSMode = "Managed"
	// TLSProvided uses certificates from a Secret of the user.
	TLSProvided TLSMode = "Provided"
	// TLSDisabled serves plain text.
	TLSDisabled TLSMode = "Disabled"
)

// TLSSpec says how connections between clients and servers, and among servers, are encrypted.
type TLSSpec struct {
	// mode is Managed (default: the operator runs a certificate authority for this cluster), Provided (certificates
	// come from secretName) or Disabled (plain text).
	// +optional
	// +default="Managed"
	Mode *TLSMode `json:"mode,omitempty"`
	// secretName names a Secret of the same namespace with the keys ca.crt, tls.crt and tls.key. Its certificate
	// must be valid for server and client authentication and for every name that clients use. Only with mode Provided.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName *string `json:"secretName,omitempty"`
}

// AuthMode says how clients prove who they are.
// +kubebuilder:validation:Enum=Password;Disabled
type AuthMode string

// Authentication modes.
const (
	// AuthPassword asks every client for a user and a password.
	AuthPassword AuthMode = "Password"
	// AuthDisabled lets every client in that can connect.
	AuthDisabled AuthMode = "Disabled"
)

// AuthSpec says how clients prove who they are.
type AuthSpec struct {
	// mode is Password (default: every client needs a user and a password) or Disabled.
	// +optional
	// +default="Password"
	Mode *AuthMode `json:"mode,omitempty"`
	// secretName names a Secret of the same namespace whose key "password" holds the password of the administrator
	// (etcd: root, Redis: default). Default: the operator generates one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName *string `json:"secretName,omitempty"`
}

// ConfigValue is the value of such a parameter.
// +kubebuilder:validation:MaxLength=256
type ConfigValue string

// PodTemplate holds what users may change about the pods. What is not listed here belongs to the operator: the
// pods always meet the restricted Pod Security Standard.
type PodTemplate struct {
	// labels are added to the pods. Keys under app.kubernetes.io/ and quorate.dev/ belong to the operator.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]TemplateValue `json:"labels,omitempty"`
	// annotations are added to the pods. Keys under quorate.dev/ belong to the operator.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]TemplateValue `json:"annotations,omitempty"`
	// affinity of the pods. Default: pods of one cluster (Redis: of one shard) prefer different nodes.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// tolerations of the pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// nodeSelector of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// topologySpreadConstraints of the pods. A constraint without labelSelector counts the pods of this cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// priorityClassName of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// env is added to the data store's container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []corev1.EnvVar `json:"env,omitempty"`
	// imagePullSecrets name Secrets of the same namespace with credentials for the image registry.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// securityContext of the pods, within the restricted Pod Security Standard. Default: user, group and fsGroup 65532.
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`
}

// TemplateValue is the value of a label or an annotation of a pod.
// +kubebuilder:validation:MaxLength=1024
type TemplateValue string
