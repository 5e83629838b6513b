package owned

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/fakeapi"
)

func applyConfigMap(t *testing.T, c *Client, o Owner, value string) error {
	t.Helper()
	ref, err := c.OwnerReference(o)
	if err != nil {
		t.Fatal(err)
	}
	want := corev1ac.ConfigMap("orders-config", "default").WithOwnerReferences(ref).WithData(map[string]string{"k": value})
	return c.Apply(t.Context(), o, &corev1.ConfigMap{ObjectMeta: ObjectMeta(o, "orders-config")}, want)
}

func TestApplySendsOnlyWhatChanged(t *testing.T) {
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	apply := func(value string, wantWrites int64, why string) {
		t.Helper()
		before := w.Writes.Load()
		if err := applyConfigMap(t, c, o, value); err != nil {
			t.Fatal(err)
		}
		if got := w.Writes.Load() - before; got != wantWrites {
			t.Errorf("%s: %d writes, want %d", why, got, wantWrites)
		}
	}
	apply("1", 1, "there is none yet")
	apply("1", 0, "nothing changed")
	apply("2", 1, "the wish changed")
	live := &corev1.ConfigMap{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "orders-config"}, live); err != nil {
		t.Fatal(err)
	}
	live.Data["k"] = "drifted"
	if err := w.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	apply("2", 1, "somebody changed the object")
	apply("2", 0, "nothing changed since")
}

// Jobs of backups have another name each time.
func TestNothingIsRememberedOfObjectsThatAreGone(t *testing.T) {
	var applied appliedMarks
	now := time.Now()
	key := func(n int) appliedKey { return appliedKey{"Job", "shop", fmt.Sprintf("hourly-%d", n)} }
	for n := range 100 {
		applied.set(key(n), now, appliedMark{version: "1"})
	}
	if applied.of(key(7), now).version != "1" {
		t.Error("what is there is forgotten")
	}
	applied.of(key(100), now.Add(2*time.Hour))
	if n := len(maps.Collect(applied.byKey.All())); n != 1 {
		t.Errorf("%d Jobs are remembered", n)
	}
}

// What an earlier resource of the same name has left is waited for, whatever kind it is of.
func TestWhatIsLeftBehindIsWaitedFor(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "undo", UID: "new"}
	for kind, owner := range map[string]Owner{
		"Restore":        &v1alpha1.Restore{ObjectMeta: meta},
		"BackupSchedule": &v1alpha1.BackupSchedule{ObjectMeta: meta},
		"Backup":         &v1alpha1.Backup{ObjectMeta: meta},
		"EtcdUser":       &v1alpha1.EtcdUser{ObjectMeta: meta},
	} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "undo-find", OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "undo", UID: "old", Controller: ptr.To(true)}}}}
		if hold := (cluster.Hold{}); !errors.As(CheckOwned(owner, job, "Job undo-find"), &hold) || hold.Reason != v1alpha1.ReasonPreviousCluster {
			t.Errorf("%s: %v", kind, CheckOwned(owner, job, "Job undo-find"))
		}
		job.OwnerReferences[0].Kind = "Other"
		if refusal := (cluster.Refusal{}); !errors.As(CheckOwned(owner, job, "Job undo-find"), &refusal) {
			t.Errorf("%s: %v", kind, CheckOwned(owner, job, "Job undo-find"))
		}
	}
}

// What is applied is not always what comes of it, and not all that is specified is counted.
func TestWhatCameOfAWishStands(t *testing.T) {
	wish := sha256.Sum256([]byte("wish"))
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "orders", UID: "u", Generation: 1, ResourceVersion: "7", Labels: map[string]string{"a": "b"}}}
	config := &corev1.ConfigMap{ObjectMeta: *set.ObjectMeta.DeepCopy()}
	for what, test := range map[string]struct {
		live   client.Object
		change func(client.Object)
		want   bool
	}{
		"nothing":                             {set, func(client.Object) {}, true},
		"status":                              {set, func(o client.Object) { o.SetResourceVersion("8") }, true},
		"somebody strips labels at once":      {set, func(o client.Object) { o.SetLabels(nil) }, true},
		"somebody strips labels later":        {set, func(o client.Object) { o.SetLabels(nil); o.SetResourceVersion("8") }, false},
		"content whose changes nobody counts": {config, func(o client.Object) { o.SetResourceVersion("8") }, false},
	} {
		live, ok := test.live.DeepCopyObject().(client.Object)
		if !ok {
			t.Fatal("it is no object")
		}
		mark := appliedMark{wish, "7", fingerprint(live)}
		test.change(live)
		if got := mark.stands(wish, live); got != test.want {
			t.Errorf("%s: it stands: %t, want %t", what, got, test.want)
		}
		if mark.stands(sha256.Sum256([]byte("other")), live) {
			t.Errorf("%s: another wish is taken for it", what)
		}
	}
}

func TestWhatTheAPIServerCallsInvalidIsARefusalOfTheSpecification(t *testing.T) {
	path := field.NewPath("spec", "template", "spec", "tolerations")
	invalid := func(path *field.Path) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "orders-config", field.ErrorList{field.Invalid(path, "x", "no such operator")})
	}
	tests := map[string]struct {
		answer        error
		refused, held bool
	}{
		"an invalid field": {answer: invalid(path), refused: true},
		"a conflict":       {answer: apierrors.NewConflict(schema.GroupResource{}, "orders-config", errors.New("changed")), held: true},
		"another object":   {answer: invalid(field.NewPath("metadata", "uid")), held: true},
		"a busy server":    {answer: apierrors.NewTooManyRequestsError("later")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := fakeapi.EtcdCluster()
			w := fakeapi.New(t, o)
			w.Fail = tc.answer
			err := applyConfigMap(t, newChildren(w), o, "1")
			var refusal cluster.Refusal
			if errors.As(err, &refusal) != tc.refused {
				t.Fatalf("%v: refused is not %t", err, tc.refused)
			}
			if tc.refused && (refusal.Reason != v1alpha1.ReasonInvalidSpec || !strings.Contains(err.Error(), "ConfigMap default/orders-config") ||
				!strings.Contains(err.Error(), "spec.template.spec.tolerations") || !strings.Contains(err.Error(), "no such operator")) {
				t.Errorf("%s: %v", refusal.Reason, err)
			}
			var hold cluster.Hold
			if errors.As(err, &hold) != tc.held {
				t.Fatalf("%v: held is not %t", err, tc.held)
			}
			if !tc.refused && !tc.held && !errors.Is(err, tc.answer) {
				t.Errorf("%v, want it to wrap %v", err, tc.answer)
			}
		})
	}
}

func TestForeignObjectsAreNotAdopted(t *testing.T) {
	o := fakeapi.EtcdCluster()
	owned := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "quorate.dev/v1alpha1", Kind: kind, Name: name, UID: "u-0", Controller: new(true)}}
	}
	tests := map[string]struct {
		owners  []metav1.OwnerReference
		leaving bool
		want    string
	}{
		"nobody owns it":                        {nil, false, v1alpha1.ReasonForeignObject},
		"a cluster of another kind owns it":     {owned("RedisCluster", "orders"), false, v1alpha1.ReasonForeignObject},
		"a cluster of another name owns it":     {owned("EtcdCluster", "other"), false, v1alpha1.ReasonForeignObject},
		"a deleted namesake owned it":           {owned("EtcdCluster", "orders"), false, v1alpha1.ReasonPreviousCluster},
		"it is being deleted, whose ever it is": {nil, true, v1alpha1.ReasonPreviousCluster},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-config", OwnerReferences: tc.owners}}
			if tc.leaving {
				foreign.DeletionTimestamp, foreign.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"x/y"}
			}
			w := fakeapi.New(t, o, foreign)
			err := applyConfigMap(t, newChildren(w), o, "1")
			if got := cluster.Progress(cluster.Plan{}, err)[0].Reason; got != tc.want || w.Writes.Load() != 0 {
				t.Errorf("reason %s (%v) after %d writes, want %s", got, err, w.Writes.Load(), tc.want)
			}
		})
	}
}

func TestALostAuthorityIsNotReplacedWhileItsCertificatesAreInUse(t *testing.T) {
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	leafs := map[string]clustertls.Leaf{"orders-server-tls": {CommonName: "server"}}
	ensure := func(inUse bool) error {
		return c.EnsureCertificates(t.Context(), o, Certificates{Leafs: leafs, InUse: inUse})
	}
	refused := func(inUse bool) {
		t.Helper()
		var refusal cluster.Refusal
		if err := ensure(inUse); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "restore it") {
			t.Errorf("a lost authority gave %v", err)
		}
	}
	if err := ensure(false); err != nil {
		t.Fatal(err)
	}
	remove(t, w, o, "orders-ca")
	refused(false)
	remove(t, w, o, "orders-server-tls")
	refused(true)
	if err := ensure(false); err != nil {
		t.Errorf("nothing is in use, and still: %v", err)
	}
}

func remove(t *testing.T, w *fakeapi.API, o Owner, secret string) {
	t.Helper()
	if err := w.Delete(t.Context(), &corev1.Secret{ObjectMeta: ObjectMeta(o, secret)}); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasKeptWithItsClaimsIsAdopted(t *testing.T) {
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	claim := metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("PersistentVolumeClaim").WithName("data-orders-0").WithUID("c-0")
	ensure := func() (map[string]string, error) {
		live, err := c.OwnSecret(t.Context(), o, cluster.AuthSecret(o.Name))
		if err != nil {
			return nil, err
		}
		return c.EnsurePasswords(t.Context(), o, live, PasswordSecret{
			Keys: []string{PasswordKey}, Labels: cluster.Labels("orders", "etcd", "etcd"), Owners: []*metav1ac.OwnerReferenceApplyConfiguration{claim},
		})
	}
	first, err := ensure()
	if err != nil {
		t.Fatal(err)
	}
	kept := &corev1.Secret{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "orders-auth"}, kept); err != nil {
		t.Fatal(err)
	}
	// The garbage collector drops owners that are gone.
	kept.OwnerReferences = slices.DeleteFunc(kept.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "EtcdCluster" })
	if err := w.Update(t.Context(), kept); err != nil || len(kept.OwnerReferences) != 1 {
		t.Fatalf("owners %v, %v", kept.OwnerReferences, err)
	}
	o.UID = "u-2"
	again, err := ensure()
	if err != nil || again[PasswordKey] != first[PasswordKey] {
		t.Errorf("the password is %q and was %q, %v", again[PasswordKey], first[PasswordKey], err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(kept), kept); err != nil || !metav1.IsControlledBy(kept, o) {
		t.Errorf("owners %v, %v", kept.OwnerReferences, err)
	}
}

func TestPasswordsAreMadeOnceAndTakenFromTheUserWhereNamed(t *testing.T) {
	o := fakeapi.EtcdCluster()
	users := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}, Data: map[string][]byte{"password": []byte("s3cret")}}
	c := newChildren(fakeapi.New(t, o, users))
	ensure := func(auth *v1alpha1.AuthSpec) (map[string]string, error) {
		users, err := c.UserPassword(t.Context(), o, auth)
		if err != nil {
			return nil, err
		}
		given := map[string]string{}
		if users != "" {
			given[PasswordKey] = users
		}
		live, err := c.OwnSecret(t.Context(), o, cluster.AuthSecret(o.Name))
		if err != nil {
			return nil, err
		}
		return c.EnsurePasswords(t.Context(), o, live, PasswordSecret{Keys: []string{"password", "operator"}, Given: given})
	}
	first, err := ensure(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(first["password"]) < 24 || first["password"] == first["operator"] {
		t.Errorf("weak or equal passwords of %d and %d characters", len(first["password"]), len(first["operator"]))
	}
	if again, err := ensure(nil); err != nil || again["password"] != first["password"] || again["operator"] != first["operator"] {
		t.Errorf("the passwords changed, or %v", err)
	}
	named, err := ensure(&v1alpha1.AuthSpec{SecretName: new("mine")})
	if err != nil || named["password"] != "s3cret" || named["operator"] != first["operator"] {
		t.Errorf("the password of the user was not taken, or %v", err)
	}
	_, err = ensure(&v1alpha1.AuthSpec{SecretName: new("gone")})
	var refusal cluster.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "spec.auth.secretName") {
		t.Errorf("a missing Secret gave %v", err)
	}
}

func TestCertificatesAreIssuedOnceAndAgainWhenTheirNamesChange(t *testing.T) {
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	ensure := func(name string) clustertls.Pair {
		t.Helper()
		leafs := map[string]clustertls.Leaf{"orders-server-tls": {CommonName: "server", DNSNames: []string{name}}}
		if err := c.EnsureCertificates(t.Context(), o, Certificates{Leafs: leafs}); err != nil {
			t.Fatal(err)
		}
		ca, pair, err := c.Keypair(t.Context(), o, nil, "orders-server-tls")
		if err != nil || len(ca) == 0 {
			t.Fatalf("authority of %d bytes, %v", len(ca), err)
		}
		return pair
	}
	first := ensure("a.example")
	writes := w.Writes.Load()
	if again := ensure("a.example"); string(again.Cert) != string(first.Cert) || w.Writes.Load() != writes {
		t.Error("the certificate was issued again for no reason")
	}
	if other := ensure("b.example"); string(other.Cert) == string(first.Cert) {
		t.Error("the certificate was kept although its names changed")
	}
}

func TestProvidedCertificatesAreChecked(t *testing.T) {
	mode := v1alpha1.TLSProvided
	spec := &v1alpha1.TLSSpec{Mode: &mode, SecretName: new("mine")}
	now := newChildren(fakeapi.New(t)).Now()
	secret := func(at time.Time, host string, change func(map[string][]byte)) map[string][]byte {
		t.Helper()
		ca, err := clustertls.NewCA("mine", now)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := clustertls.Issue(ca, clustertls.Leaf{DNSNames: []string{host}}, at)
		if err != nil {
			t.Fatal(err)
		}
		data := map[string][]byte{"ca.crt": ca.Cert, "tls.crt": pair.Cert, "tls.key": pair.Key}
		if change != nil {
			change(data)
		}
		return data
	}
	tests := map[string]struct {
		data map[string][]byte
		want string
	}{
		"no Secret":         {nil, `there is no Secret "mine"`},
		"no authority":      {secret(now, "a.example", func(d map[string][]byte) { delete(d, "ca.crt") }), `has no key "ca.crt"`},
		"rubbish":           {secret(now, "a.example", func(d map[string][]byte) { d["tls.crt"] = []byte("x") }), "tls.crt and tls.key cannot be used"},
		"another authority": {secret(now, "a.example", func(d map[string][]byte) { d["ca.crt"] = secret(now, "a.example", nil)["ca.crt"] }), "does not serve"},
		"another host":      {secret(now, "b.example", nil), "not a.example"},
		"expired":           {secret(now.Add(-2*clustertls.LeafValidity), "a.example", nil), "is valid from"},
		"everything here":   {secret(now, "a.example", nil), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := fakeapi.EtcdCluster()
			w := fakeapi.New(t, o)
			if tc.data != nil {
				s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}, Data: tc.data}
				if err := w.Create(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			err := newChildren(w).EnsureCertificates(t.Context(), o, Certificates{Spec: spec, Hosts: []string{"a.example"}})
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
