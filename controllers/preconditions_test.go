package controllers

import (
	"errors"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// Each write carries the UID or the resourceVersion of what was decided on: a decision about an
// object that has changed since is a no-op.

func TestASecretThatChangedSinceItWasReadIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, w *world, live *corev1.Secret){
		"another writer": func(t *testing.T, w *world, live *corev1.Secret) {
			t.Helper()
			live.Data["password"] = []byte("of the other writer")
			must(t, w.Update(t.Context(), live))
		},
		"another Secret of the name": func(t *testing.T, w *world, live *corev1.Secret) {
			t.Helper()
			must(t, w.Delete(t.Context(), live))
			again := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name, OwnerReferences: live.OwnerReferences}}
			again.Data = map[string][]byte{"password": []byte("of the other writer")}
			must(t, w.Create(t.Context(), again))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := etcdCluster()
			w := newWorld(t, o)
			c := newChildren(w)
			write := func(live *corev1.Secret, password string) error {
				return c.bringSecret(t.Context(), o, live, "orders-auth", corev1.SecretTypeOpaque, etcd.Labels("orders"), map[string][]byte{"password": []byte(password)})
			}
			must(t, write(nil, "first"))
			live, err := c.ownSecret(t.Context(), o, "orders-auth")
			must(t, err)
			change(t, w, live.DeepCopy())
			if err := write(live, "second"); err == nil {
				t.Error("the Secret was written")
			}
			var now corev1.Secret
			must(t, w.Get(t.Context(), client.ObjectKeyFromObject(live), &now))
			if got := string(now.Data["password"]); got != "of the other writer" {
				t.Errorf("the password is %q", got)
			}
		})
	}
}

// TestASecretThatIsDeletedSinceItWasReadIsNotWritten: what was decided on the deleted one would
// come back without the keys of others.
func TestASecretThatIsDeletedSinceItWasReadIsNotWritten(t *testing.T) {
	t.Parallel()
	o := etcdCluster()
	w := newWorld(t, o)
	c := newChildren(w)
	must(t, c.EnsureSecret(t.Context(), o, "orders-auth", corev1.SecretTypeOpaque, etcd.Labels("orders"), map[string][]byte{"password": []byte("first")}))
	live, err := c.ownSecret(t.Context(), o, "orders-auth")
	must(t, err)
	must(t, w.Delete(t.Context(), live.DeepCopy()))
	if c.bringSecret(t.Context(), o, live, live.Name, live.Type, etcd.Labels("orders"), map[string][]byte{"password": []byte("second")}) == nil {
		t.Error("the Secret was written")
	}
}

func TestAPasswordIsNotMadeBesideOneThatAnotherOperatorMade(t *testing.T) {
	t.Parallel()
	o := etcdCluster()
	w := newWorld(t, o)
	c := newChildren(w)
	other := &corev1.Secret{ObjectMeta: objectMeta(o, cluster.AuthSecret(o.Name)), Data: map[string][]byte{PasswordKey: []byte("in use")}}
	must(t, w.Create(t.Context(), other)) // After this one was found to be missing.
	passwords, err := c.EnsurePasswords(t.Context(), o, nil, nil, etcd.Labels(o.Name), nil, PasswordKey)
	var hold cluster.Hold
	if !errors.As(err, &hold) || passwords != nil {
		t.Errorf("%v with %d passwords, want it to wait and read what there is", err, len(passwords))
	}
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(other), other))
	if string(other.Data[PasswordKey]) != "in use" {
		t.Error("the password was replaced")
	}
}

func TestAPodThatChangedSinceItWasObservedIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := newStage(t, persistent())
	s.untilReady()
	pod := &corev1.Pod{}
	key := types.NamespacedName{Namespace: s.name.Namespace, Name: "orders-2"}
	must(t, s.api.Get(t.Context(), key, pod))
	step := etcd.DeletePod{Name: pod.Name, UID: string(pod.UID), ResourceVersion: pod.ResourceVersion}
	pod.Annotations = map[string]string{"changed": "since"}
	must(t, s.api.Update(t.Context(), pod))
	must(t, s.newOperator().Kind.Act(t.Context(), s.cluster(), step))
	if err := s.api.Get(t.Context(), key, pod); err != nil {
		t.Errorf("the pod: %v", err)
	}
	step.ResourceVersion = pod.ResourceVersion
	must(t, s.newOperator().Kind.Act(t.Context(), s.cluster(), step))
	if err := s.api.Get(t.Context(), key, pod); err == nil {
		t.Error("the pod that was decided on is still there")
	}
}

func TestAClaimIsDeletedOnlyByTheNewestRecordAndSpecification(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(s *stage)
		deleted bool
	}{
		"nothing has changed":           {func(*stage) {}, true},
		"the specification has changed": {func(s *stage) { s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 5 }) }, false},
		"the record has changed":        {func(s *stage) { s.rerecord() }, false},
		"the claim has changed":         {func(s *stage) { s.touchClaim() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, persistent())
			s.untilReady()
			o, config, claim := s.cluster(), &corev1.ConfigMap{}, &corev1.PersistentVolumeClaim{}
			key := types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.Claim(o.Name, 2)}
			must(t, s.api.Get(t.Context(), key, claim))
			must(t, s.api.Get(t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.ConfigName(o.Name)}, config))
			step := etcd.DeleteClaim{Name: claim.Name, UID: string(claim.UID), ResourceVersion: claim.ResourceVersion}
			tc.change(s)
			children := newChildren(&world{Client: &outdated{Client: s.api, old: config, reads: 1000}}) // The cache is behind.
			children.Direct = s.api
			err := NewEtcdKind(children).Act(t.Context(), o, step)
			if gone := s.api.Get(t.Context(), key, claim) != nil; gone != tc.deleted {
				t.Errorf("the claim is deleted: %t (%v), want %t", gone, err, tc.deleted)
			}
		})
	}
}

// rerecord changes the record as another operator does.
func (s *stage) rerecord() {
	s.t.Helper()
	config := &corev1.ConfigMap{}
	must(s.t, s.api.Get(s.t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.ConfigName(s.name.Name)}, config))
	config.Data["min-available"] = "1"
	must(s.t, s.api.Update(s.t.Context(), config))
}

func (s *stage) touchClaim() {
	s.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	must(s.t, s.api.Get(s.t.Context(), types.NamespacedName{Namespace: s.name.Namespace, Name: cluster.Claim(s.name.Name, 2)}, claim))
	claim.Annotations = map[string]string{"changed": "since"}
	must(s.t, s.api.Update(s.t.Context(), claim))
}

func TestOnlyTheJobThatWasObservedIsResumed(t *testing.T) {
	t.Parallel()
	o := etcdCluster()
	w := newWorld(t, o)
	c := newChildren(w)
	job := &batchv1.Job{ObjectMeta: objectMeta(o, "orders-take"), Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	job.UID = "the next one"
	must(t, w.Create(t.Context(), job))
	for uid, suspended := range map[string]bool{"the one before": true, "the next one": false} {
		err := c.resumeJob(t.Context(), o, job.Name, uid)
		must(t, w.Get(t.Context(), client.ObjectKeyFromObject(job), job))
		if *job.Spec.Suspend != suspended || (err != nil) != suspended {
			t.Errorf("%s: the Job is suspended: %t, %v", uid, *job.Spec.Suspend, err)
		}
		job.Spec.Suspend = ptr.To(true)
		must(t, w.Update(t.Context(), job))
	}
}
