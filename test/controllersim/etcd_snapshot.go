package controllersim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/test/fakeapi"
)

// runBackups is the operator of Backups, with its Jobs: a Backup ends at once, in the way that the stage says.
func (s *Etcd) runBackups() {
	s.T.Helper()
	ctx := s.T.Context()
	var list v1alpha1.BackupList
	s.Must(s.API.List(ctx, &list, client.InNamespace(s.Name.Namespace)))
	for i := range list.Items {
		b := &list.Items[i]
		if b.Labels["app.kubernetes.io/part-of"] != s.Name.Name || len(b.Status.Conditions) > 0 {
			continue
		}
		how := ""
		if len(s.Snapshots) > 0 {
			how, s.Snapshots = s.Snapshots[0], s.Snapshots[1:]
		}
		s.backups++
		b.UID, b.CreationTimestamp = types.UID(fmt.Sprint("backup-", s.backups)), metav1.NewTime(fakeapi.Now.Add(time.Duration(s.backups)*time.Second))
		s.Must(s.API.Update(ctx, b))
		if how == "vanishes" {
			s.Must(s.API.Delete(ctx, b))
			continue
		}
		endBackup(b, how)
		s.Must(s.API.Status().Update(ctx, b))
	}
}

func endBackup(b *v1alpha1.Backup, how string) {
	set := func(name string, status bool, reason, message string, since time.Time) {
		c := metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(since)}
		if status {
			c.Status = metav1.ConditionTrue
		}
		b.Status.Conditions = append(b.Status.Conditions, c)
	}
	at := metav1.NewTime(fakeapi.Now)
	since := fakeapi.Now.Add(-time.Hour) // It is tried again at once.
	switch how {
	case "":
		b.Status.Directory, b.Status.Revision, b.Status.Size, b.Status.CompletionTime = "orders-1", 7, 20, &at
		b.Status.Verification = &v1alpha1.BackupVerification{Time: at}
		set(v1alpha1.ConditionComplete, true, planner.ReasonComplete, "20 B of data", fakeapi.Now)
		set(v1alpha1.ConditionVerified, true, planner.ReasonVerified, "1 keys", fakeapi.Now)
		set(v1alpha1.ConditionStalled, false, "Settled", "", fakeapi.Now)
		return
	case "waits":
		set(v1alpha1.ConditionComplete, false, job.ReasonFailed, "there is no Secret", since)
		set(v1alpha1.ConditionStalled, true, "InvalidSpec", "there is no Secret", since)
		return
	case "now":
		since = fakeapi.Now
	}
	b.Status.CompletionTime = &at
	set(v1alpha1.ConditionComplete, false, "DestinationFull", "the volume is too small", since)
	set(v1alpha1.ConditionStalled, true, "DestinationFull", "no backup was taken", since)
}

// Must fails the test on an error.
func (s *Etcd) Must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// Pass makes a pass with a new operator.
func (s *Etcd) Pass() {
	s.T.Helper()
	if _, err := s.NewOperator().Reconcile(s.T.Context(), s.Cluster()); err != nil {
		s.T.Fatal(err)
	}
	s.Kubelet()
}

// Claim reads a claim.
func (s *Etcd) Claim() *corev1.PersistentVolumeClaim {
	s.T.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: "orders-snapshot"}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.T.Fatal(err)
	}
	return claim
}

// BackupsMade are the Backups before upgrades, by their names.
func (s *Etcd) BackupsMade() map[string]*v1alpha1.Backup {
	s.T.Helper()
	var list v1alpha1.BackupList
	s.Must(s.API.List(s.T.Context(), &list, client.InNamespace("default")))
	out := map[string]*v1alpha1.Backup{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}
