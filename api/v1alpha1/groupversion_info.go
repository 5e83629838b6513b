// Package v1alpha1 is the API of Quorate: the resources a user writes, their defaults and their limits.
// It holds data only; what the operator does with it lives in controllers and internal/cluster.
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="applyconfiguration"
// +groupName=quorate.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is quorate.dev/v1alpha1.
	GroupVersion = schema.GroupVersion{Group: "quorate.dev", Version: "v1alpha1"}

	// SchemeGroupVersion is the name that generated code expects GroupVersion under.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder collects the types of this package.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the types of this package with a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&EtcdCluster{}, &EtcdClusterList{},
		&RedisCluster{}, &RedisClusterList{},
		&EtcdUser{}, &EtcdUserList{},
		&RedisUser{}, &RedisUserList{},
		&Backup{}, &BackupList{},
		&BackupSchedule{}, &BackupScheduleList{},
		&Restore{}, &RestoreList{},
		&Autoscaler{}, &AutoscalerList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
