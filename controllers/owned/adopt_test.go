package owned

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestOnlyOrphansOfThisClusterAreAdopted(t *testing.T) {
	t.Parallel()
	o := fakeapi.EtcdCluster()
	o.CreationTimestamp = metav1.NewTime(fakeapi.Now)
	before, after := metav1.NewTime(fakeapi.Now.Add(-time.Hour)), metav1.NewTime(fakeapi.Now.Add(time.Hour))
	set := func(labels map[string]string, born metav1.Time) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders", UID: "set", Labels: labels, CreationTimestamp: born}}
	}
	ours := set(manifests.Labels("orders"), before)
	for name, tc := range map[string]struct {
		set     *appsv1.StatefulSet
		change  func(*corev1.Secret)
		manager string
		further map[string]string
		want    bool
	}{
		"an orphan":                                 {set: ours, want: true},
		"a Secret without a StatefulSet":            {},
		"beside a StatefulSet of another cluster":   {set: set(manifests.Labels("other"), before)},
		"beside a StatefulSet that is younger":      {set: set(manifests.Labels("orders"), after)},
		"a Secret that is younger than the cluster": {set: ours, change: func(s *corev1.Secret) { s.CreationTimestamp = after }},
		"a Secret without our labels":               {set: ours, change: func(s *corev1.Secret) { s.Labels = nil }},
		"a Secret of another cluster":               {set: ours, change: func(s *corev1.Secret) { s.Labels = manifests.Labels("other") }},
		"a Secret of another writer":                {set: ours, manager: "kubectl"},
		"a Secret with a key of another writer":     {set: ours, further: map[string]string{"next-password": "known"}},
		"a Secret of another controller": {set: ours, change: func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "orders", UID: "x", Controller: ptr.To(true)}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{o.DeepCopy()}
			if tc.set != nil {
				objects = append(objects, tc.set.DeepCopy())
			}
			w := fakeapi.New(t, objects...)
			planted := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-auth", Labels: manifests.Labels("orders"), CreationTimestamp: before},
				Data:       map[string][]byte{"password": []byte("known")},
			}
			if tc.change != nil {
				tc.change(planted)
			}
			manager := tc.manager
			if manager == "" {
				manager = cluster.ManagedBy
			}
			fakeapi.Must(t, w.Create(t.Context(), planted, client.FieldOwner(manager)))
			if tc.further != nil {
				fakeapi.Must(t, w.Apply(t.Context(), corev1ac.Secret("orders-auth", "default").WithData(bytesOf(tc.further)), client.FieldOwner("kubectl")))
			}
			live, err := newChildren(w).OwnSecret(t.Context(), o, "orders-auth")
			if (err == nil && live != nil) != tc.want {
				t.Errorf("%v: the Secret is adopted: want %t", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "delete") {
				t.Errorf("the advice is to delete a Secret: %v", err)
			}
		})
	}
}

func bytesOf(in map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range in {
		out[key] = []byte(value)
	}
	return out
}

func TestAnObjectThatChangedSinceItWasReadIsNotAdopted(t *testing.T) {
	t.Parallel()
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-config"}}
	fakeapi.Must(t, w.Create(t.Context(), live))
	changed := live.DeepCopy()
	changed.Data = map[string]string{"k": "v"}
	fakeapi.Must(t, w.Update(t.Context(), changed))
	if err := c.Adopt(t.Context(), o, live.DeepCopy()); err == nil {
		t.Error("an object was adopted that has changed")
	}
	fakeapi.Must(t, c.Adopt(t.Context(), o, changed))
	if !metav1.IsControlledBy(changed, o) {
		t.Errorf("owners: %v", changed.OwnerReferences)
	}
}

// TestTheReferenceToAFormerOwnerIsReplaced: a backup tool restores objects with the UIDs of owners
// that do not exist, and the garbage collector deletes what has no other owner.
func TestTheReferenceToAFormerOwnerIsReplaced(t *testing.T) {
	t.Parallel()
	o := fakeapi.EtcdCluster()
	w := fakeapi.New(t, o)
	c := newChildren(w)
	restored := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-auth", Labels: manifests.Labels("orders"), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: "data-orders-0", UID: "former claim"},
			{APIVersion: "quorate.dev/v1alpha1", Kind: "EtcdCluster", Name: "orders", UID: "former", Controller: ptr.To(true)},
		}},
		Data: map[string][]byte{"password": []byte("of root")},
	}
	fakeapi.Must(t, w.Create(t.Context(), restored, client.FieldOwner(cluster.ManagedBy)))
	live, err := c.OwnSecret(t.Context(), o, "orders-auth")
	fakeapi.Must(t, err)
	want := Secret{Name: "orders-auth", Type: corev1.SecretTypeOpaque, Labels: manifests.Labels("orders"), Data: maps.Clone(live.Data)}
	fakeapi.Must(t, c.bringSecret(t.Context(), o, live, want))
	fakeapi.Must(t, w.Get(t.Context(), client.ObjectKeyFromObject(restored), restored))
	if string(restored.Data["password"]) != "of root" || !metav1.IsControlledBy(restored, o) ||
		slices.ContainsFunc(restored.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == "former" }) {
		t.Errorf("data %v, owners %v", restored.Data, restored.OwnerReferences)
	}
}
