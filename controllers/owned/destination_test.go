package owned

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/test/fakeapi"
)

// A Secret that is not there keeps a pod waiting without a word.
func TestADestinationThatCannotBeReachedIsRefusedByName(t *testing.T) {
	for name, d := range map[string]v1alpha1.BackupDestination{
		"spec.destination.credentials.name":   {URL: "s3://bucket", Credentials: &v1alpha1.SecretReference{Name: "lost"}},
		"spec.destination.encryption.name":    {URL: "s3://bucket", Encryption: &v1alpha1.SecretReference{Name: "lost"}},
		"spec.destination.url":                {URL: "pvc://lost/here"},
		"spec.destination.serviceAccountName": {URL: "s3://bucket", ServiceAccountName: ptr.To("lost")},
	} {
		k := newChildren(fakeapi.New(t))
		err := k.CheckDestination(t.Context(), fakeapi.Backup(nil), "spec.destination", d)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), `"lost"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPodsRunAsAServiceAccountOnlyWhereItsOwnerAgreed(t *testing.T) {
	for name, tc := range map[string]struct {
		labels  map[string]string
		refused bool
	}{
		"no label":      {nil, true},
		"another value": {map[string]string{v1alpha1.LabelBackupAccount: "false"}, true},
		"agreed":        {map[string]string{v1alpha1.LabelBackupAccount: "true"}, false},
	} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "admin", Labels: tc.labels}}
		k := newChildren(fakeapi.New(t, account))
		w := job.Work{
			Name: "first-take", Labels: job.Labels("first", "orders"), Limit: time.Minute,
			Destination: v1alpha1.BackupDestination{URL: "s3://bucket", ServiceAccountName: ptr.To("admin")},
		}
		for _, field := range []string{"spec.destination", ""} { // Empty while the Backup is deleted.
			err := k.StartJob(t.Context(), fakeapi.Backup(nil), w, field)
			if refused := err != nil && strings.Contains(err.Error(), "kubectl label serviceaccount --namespace default admin quorate.dev/backup-account=true"); refused != tc.refused {
				t.Errorf("%s, field %q: %v", name, field, err)
			}
		}
	}
}
