package owned

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
)

// CheckDestination refuses what a pod would wait for without a word: Secrets and a claim that are not there.
func (c *Client) CheckDestination(ctx context.Context, o Owner, field string, d v1alpha1.BackupDestination) error {
	for sub, ref := range map[string]*v1alpha1.SecretReference{".credentials.name": d.Credentials, ".encryption.name": d.Encryption} {
		if ref == nil {
			continue
		}
		if _, err := c.UserSecret(ctx, o, field+sub, ref.Name); err != nil {
			return err
		}
	}
	if err := c.CheckAccount(ctx, o, field, d); err != nil {
		return err
	}
	claim, _ := job.Claim(d.URL)
	if claim == "" {
		return nil
	}
	err := c.Direct.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: claim}, &corev1.PersistentVolumeClaim{})
	if apierrors.IsNotFound(err) {
		return InvalidSpec("%s.url: there is no PersistentVolumeClaim %q in namespace %s: create it, or correct the name", field, claim, o.GetNamespace())
	}
	if err != nil {
		return fmt.Errorf("read claim %s: %w", claim, err)
	}
	return nil
}

// A service account is used only if its owner agreed, see CheckAccount.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get

// CheckAccount refuses a service account whose owner has not agreed that pods of backups run as it: otherwise whoever may write a resource
// of ours could run pods as every account of the namespace.
func (c *Client) CheckAccount(ctx context.Context, o Owner, field string, d v1alpha1.BackupDestination) error {
	if d.ServiceAccountName == nil {
		return nil
	}
	name, namespace := *d.ServiceAccountName, o.GetNamespace()
	var account corev1.ServiceAccount
	err := c.Direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &account)
	if apierrors.IsNotFound(err) {
		return InvalidSpec("%s.serviceAccountName: there is no ServiceAccount %q in namespace %s: create it, or correct the name", field, name, namespace)
	}
	if err != nil {
		return fmt.Errorf("read ServiceAccount %s: %w", name, err)
	}
	if account.Labels[v1alpha1.LabelBackupAccount] != "true" {
		return InvalidSpec("%s.serviceAccountName: ServiceAccount %q does not allow that pods of backups run as it: "+
			"kubectl label serviceaccount --namespace %s %s %s=true", field, name, namespace, name, v1alpha1.LabelBackupAccount)
	}
	return nil
}
