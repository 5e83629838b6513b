package v1alpha1

import corev1 "k8s.io/api/core/v1"

// The types of this file have the shape of those in core/v1. They are written out because admission can check only
// what has bounds: what it let in, the API server would refuse later in the StatefulSet, where no user looks.

// LabelKey is the key of a label or of a taint.
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule=`self.matches('^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253`,message="template.affinity, template.tolerations and template.topologySpreadConstraints: a key must be a valid label key, for example zone or example.com/zone"
type LabelKey string

// LabelValue is the value of a label or of a taint.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches('^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$')`,message="template.affinity, template.tolerations, template.topologySpreadConstraints and template.nodeSelector: a value must be a valid label value: at most 63 letters, digits, - _ and ."
type LabelValue string

// NamespaceName is the name of a namespace.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="template.affinity: a namespace must be the name of one: lower case letters, digits and -"
type NamespaceName string

// Toleration lets a pod on nodes with a taint.
// +kubebuilder:validation:XValidation:rule=`has(self.key) || self.?operator.orValue('Equal') == 'Exists'`,message="template.tolerations: without a key the operator must be Exists: name the key, or set operator to Exists to tolerate every taint"
// +kubebuilder:validation:XValidation:rule=`self.?operator.orValue('Equal') != 'Exists' || !has(self.value) || self.value.size() == 0`,message="template.tolerations: operator Exists compares no value: remove the value, or set operator to Equal"
// +kubebuilder:validation:XValidation:rule=`!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')`,message="template.tolerations: tolerationSeconds is heeded with effect NoExecute only: set effect to NoExecute, or remove tolerationSeconds"
type Toleration struct {
	// key of the taint. Default: every key, with operator Exists.
	// +optional
	Key *LabelKey `json:"key,omitempty"`
	// operator is Exists or Equal. Default: Equal.
	// +optional
	// +kubebuilder:validation:Enum=Exists;Equal
	Operator *corev1.TolerationOperator `json:"operator,omitempty"`
	// value of the taint, with operator Equal. Default: empty.
	// +optional
	Value *LabelValue `json:"value,omitempty"`
	// effect of the taint. Default: every effect.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect *corev1.TaintEffect `json:"effect,omitempty"`
	// tolerationSeconds is how long, in seconds, a pod stays on a node that gets
	// the taint, with effect NoExecute. Default: for ever.
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// TopologySpreadConstraint spreads pods over the values of a node label.
// +kubebuilder:validation:XValidation:rule=`!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'`,message="template.topologySpreadConstraints: minDomains is heeded with whenUnsatisfiable DoNotSchedule only: set that, or remove minDomains"
type TopologySpreadConstraint struct {
	// maxSkew is how many more pods one domain may have than another, at least 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew"`
	// topologyKey is the node label whose values are the domains.
	// +required
	TopologyKey LabelKey `json:"topologyKey"`
	// whenUnsatisfiable is DoNotSchedule or ScheduleAnyway.
	// +required
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable"`
	// labelSelector selects the pods that count. Default: those of this cluster.
	// +optional
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`
	// minDomains is the number of domains that there should be. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinDomains *int32 `json:"minDomains,omitempty"`
	// nodeAffinityPolicy is Honor or Ignore. Default: Honor.
	// +optional
	// +kubebuilder:validation:Enum=Honor;Ignore
	NodeAffinityPolicy *corev1.NodeInclusionPolicy `json:"nodeAffinityPolicy,omitempty"`
	// nodeTaintsPolicy is Honor or Ignore. Default: Ignore.
	// +optional
	// +kubebuilder:validation:Enum=Honor;Ignore
	NodeTaintsPolicy *corev1.NodeInclusionPolicy `json:"nodeTaintsPolicy,omitempty"`
	// matchLabelKeys are labels of a pod whose values the counted pods must share. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	MatchLabelKeys []LabelKey `json:"matchLabelKeys,omitempty"`
}

// LabelSelector selects objects by their labels; an empty one selects all.
type LabelSelector struct {
	// matchLabels are labels that an object must have. Default: none.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.matches('^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$'))`,message="template.affinity and template.topologySpreadConstraints: a key of matchLabels must be a valid label key, for example team or example.com/team"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// matchExpressions are further conditions. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelSelectorRequirement is a condition on one label.
// +kubebuilder:validation:XValidation:rule=`(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)`,message="template.affinity and template.topologySpreadConstraints: in a labelSelector operator In or NotIn needs values, Exists and DoesNotExist take none"
type LabelSelectorRequirement struct {
	// key of the label.
	// +required
	Key LabelKey `json:"key"`
	// operator is In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator"`
	// values to compare with. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Values []LabelValue `json:"values,omitempty"`
}

// Affinity says which nodes pods need or prefer, and which pods beside them.
type Affinity struct {
	// nodeAffinity says which nodes. Default: any.
	// +optional
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`
	// podAffinity says which pods to be near to. Default: none.
	// +optional
	PodAffinity *PodAffinity `json:"podAffinity,omitempty"`
	// podAntiAffinity says which pods to be far from. Default: none.
	// +optional
	PodAntiAffinity *PodAffinity `json:"podAntiAffinity,omitempty"`
}

// NodeAffinity says which nodes pods need or prefer.
type NodeAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution must be met. Default: none.
	// +optional
	Required *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// preferredDuringSchedulingIgnoredDuringExecution are met where that is
	// possible. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Preferred []PreferredSchedulingTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector selects the nodes that meet one of its terms.
type NodeSelector struct {
	// nodeSelectorTerms of which one must be met.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// NodeSelectorTerm selects the nodes that meet all its conditions, and none without any.
type NodeSelectorTerm struct {
	// matchExpressions are conditions on labels of the node. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions,omitempty"`
}

// NodeSelectorRequirement is a condition on one label of a node.
// +kubebuilder:validation:XValidation:rule=`(self.operator in ['Exists', 'DoesNotExist']) != (has(self.values) && self.values.size() > 0)`,message="template.affinity: in a nodeAffinity operator Exists and DoesNotExist take no values, the others need them"
// +kubebuilder:validation:XValidation:rule=`!(self.operator in ['Gt', 'Lt']) || !has(self.values) || self.values.size() == 0 || (self.values.size() == 1 && self.values[0].matches('^[0-9]{1,18}$'))`,message="template.affinity: in a nodeAffinity operator Gt or Lt needs one whole number"
type NodeSelectorRequirement struct {
	// key of the label.
	// +required
	Key LabelKey `json:"key"`
	// operator is In, NotIn, Exists, DoesNotExist, Gt or Lt.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// values to compare with. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Values []LabelValue `json:"values,omitempty"`
}

// PreferredSchedulingTerm is a preference for nodes.
type PreferredSchedulingTerm struct {
	// weight of the preference, from 1 to 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`
	// preference says which nodes.
	// +required
	Preference NodeSelectorTerm `json:"preference"`
}

// PodAffinity says which pods to be near to, or far from.
type PodAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution must all be met. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Required []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// preferredDuringSchedulingIgnoredDuringExecution are met where that is
	// possible. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Preferred []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// WeightedPodAffinityTerm is a preference about pods.
type WeightedPodAffinityTerm struct {
	// weight of the preference, from 1 to 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`
	// podAffinityTerm says which pods, and what near is.
	// +required
	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm"`
}

// PodAffinityTerm says which pods, and by which label of their nodes they are near.
type PodAffinityTerm struct {
	// topologyKey is the node label whose value pods that are near share.
	// +required
	TopologyKey LabelKey `json:"topologyKey"`
	// labelSelector selects the pods. Default: none.
	// +optional
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`
	// namespaces of the pods. Default: that of the cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Namespaces []NamespaceName `json:"namespaces,omitempty"`
	// namespaceSelector selects further namespaces. Default: none.
	// +optional
	NamespaceSelector *LabelSelector `json:"namespaceSelector,omitempty"`
}

// EnvVar is an environment variable.
type EnvVar struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[ -<>-~]+$')`,message="template.env: every variable needs a name, of printable characters other than ="
	Name string `json:"name"`
	// value of the variable. Default: empty.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
	// valueFrom names the Secret or ConfigMap that holds the value. Default: none.
	// +optional
	ValueFrom *corev1.EnvVarSource `json:"valueFrom,omitempty"`
}
