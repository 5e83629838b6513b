package etcdcluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
)

// maxPassword is how many bytes of a password bcrypt takes; etcd refuses longer ones.
const maxPassword = 72

// PasswordFlaw says why etcd does not take a password, empty when it does. Its client can send nothing but text.
func PasswordFlaw(password string) string {
	switch n := len(password); {
	case n > maxPassword:
		return fmt.Sprintf("has %d bytes, and etcd takes at most %d: shorten it", n, maxPassword)
	case !utf8.ValidString(password):
		return "is not text in UTF-8, and etcd takes no other: replace it"
	}
	return ""
}

// nextPassword is the one that is to take the place of another, empty when there is none that etcd takes.
func nextPassword(passwords map[string]string) string {
	if PasswordFlaw(passwords[owned.NextPasswordKey]) != "" {
		return ""
	}
	return passwords[owned.NextPasswordKey]
}

// ensurePassword returns the password that root is known to have, empty without authentication. One that was generated
// lives as long as the volumes: where the operator's certificate does not make it root, nobody could open a retained
// cluster without it.
func (k *Reconciler) ensurePassword(ctx context.Context, o *v1alpha1.EtcdCluster) (string, error) {
	if o.Spec.Auth.AuthMode() == v1alpha1.AuthDisabled {
		return "", nil
	}
	live, err := k.OwnSecret(ctx, o, cluster.AuthSecret(o.Name))
	if err != nil {
		return "", err
	}
	given, err := k.givenPasswords(ctx, o, owned.PasswordsIn(live))
	if err != nil {
		return "", err
	}
	var claims []*metav1ac.OwnerReferenceApplyConfiguration
	byCertificate, err := k.rootByCertificate(ctx, o)
	if err != nil {
		return "", err
	}
	if !byCertificate {
		if claims, err = k.claimRefs(ctx, o); err != nil {
			return "", err
		}
	}
	passwords, err := k.EnsurePasswords(ctx, o, live, owned.PasswordSecret{
		Keys: []string{owned.PasswordKey, config.SigningKey}, Given: given, Labels: manifests.Labels(o.Name), Owners: claims,
	})
	return passwords[owned.PasswordKey], err
}

// givenPasswords are the passwords of root that are not to be generated. To replace a password takes three writes, so
// that it is in our Secret whenever root may have it: the next one is written down, root gets it, and it is written down
// as the one that root has.
func (k *Reconciler) givenPasswords(ctx context.Context, o *v1alpha1.EtcdCluster, have map[string]string) (map[string]string, error) {
	users, err := k.UserPassword(ctx, o, o.Spec.Auth)
	if err != nil {
		return nil, err
	}
	if flaw := PasswordFlaw(users); flaw != "" {
		return nil, owned.InvalidSpec("spec.auth.secretName: the password in Secret %q %s", o.Spec.Auth.Secret(), flaw)
	}
	switch next := nextPassword(have); {
	case have[owned.PasswordKey] == "":
		return k.firstPassword(ctx, o, cmp.Or(next, users))
	case next != "":
		return nil, nil // What was begun is finished first.
	case have[owned.NextPasswordKey] != "":
		return map[string]string{owned.NextPasswordKey: cmp.Or(users, have[owned.PasswordKey])}, nil
	case users != "" && users != have[owned.PasswordKey]:
		return map[string]string{owned.NextPasswordKey: users}, nil
	}
	return nil, nil
}

// firstPassword is what a Secret without a password gets. In that of a living cluster somebody has deleted it: root has
// the one that clients were given, and gets another one.
func (k *Reconciler) firstPassword(ctx context.Context, o *v1alpha1.EtcdCluster, wanted string) (map[string]string, error) {
	live, err := k.OwnSecret(ctx, o, cluster.ConnectionSecret(o.Name))
	if err != nil {
		return nil, err
	}
	if live != nil && len(live.Data[owned.PasswordKey]) > 0 {
		return map[string]string{owned.PasswordKey: string(live.Data[owned.PasswordKey]), owned.NextPasswordKey: cmp.Or(wanted, rand.Text())}, nil
	}
	if wanted != "" {
		return map[string]string{owned.PasswordKey: wanted}, nil
	}
	record, err := k.Record(ctx, o)
	if err != nil || record.ClusterID == 0 {
		return nil, err
	}
	if byCertificate, err := k.rootByCertificate(ctx, o); byCertificate || err != nil {
		return nil, err
	}
	return nil, owned.InvalidSpec("Secret %s with the password of root is gone: restore it with that password under the key %s",
		cluster.AuthSecret(o.Name), owned.PasswordKey)
}

// rootByCertificate reports whether the operator's certificate makes it root, now and when the specification has come true.
func (k *Reconciler) rootByCertificate(ctx context.Context, o *v1alpha1.EtcdCluster) (bool, error) {
	record, err := k.Record(ctx, o)
	if err != nil || !o.Spec.TLS.Issued() {
		return false, err
	}
	r := record.Transport()
	return len(record.Members) == 0 || (r.Secure && r.Certificates(o.Spec.TLS) == o.Spec.TLS), nil
}

// rootLogin is what lets the operator in as root where its certificate does not.
type rootLogin struct {
	// password is the wanted one, former the one that root may still have: empty when that is no other.
	password, former string
	signingKey       string
}

func (l rootLogin) bytes() []byte {
	return []byte(strings.Join([]string{l.password, l.former, l.signingKey}, "\x00"))
}

// rootLogin reads it. It is empty without authentication.
func (k *Reconciler) rootLogin(ctx context.Context, o *v1alpha1.EtcdCluster) (rootLogin, error) {
	if o.Spec.Auth.AuthMode() == v1alpha1.AuthDisabled {
		return rootLogin{}, nil
	}
	passwords, err := k.Passwords(ctx, o)
	l := rootLogin{password: passwords[owned.PasswordKey], signingKey: passwords[config.SigningKey]}
	if next := nextPassword(passwords); next != "" {
		l.password, l.former = next, passwords[owned.PasswordKey]
	}
	return l, err
}

// recordPassword writes down that root has the next password.
func (k *Reconciler) recordPassword(ctx context.Context, o *v1alpha1.EtcdCluster) error {
	live, err := k.OwnSecret(ctx, o, cluster.AuthSecret(o.Name))
	if err != nil {
		return err
	}
	if live == nil || len(live.Data[owned.NextPasswordKey]) == 0 {
		return errors.New("the new password is gone")
	}
	next := live.DeepCopy()
	next.Data[owned.PasswordKey] = live.Data[owned.NextPasswordKey]
	delete(next.Data, owned.NextPasswordKey)
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	if err := k.Patch(ctx, next, patch, client.FieldOwner(cluster.ManagedBy)); err != nil {
		return fmt.Errorf("write Secret %s: %w", live.Name, err)
	}
	return nil
}
