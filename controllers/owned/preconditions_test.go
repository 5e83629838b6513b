package owned

import (
	"errors"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/test/fakeapi"
)

// Each write carries the UID or the resourceVersion of what was decided on: a decision about an
// object that has changed since is a no-op.

func TestASecretThatChangedSinceItWasReadIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, w *fakeapi.API, live *corev1.Secret){
		"another writer": func(t *testing.T, w *fakeapi.API, live *corev1.Secret) {
			t.Helper()
			live.Data["password"] = []byte("of the other writer")
			fakeapi.Must(t, w.Update(t.Context(), live))
		},
		"another Secret of the name": func(t *testing.T, w *fakeapi.API, live *corev1.Secret) {
			t.Helper()
			fakeapi.Must(t, w.Delete(t.Context(), live))
			again := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name, OwnerReferences: live.OwnerReferences}}
			again.Data = map[string][]byte{"password": []byte("of the other writer")}
			fakeapi.Must(t, w.Create(t.Context(), again))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := fakeapi.EtcdCluster()
			w := fakeapi.New(t, o)
			c := newChildren(w)
			write := func(live *corev1.Secret, password string) error {
				return c.bringSecret(t.Context(), o, live, authSecret(password))
			}
			fakeapi.Must(t, write(nil, "first"))
			live, err := c.OwnSecret(t.Context(), o, "orders-auth")
			fakeapi.Must(t, err)
			change(t, w, live.DeepCopy())
			if err := write(live, "second"); err == nil {
				t.Error("the Secret was written")
			}
			var now corev1.Secret
			fakeapi.Must(t, w.Get(t.Context(), client.ObjectKeyFromObject(live), &now))
			if got := string(now.Data["password"]); got != "of the other writer" {
				t.Errorf("the password is %q", got)
			}
		})
	}
}

// authSecret is the Secret of cluster orders with a password.
func authSecret(password string) Secret {
	return Secret{
		Name: "orders-auth", Type: corev1.SecretTypeOpaque, Labels: manifests.Labels("orders"), Data: map[string][]byte{"password": []byte(password)},
	}
}

// TestASecretThatIsDeletedSinceItWasReadIsNotWritten: what was decided on the deleted one would
// come back without the keys of others.
func TestASecretThatIsDeletedSinceItWasReadIsNotWritten(t *testing.T) {
	t.Parallel()
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	fakeapi.Must(t, c.EnsureSecret(t.Context(), o, authSecret("first")))
	live, err := c.OwnSecret(t.Context(), o, "orders-auth")
	fakeapi.Must(t, err)
	fakeapi.Must(t, w.Delete(t.Context(), live.DeepCopy()))
	if c.bringSecret(t.Context(), o, live, authSecret("second")) == nil {
		t.Error("the Secret was written")
	}
}

func TestAPasswordIsNotMadeBesideOneThatAnotherOperatorMade(t *testing.T) {
	t.Parallel()
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	other := &corev1.Secret{ObjectMeta: ObjectMeta(o, cluster.AuthSecret(o.Name)), Data: map[string][]byte{PasswordKey: []byte("in use")}}
	fakeapi.Must(t, w.Create(t.Context(), other)) // After this one was found to be missing.
	passwords, err := c.EnsurePasswords(t.Context(), o, nil, PasswordSecret{Keys: []string{PasswordKey}, Labels: manifests.Labels(o.Name)})
	var hold cluster.Hold
	if !errors.As(err, &hold) || passwords != nil {
		t.Errorf("%v with %d passwords, want it to wait and read what there is", err, len(passwords))
	}
	fakeapi.Must(t, w.Get(t.Context(), client.ObjectKeyFromObject(other), other))
	if string(other.Data[PasswordKey]) != "in use" {
		t.Error("the password was replaced")
	}
}

func TestOnlyTheJobThatWasObservedIsResumed(t *testing.T) {
	t.Parallel()
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	job := &batchv1.Job{ObjectMeta: ObjectMeta(o, "orders-take"), Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	job.UID = "the next one"
	fakeapi.Must(t, w.Create(t.Context(), job))
	for uid, suspended := range map[string]bool{"the one before": true, "the next one": false} {
		err := c.ResumeJob(t.Context(), o, job.Name, uid)
		fakeapi.Must(t, w.Get(t.Context(), client.ObjectKeyFromObject(job), job))
		if *job.Spec.Suspend != suspended || (err != nil) != suspended {
			t.Errorf("%s: the Job is suspended: %t, %v", uid, *job.Spec.Suspend, err)
		}
		job.Spec.Suspend = ptr.To(true)
		fakeapi.Must(t, w.Update(t.Context(), job))
	}
}
