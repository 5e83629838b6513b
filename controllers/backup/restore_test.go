package backup

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/fakeapi"
)

// stored is a Backup that is complete.
func stored(change func(*v1alpha1.Backup)) *v1alpha1.Backup {
	return fakeapi.Backup(func(b *v1alpha1.Backup) {
		b.Status.Directory = Directory(b)
		b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "BackupComplete"}}
		if change != nil {
			change(b)
		}
	})
}
