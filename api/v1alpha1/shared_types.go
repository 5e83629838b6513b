package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// +kubebuilder:validation:XValidation:rule=`!string(self.size).matches('[-+eE]') && isQuantity(string(self.size))`,fieldPath=".size",message="storage.size must be a number with or without a unit, for example 10Gi: no sign, no exponent"
// +kubebuilder:validation:XValidation:rule=`string(self.size).matches('[-+eE]') || !isQuantity(string(self.size)) || quantity(string(self.size)).compareTo(quantity('64Mi')) >= 0`,fieldPath=".size",message="storage.size must be at least 64Mi, for example 10Gi"
// +kubebuilder:validation:XValidation:rule=`string(self.size).matches('[-+eE]') || !isQuantity(string(self.size)) || quantity(string(self.size)).compareTo(quantity('64Ti')) <= 0`,fieldPath=".size",message="storage.size must be at most 64Ti"
type StorageSpec struct {
	// size of the volume of each pod in bytes, from 64Mi (etcd: 512Mi) to 64Ti,
	// for example 10Gi. That of an EtcdCluster can change: volumes grow in place
	// where their StorageClass allows it, and are replaced one member at a time
	// otherwise. That of a RedisCluster cannot change yet.
	// +required
	Size resource.Quantity `json:"size"`
	// className is the StorageClass of the volumes. That of an EtcdCluster can
	// change: the volumes are replaced one member at a time. That of a
	// RedisCluster cannot. Default: the default class of the Kubernetes cluster;
	// volumes of any class stay where they are.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="storage.className must be the name of a StorageClass: lower case letters, digits, - and ."
	ClassName *string `json:"className,omitempty"`
	// deletionPolicy says what becomes of the volume claims when the resource is
	// deleted: Retain (default) keeps them, and a cluster created again under
	// the same name finds its data; Delete removes them, also when somebody
	// deletes the StatefulSet. For a RedisCluster it holds for pods that leave
	// because replicasPerShard is smaller as well.
	// +optional
	// +default="Retain"
	DeletionPolicy *DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// TLSMode says where certificates come from.
// +kubebuilder:validation:Enum=Managed;CertManager;Provided;Disabled
type TLSMode string

// TLS modes.
const (
	// TLSManaged makes the operator run a certificate authority for the cluster.
	TLSManaged TLSMode = "Managed"
	// TLSCertManager has certificates issued by an issuer of cert-manager.
	TLSCertManager TLSMode = "CertManager"
	// TLSProvided uses certificates from a Secret of the user.
	TLSProvided TLSMode = "Provided"
	// TLSDisabled serves plain text.
	TLSDisabled TLSMode = "Disabled"
)

// TLSSpec says how connections between clients and servers, and among servers, are encrypted.
// +kubebuilder:validation:XValidation:rule=`self.?mode.orValue('Managed') != 'Provided' || has(self.secretName)`,fieldPath=".secretName",message="tls.secretName is required with mode Provided: name a Secret of this namespace with the keys ca.crt, tls.crt and tls.key"
// +kubebuilder:validation:XValidation:rule=`self.?mode.orValue('Managed') == 'Provided' || !has(self.secretName)`,fieldPath=".secretName",message="tls.secretName is read with mode Provided only: set tls.mode to Provided, or remove tls.secretName"
// +kubebuilder:validation:XValidation:rule=`!has(self.secretName) || !has(oldSelf.secretName) || self.secretName == oldSelf.secretName`,fieldPath=".secretName",message="tls.secretName cannot change yet: moving a running cluster to other certificates is not part of this release"
// +kubebuilder:validation:XValidation:rule=`self.?mode.orValue('Managed') in ['Managed', 'CertManager'] || !has(self.rotation)`,fieldPath=".rotation",message="tls.rotation is read with modes Managed and CertManager only: certificates of yours are replaced in your Secret; remove tls.rotation"
// +kubebuilder:validation:XValidation:rule=`self.?mode.orValue('Managed') != 'CertManager' || !has(self.rotation) || !has(self.rotation.after)`,fieldPath=".rotation.after",message="tls.rotation.after is read with mode Managed only: with CertManager the issuer says when its certificate authority is another one; remove tls.rotation.after"
// +kubebuilder:validation:XValidation:rule=`self.?mode.orValue('Managed') != 'CertManager' || has(self.issuerRef)`,fieldPath=".issuerRef",message="tls.issuerRef is required with mode CertManager: name an Issuer of this namespace, or a ClusterIssuer"
// +kubebuilder:validation:XValidation:rule=`self.?mode.orValue('Managed') == 'CertManager' || !has(self.issuerRef)`,fieldPath=".issuerRef",message="tls.issuerRef is read with mode CertManager only: set tls.mode to CertManager, or remove tls.issuerRef"
type TLSSpec struct {
	// mode is Managed (default: the operator runs a certificate authority for
	// this cluster), CertManager (cert-manager issues the certificates, see
	// issuerRef), Provided (certificates come from secretName) or Disabled
	// (plain text). An EtcdCluster changes from Managed and Provided to Disabled
	// and back while it serves: members listen for both as long as that takes,
	// and clients follow the connection Secret. From and to CertManager it cannot
	// change yet, and that of a RedisCluster not at all.
	// +optional
	// +default="Managed"
	Mode *TLSMode `json:"mode,omitempty"`
	// secretName names a Secret of the same namespace with the keys ca.crt,
	// tls.crt and tls.key. Its certificate must be valid for server and client
	// authentication and for every name that clients use. Required with mode
	// Provided, refused with any other. It cannot change yet. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="tls.secretName must be the name of a Secret of the same namespace: lower case letters, digits, - and ."
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName *string `json:"secretName,omitempty"`
	// issuerRef names the issuer of cert-manager that signs the certificates. It
	// must tell its certificate authority, as those of type CA and Vault do and
	// those of type ACME do not. Required with mode CertManager, refused with any
	// other. It may change at any time. Default: none.
	// +optional
	IssuerRef *IssuerReference `json:"issuerRef,omitempty"`
	// rotation says when the certificate authority is replaced, and at what
	// pace. Only with modes Managed and CertManager. Default: when a third of its
	// life of ten years is left; with CertManager, when the issuer has another
	// one.
	// +optional
	Rotation *RotationSpec `json:"rotation,omitempty"`
}

// IssuerReference names an issuer of cert-manager.
// +kubebuilder:validation:XValidation:rule=`self.?group.orValue('cert-manager.io') != 'cert-manager.io' || self.?kind.orValue('Issuer') in ['Issuer', 'ClusterIssuer']`,fieldPath=".kind",message="tls.issuerRef.kind must be Issuer or ClusterIssuer in the group cert-manager.io; for another kind of issuer set tls.issuerRef.group, too"
type IssuerReference struct {
	// name of the issuer. An Issuer is looked for in the namespace of the
	// cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="tls.issuerRef.name must be the name of an issuer: lower case letters, digits, - and ."
	Name string `json:"name"`
	// kind of the issuer: Issuer (default) or ClusterIssuer, or the kind of an
	// external issuer, see group.
	// +optional
	// +default="Issuer"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Z][A-Za-z0-9]*$')`,message="tls.issuerRef.kind must be the kind of an issuer, for example ClusterIssuer"
	Kind *string `json:"kind,omitempty"`
	// group of the issuer's kind. Default: cert-manager.io.
	// +optional
	// +default="cert-manager.io"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="tls.issuerRef.group must be the API group of an issuer, for example cert-manager.io"
	Group *string `json:"group,omitempty"`
}

// RotationSpec says when a certificate authority is replaced, and at what pace.
type RotationSpec struct {
	// after asks for a certificate authority that was not made before this time,
	// in RFC 3339, for example 2026-12-01T00:00:00Z. An older one is replaced
	// once the time has come; to replace it again, set a later time. Only with
	// mode Managed. Default: none.
	// +optional
	After *metav1.Time `json:"after,omitempty"`
	// hold is how long clients may take to follow their Secret: so long both
	// certificate authorities are trusted before the new one signs, and again
	// before the old one is trusted no more. A mounted Secret follows within
	// 90s; to that comes the time that clients take to read it. From 90s to
	// 720h. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(s|m|h))+$') && duration(self) >= duration('90s') && duration(self) <= duration('720h')`,message="tls.rotation.hold must be a duration from 90s to 720h, for example 10m"
	Hold *metav1.Duration `json:"hold,omitempty"`
}

// CertificateStatus says until when certificates are valid.
type CertificateStatus struct {
	// caNotAfter is when the certificate authority ceases to be valid.
	// +optional
	CANotAfter *metav1.Time `json:"caNotAfter,omitempty"`
	// notAfter is when the first of the certificates that it has signed ceases
	// to be valid.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
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
// +kubebuilder:validation:XValidation:rule=`self.?mode.orValue('Password') == 'Password' || !has(self.secretName)`,fieldPath=".secretName",message="auth.secretName is read with mode Password only: set auth.mode to Password, or remove auth.secretName"
// +kubebuilder:validation:XValidation:rule=`has(self.mode) == has(oldSelf.mode) && (!has(self.mode) || self.mode == oldSelf.mode)`,fieldPath=".mode",message="auth.mode cannot change yet: switching the authentication of a running cluster is not part of this release; create a new cluster with the wanted mode"
// +kubebuilder:validation:XValidation:rule=`has(self.secretName) == has(oldSelf.secretName) && (!has(self.secretName) || self.secretName == oldSelf.secretName)`,fieldPath=".secretName",message="auth.secretName cannot change yet: changing the password of a running cluster is not part of this release"
type AuthSpec struct {
	// mode is Password (default: every client needs a user and a password) or
	// Disabled. It cannot change yet.
	// +optional
	// +default="Password"
	Mode *AuthMode `json:"mode,omitempty"`
	// secretName names a Secret of the same namespace whose key "password" holds
	// the password of the administrator (etcd: root, Redis: default). Only with
	// mode Password. The name cannot change yet; the password may, at any time.
	// Default: the operator generates one.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="auth.secretName must be the name of a Secret of the same namespace: lower case letters, digits, - and ."
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName *string `json:"secretName,omitempty"`
	// rotation says at what pace the passwords of a RedisCluster are replaced.
	// An EtcdCluster has none: etcd knows one password for each user. Default:
	// hold 5m.
	// +optional
	Rotation *PasswordRotationSpec `json:"rotation,omitempty"`
}

// PasswordRotationSpec says at what pace passwords are replaced.
type PasswordRotationSpec struct {
	// hold is how long the former passwords work beside the new ones after the
	// connection Secret has got those, from 90s to 720h: clients have to follow
	// their Secret within that time. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(s|m|h))+$') && duration(self) >= duration('90s') && duration(self) <= duration('720h')`,message="auth.rotation.hold must be a duration from 90s to 720h, for example 10m"
	Hold *metav1.Duration `json:"hold,omitempty"`
}

// ConfigValue is the value of such a parameter.
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9 ._:/@%+=,*~-]*$')`,message="config.extra: a value may hold letters, digits, spaces and . _ : / @ % + = , * ~ - only"
type ConfigValue string

// PodTemplate holds what users may change about the pods. What is not listed here belongs to the operator: the
// pods always meet the restricted Pod Security Standard.
type PodTemplate struct {
	// labels are added to the pods. Keys under app.kubernetes.io/ and
	// quorate.dev/ belong to the operator. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.matches('^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$') && k.indexOf('/') <= 253)`,message="template.labels: a key must be a valid label key, for example team or example.com/team"
	// +kubebuilder:validation:XValidation:rule=`self.all(k, self[k].matches('^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$') && self[k].size() <= 63)`,message="template.labels: a value must be a valid label value: at most 63 letters, digits, - _ and ."
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k.startsWith('app.kubernetes.io/') || k.startsWith('quorate.dev/') || k.startsWith('apps.kubernetes.io/') || k.startsWith('statefulset.kubernetes.io/') || k == 'controller-revision-hash')`,message="template.labels: keys under app.kubernetes.io/, apps.kubernetes.io/, statefulset.kubernetes.io/ and quorate.dev/ belong to Kubernetes and the operator; use a prefix of your own"
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]TemplateValue `json:"labels,omitempty"`
	// annotations are added to the pods. Keys under app.kubernetes.io/ and
	// quorate.dev/ belong to the operator. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.matches('^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$') && k.indexOf('/') <= 253)`,message="template.annotations: a key must be a valid annotation key, for example example.com/team"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, k.startsWith('app.kubernetes.io/') || k.startsWith('quorate.dev/') || k.startsWith('container.apparmor.security.beta.kubernetes.io/') || k.startsWith('container.seccomp.security.alpha.kubernetes.io/') || k == 'seccomp.security.alpha.kubernetes.io/pod')`,message="template.annotations: keys under app.kubernetes.io/ and quorate.dev/, and those that set AppArmor or seccomp profiles, belong to the operator; use a prefix of your own, or template.securityContext"
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]TemplateValue `json:"annotations,omitempty"`
	// affinity of the pods. Unless podAntiAffinity is set, if only to {}, the
	// pods of one cluster (Redis: of one shard) prefer different nodes. Default:
	// none but that.
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`
	// tolerations of the pods. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// nodeSelector of the pods: labels that a node must have. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.matches('^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$') && k.indexOf('/') <= 253)`,message="template.nodeSelector: a key must be a valid label key, for example kubernetes.io/os"
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`
	// topologySpreadConstraints of the pods. A constraint without labelSelector
	// counts the pods of this cluster. Unless one names kubernetes.io/hostname,
	// the copies of a Redis shard are kept on different nodes. Default: that, and
	// etcd members on nodes of different zones (topology.kubernetes.io/zone)
	// where possible.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// priorityClassName of the pods. Default: the default class of the
	// Kubernetes cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="template.priorityClassName must be the name of a PriorityClass"
	// +kubebuilder:validation:XValidation:rule=`!self.startsWith('system-')`,message="template.priorityClassName: classes named system-* are for what Kubernetes itself needs; use a PriorityClass of your own"
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// env is added to the data store's container. A value may come from a Secret
	// or a ConfigMap. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!self.exists(e, e.name in ['GODEBUG', 'PATH', 'HOME', 'REDISCLI_AUTH', 'VALKEYCLI_AUTH'] || ['ETCD_', 'ETCDCTL_', 'POD_', 'QUORATE_', 'LD_', 'OPENSSL_', 'SSL_CERT_'].exists(p, e.name.startsWith(p)))`,message="template.env: GODEBUG, HOME, PATH, REDISCLI_AUTH, VALKEYCLI_AUTH and names beginning with ETCD_, ETCDCTL_, POD_, QUORATE_, LD_, OPENSSL_ or SSL_CERT_ belong to the operator; set parameters under spec.config"
	// +kubebuilder:validation:XValidation:rule=`self.all(e, !has(e.valueFrom) || (!has(e.valueFrom.fieldRef) && !has(e.valueFrom.resourceFieldRef) && !has(e.valueFrom.fileKeyRef) && has(e.valueFrom.secretKeyRef) != has(e.valueFrom.configMapKeyRef)))`,message="template.env: valueFrom must have exactly one of secretKeyRef and configMapKeyRef"
	// +kubebuilder:validation:XValidation:rule=`self.all(e, !has(e.valueFrom) || !has(e.value) || e.value.size() == 0)`,message="template.env: a variable has either value or valueFrom"
	// +kubebuilder:validation:XValidation:rule=`self.all(e, !has(e.valueFrom) || ((!has(e.valueFrom.secretKeyRef) || e.valueFrom.secretKeyRef.name.size() > 0) && (!has(e.valueFrom.configMapKeyRef) || e.valueFrom.configMapKeyRef.name.size() > 0)))`,message="template.env: secretKeyRef and configMapKeyRef need a name"
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []EnvVar `json:"env,omitempty"`
	// imagePullSecrets name Secrets of the same namespace with credentials for
	// the image registry. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.all(s, s.name.size() > 0)`,message="template.imagePullSecrets: every entry needs the name of a Secret"
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// securityContext of the pods, within the restricted Pod Security Standard.
	// Default: user, group and fsGroup 65532.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.?runAsNonRoot.orValue(true)`,fieldPath=".runAsNonRoot",message="template.securityContext.runAsNonRoot must be true: the pods meet the restricted Pod Security Standard"
	// +kubebuilder:validation:XValidation:rule=`self.?runAsUser.orValue(1) > 0 && self.?runAsUser.orValue(1) <= 2147483647`,fieldPath=".runAsUser",message="template.securityContext.runAsUser must be above 0, because the pods never run as root, and at most 2147483647"
	// +kubebuilder:validation:XValidation:rule=`self.?runAsGroup.orValue(1) > 0 && self.?runAsGroup.orValue(1) <= 2147483647`,fieldPath=".runAsGroup",message="template.securityContext.runAsGroup must be above 0, because the pods never run as root, and at most 2147483647"
	// +kubebuilder:validation:XValidation:rule=`self.?fsGroup.orValue(1) > 0 && self.?fsGroup.orValue(1) <= 2147483647`,fieldPath=".fsGroup",message="template.securityContext.fsGroup must be above 0, because the pods never run as root, and at most 2147483647"
	// +kubebuilder:validation:XValidation:rule=`!has(self.supplementalGroups) || self.supplementalGroups.size() == 0 || (self.supplementalGroups.min() > 0 && self.supplementalGroups.max() <= 2147483647)`,fieldPath=".supplementalGroups",message="template.securityContext.supplementalGroups must all be above 0, because the pods never run as root, and at most 2147483647"
	// +kubebuilder:validation:XValidation:rule=`!has(self.seccompProfile) || self.seccompProfile.type in ['RuntimeDefault', 'Localhost']`,fieldPath=".seccompProfile.type",message="template.securityContext.seccompProfile.type must be RuntimeDefault or Localhost: the pods meet the restricted Pod Security Standard"
	// +kubebuilder:validation:XValidation:rule=`!has(self.seccompProfile) || (self.seccompProfile.type == 'Localhost') == has(self.seccompProfile.localhostProfile)`,fieldPath=".seccompProfile.localhostProfile",message="template.securityContext.seccompProfile.localhostProfile names a file of the node: set it with type Localhost, and only then"
	// +kubebuilder:validation:XValidation:rule=`!has(self.appArmorProfile) || (self.appArmorProfile.type == 'Localhost') == has(self.appArmorProfile.localhostProfile)`,fieldPath=".appArmorProfile.localhostProfile",message="template.securityContext.appArmorProfile.localhostProfile names a profile of the node: set it with type Localhost, and only then"
	// +kubebuilder:validation:XValidation:rule=`!has(self.fsGroupChangePolicy) || self.fsGroupChangePolicy in ['OnRootMismatch', 'Always']`,fieldPath=".fsGroupChangePolicy",message="template.securityContext.fsGroupChangePolicy must be OnRootMismatch or Always"
	// +kubebuilder:validation:XValidation:rule=`!has(self.supplementalGroupsPolicy) || self.supplementalGroupsPolicy in ['Merge', 'Strict']`,fieldPath=".supplementalGroupsPolicy",message="template.securityContext.supplementalGroupsPolicy must be Merge or Strict"
	// +kubebuilder:validation:XValidation:rule=`!has(self.seLinuxChangePolicy) || self.seLinuxChangePolicy in ['MountOption', 'Recursive']`,fieldPath=".seLinuxChangePolicy",message="template.securityContext.seLinuxChangePolicy must be MountOption or Recursive"
	// +kubebuilder:validation:XValidation:rule=`!has(self.appArmorProfile) || self.appArmorProfile.type in ['RuntimeDefault', 'Localhost']`,fieldPath=".appArmorProfile.type",message="template.securityContext.appArmorProfile.type must be RuntimeDefault or Localhost: the pods meet the restricted Pod Security Standard"
	// +kubebuilder:validation:XValidation:rule=`!has(self.sysctls) || self.sysctls.size() == 0`,fieldPath=".sysctls",message="template.securityContext.sysctls cannot be set: ask the administrator of the nodes"
	// +kubebuilder:validation:XValidation:rule=`!has(self.windowsOptions)`,fieldPath=".windowsOptions",message="template.securityContext.windowsOptions cannot be set: the pods run on Linux"
	// +kubebuilder:validation:XValidation:rule=`!has(self.seLinuxOptions) || (!has(self.seLinuxOptions.user) && !has(self.seLinuxOptions.role))`,fieldPath=".seLinuxOptions",message="template.securityContext.seLinuxOptions: user and role cannot be set: the pods meet the restricted Pod Security Standard"
	// +kubebuilder:validation:XValidation:rule=`!has(self.seLinuxOptions) || self.seLinuxOptions.?type.orValue('container_t') in ['container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t']`,fieldPath=".seLinuxOptions.type",message="template.securityContext.seLinuxOptions.type must be container_t, container_init_t, container_kvm_t or container_engine_t"
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`
}

// TemplateValue is the value of a label or an annotation of a pod.
// +kubebuilder:validation:MaxLength=1024
type TemplateValue string
