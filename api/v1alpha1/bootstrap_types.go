package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BootstrapSpec says what a new cluster begins with.
type BootstrapSpec struct {
	// restore is the backup that the cluster begins with. It counts only while
	// the cluster is being founded; afterwards it may be removed. Default: none,
	// the cluster begins empty.
	// +optional
	Restore *RestoreSource `json:"restore,omitempty"`
}

// RestoreSource is the backup that is restored: a Backup of the same namespace, or what a destination holds, where there is none any
// more.
// +kubebuilder:validation:XValidation:rule=`has(self.backup) != has(self.destination)`,fieldPath=".backup",message="backup or destination is needed, and only one of them: the name of a Backup of the same namespace, or where backups are kept"
// +kubebuilder:validation:XValidation:rule=`!has(self.directory) || has(self.destination)`,fieldPath=".directory",message="directory belongs to destination: a Backup knows its own"
// +kubebuilder:validation:XValidation:rule=`!has(self.revision) || !has(self.time)`,fieldPath=".time",message="time and revision exclude each other: remove one of them"
type RestoreSource struct {
	// backup is the name of a Backup of the same namespace. Default: none, the
	// destination is named instead.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')`,message="backup must be the name of a Backup of the same namespace"
	// +kubebuilder:validation:MaxLength=56
	Backup *string `json:"backup,omitempty"`
	// destination that holds the backup. Default: that of backup.
	// +optional
	Destination *BackupDestination `json:"destination,omitempty"`
	// directory of the backup below the url of its destination. Default: the
	// newest complete one that fits, or the newest before the time asked for.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*$')`,message="directory must be the name of one below the url, as a Backup reports it"
	// +kubebuilder:validation:MaxLength=128
	Directory *string `json:"directory,omitempty"`
	// revision of etcd that the restored cluster is to have the data of, exactly.
	// It needs a backup from before it and the changes that were kept since.
	// Default: everything that is kept.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Revision *int64 `json:"revision,omitempty"`
	// time at which the restored etcd cluster is to have the data of. Default:
	// everything that is kept.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}
