package cluster

// ManagedBy is the value of app.kubernetes.io/managed-by on everything Quorate makes, and its field manager.
const ManagedBy = "quorate"

// Recommended labels, https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelManagedBy = "app.kubernetes.io/managed-by"
)

// Selector returns the labels that select the pods of a cluster. They never change during its life.
func Selector(cluster, component string) map[string]string {
	return map[string]string{LabelInstance: cluster, LabelComponent: component, LabelManagedBy: ManagedBy}
}

// Labels returns the labels of everything that belongs to a cluster. software is etcd, redis or valkey.
func Labels(cluster, component, software string) map[string]string {
	l := Selector(cluster, component)
	l[LabelName] = software
	l[LabelPartOf] = cluster
	return l
}
