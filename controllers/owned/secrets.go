package owned

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// Secrets are read by name from the API server, never listed or watched. Only our own are remembered, for a minute.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch

const (
	// PasswordKey is the key of the administrator's password in the Secret of the user and in our own.
	PasswordKey = "password"
	// NextPasswordKey is the key in our own of the one that is to take its place.
	NextPasswordKey = "next-password"
)

// Secret is the wanted state of a Secret in the namespace of its owner.
type Secret struct {
	Name   string
	Type   corev1.SecretType
	Labels map[string]string
	Data   map[string][]byte
	// Owners are owners beside the cluster: the Secret outlives the cluster until they are deleted as well.
	Owners []*metav1ac.OwnerReferenceApplyConfiguration
}

// EnsureSecret brings a Secret into the wanted state. Keys that others added to it stay.
func (c *Client) EnsureSecret(ctx context.Context, owner Owner, want Secret) error {
	live, err := c.OwnSecret(ctx, owner, want.Name)
	if err != nil {
		return err
	}
	return c.bringSecret(ctx, owner, live, want)
}

// bringSecret does the same to a Secret that was read already, nil when there is none.
func (c *Client) bringSecret(ctx context.Context, owner Owner, live *corev1.Secret, want Secret) error {
	ref, err := c.OwnerReference(owner)
	if err != nil {
		return err
	}
	refs := append(slices.Clip(want.Owners), ref)
	if live != nil && DataHolds(live.Data, want.Data) && !HasStaleKeys(live, want.Data) && ownedByAll(live, refs) && labelled(live, want.Labels) {
		return nil
	}
	ac := corev1ac.Secret(want.Name, owner.GetNamespace()).
		WithLabels(want.Labels).WithOwnerReferences(refs...).WithType(want.Type).WithData(want.Data)
	if live != nil {
		if err := c.Adopt(ctx, owner, live); err != nil {
			return err
		}
		ac.WithUID(live.UID).WithResourceVersion(live.ResourceVersion) // Conflict: the Secret changed since it was read.
	}
	if err := c.Client.Apply(ctx, ac, client.FieldOwner(cluster.ManagedBy), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply Secret %s: %w", want.Name, err)
	}
	return nil
}

// makeSecret makes a Secret with what was generated for it. One that another operator has made meanwhile stays, and is read first: what it
// holds may be in use already. Its first keys are there for good: they could not be taken out by apply.
func (c *Client) makeSecret(ctx context.Context, owner Owner, want Secret) error {
	s := &corev1.Secret{ObjectMeta: ObjectMeta(owner, want.Name), Type: want.Type, Data: want.Data}
	s.Labels = want.Labels
	for _, r := range want.Owners {
		s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{APIVersion: *r.APIVersion, Kind: *r.Kind, Name: *r.Name, UID: *r.UID})
	}
	if err := controllerutil.SetControllerReference(owner, s, c.Scheme()); err != nil {
		return fmt.Errorf("own Secret %s: %w", want.Name, err)
	}
	err := c.Create(ctx, s, client.FieldOwner(cluster.ManagedBy))
	if apierrors.IsAlreadyExists(err) {
		return cluster.Hold{Reason: v1alpha1.ReasonReconcileError, Message: "Secret " + want.Name + " was made meanwhile, and is read first"}
	}
	if err != nil {
		return fmt.Errorf("create Secret %s: %w", want.Name, err)
	}
	return nil
}

// labelled tells whether a Secret bears labels. It is found by them again when it has outlived its cluster.
func labelled(s *corev1.Secret, want map[string]string) bool {
	for name, value := range want {
		if s.Labels[name] != value {
			return false
		}
	}
	return true
}

func ownedByAll(s *corev1.Secret, refs []*metav1ac.OwnerReferenceApplyConfiguration) bool {
	return !slices.ContainsFunc(refs, func(want *metav1ac.OwnerReferenceApplyConfiguration) bool {
		return !slices.ContainsFunc(s.OwnerReferences, func(have metav1.OwnerReference) bool { return have.UID == *want.UID })
	})
}

// DataHolds tells whether a Secret has what is wanted.
func DataHolds(have, want map[string][]byte) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || !bytes.Equal(got, v) {
			return false
		}
	}
	return true
}

// HasStaleKeys tells whether a Secret has a key that was wanted before, and is not any more.
func HasStaleKeys(live *corev1.Secret, want map[string][]byte) bool {
	return slices.ContainsFunc(appliedKeys(live), func(key string) bool { _, wanted := want[key]; return !wanted })
}

// appliedKeys returns the keys of a Secret that were applied by us. Further keys belong to other
// writers.
func appliedKeys(live *corev1.Secret) (out []string) {
	for _, m := range live.ManagedFields {
		if m.Manager == cluster.ManagedBy && m.Operation == metav1.ManagedFieldsOperationApply {
			out = append(out, dataKeys(m)...)
		}
	}
	return out
}

// OwnSecret reads a Secret of the cluster, nil when there is none, and refuses one of somebody else.
func (c *Client) OwnSecret(ctx context.Context, owner Owner, name string) (*corev1.Secret, error) {
	what := "Secret " + owner.GetNamespace() + "/" + name
	s, err := c.namedSecret(ctx, owner, name)
	if s != nil && c.CheckUsable(ctx, owner, s, what) != nil { // One that is remembered may be gone, and another one in its place.
		s, err = c.namedSecret(Uncached(ctx), owner, name)
	}
	if s == nil || err != nil {
		return nil, err
	}
	return s, c.CheckUsable(ctx, owner, s, what)
}

// namedSecret reads a Secret, nil when there is none.
func (c *Client) namedSecret(ctx context.Context, owner Owner, name string) (*corev1.Secret, error) {
	var s corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, &s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return &s, nil
}

// UserSecret reads a Secret that the specification names and checks that it has the wanted keys. It is never remembered.
func (c *Client) UserSecret(ctx context.Context, owner Owner, field, name string, keys ...string) (*corev1.Secret, error) {
	var s corev1.Secret
	err := c.Direct.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, &s)
	if apierrors.IsNotFound(err) {
		text := "create it"
		if len(keys) > 0 {
			text += fmt.Sprintf(" with the keys %v", keys)
		}
		return nil, InvalidSpec("%s: there is no Secret %q in namespace %s: %s", field, name, owner.GetNamespace(), text)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	for _, k := range keys {
		if len(s.Data[k]) == 0 {
			return nil, InvalidSpec("%s: Secret %q has no key %q: add it", field, name, k)
		}
	}
	return &s, nil
}

// InvalidSpec returns the refusal of a specification. The message names the field and the cure.
func InvalidSpec(format string, args ...any) error {
	return cluster.Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(format, args...)}
}

// PasswordSecret is the wanted state of the auth Secret of a cluster.
type PasswordSecret struct {
	// Keys are the keys that hold a password each.
	Keys []string
	// Given are the passwords by key that replace the stored ones; the others are kept, or generated when missing.
	Given  map[string]string
	Labels map[string]string
	// Owners are as in Secret.
	Owners []*metav1ac.OwnerReferenceApplyConfiguration
}

// EnsurePasswords returns a password for each key, storing in the cluster's auth Secret what is given and generating what
// is missing. live is that Secret, nil when there is none: what is given was decided on it.
func (c *Client) EnsurePasswords(ctx context.Context, owner Owner, live *corev1.Secret, want PasswordSecret) (map[string]string, error) {
	data := map[string][]byte{}
	if live != nil {
		maps.Copy(data, live.Data)
	}
	for k, password := range want.Given {
		data[k] = []byte(password)
	}
	for _, k := range want.Keys {
		if len(data[k]) == 0 {
			data[k] = []byte(rand.Text())
		}
	}
	s := Secret{
		Name: cluster.AuthSecret(owner.GetName()), Type: corev1.SecretTypeOpaque, Labels: want.Labels, Data: data, Owners: want.Owners,
	}
	var err error
	if live == nil {
		err = c.makeSecret(ctx, owner, s)
	} else {
		err = c.bringSecret(ctx, owner, live, s)
	}
	if err != nil {
		return nil, err
	}
	passwords := map[string]string{}
	for _, k := range want.Keys {
		passwords[k] = string(data[k])
	}
	return passwords, nil
}

// UserPassword reads the password that the specification names, empty when it names none.
func (c *Client) UserPassword(ctx context.Context, owner Owner, auth *v1alpha1.AuthSpec) (string, error) {
	if auth.Secret() == "" {
		return "", nil
	}
	s, err := c.UserSecret(ctx, owner, "spec.auth.secretName", auth.Secret(), PasswordKey)
	if err != nil {
		return "", err
	}
	return string(s.Data[PasswordKey]), nil
}

// Passwords reads the cluster's auth Secret back without writing; nil when it does not exist yet.
func (c *Client) Passwords(ctx context.Context, owner Owner) (map[string]string, error) {
	s, err := c.OwnSecret(ctx, owner, cluster.AuthSecret(owner.GetName()))
	return PasswordsIn(s), err
}

// PasswordsIn are those in a Secret, nil when there is none.
func PasswordsIn(s *corev1.Secret) map[string]string {
	if s == nil {
		return nil
	}
	passwords := map[string]string{}
	for k, v := range s.Data {
		passwords[k] = string(v)
	}
	return passwords
}

// GeneratedPassword reads a password that was made for o. One that somebody has deleted meanwhile is made anew first.
func (c *Client) GeneratedPassword(ctx context.Context, o Owner, name string) (string, error) {
	s, err := c.OwnSecret(ctx, o, name)
	if err != nil {
		return "", err
	}
	password := PasswordsIn(s)[PasswordKey]
	if password == "" && o.GetDeletionTimestamp() == nil {
		return "", cluster.Hold{Reason: v1alpha1.ReasonReconcileError, Message: "the password in Secret " + name + " was deleted, and is made anew first"}
	}
	return password, nil
}

// ObjectMeta returns the name of a child in the namespace of its owner.
func ObjectMeta(owner Owner, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: name}
}
