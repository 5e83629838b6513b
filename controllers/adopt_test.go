package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// recreate deletes a cluster without its objects, and creates it again as `kubectl apply` does.
func recreate(t *testing.T, api client.Client, o, again Object) {
	t.Helper()
	if err := api.Delete(t.Context(), o, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	again.SetUID("u-2")
	again.SetResourceVersion("")
	again.SetCreationTimestamp(metav1.NewTime(stageNow))
	if err := api.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
}

// secretData returns the data of all Secrets.
func secretData(t *testing.T, p *past) map[string]string {
	t.Helper()
	p.catchUp()
	out := map[string]string{}
	for _, o := range p.state("Secret", p.now()) {
		if s, ok := o.(*corev1.Secret); ok {
			out[s.Name] = fmt.Sprint(s.Data)
		}
	}
	return out
}

// uncontrolled lists the objects of a cluster that owner does not control. Pods and claims belong
// to their StatefulSet.
func uncontrolled(t *testing.T, p *past, owner Object) (out []string) {
	t.Helper()
	p.catchUp()
	for kind := range p.watches {
		for _, o := range p.state(kind, p.now()) {
			direct := !slices.Contains([]string{"Pod", "PersistentVolumeClaim", "EtcdCluster", "RedisCluster"}, kind)
			if direct && o.GetLabels()[cluster.LabelPartOf] == owner.GetName() && !metav1.IsControlledBy(o, owner) {
				out = append(out, kind+" "+o.GetName())
			}
		}
	}
	slices.Sort(out)
	return out
}

func podUIDs(t *testing.T, api client.Client) map[string]types.UID {
	t.Helper()
	var pods corev1.PodList
	if err := api.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	out := map[string]types.UID{}
	for _, p := range pods.Items {
		out[p.Name] = p.UID
	}
	return out
}

func TestAnEtcdClusterThatIsCreatedAgainAdoptsItsOrphans(t *testing.T) {
	t.Parallel()
	s := newStage(t, persistent())
	s.untilReady()
	id, secrets, pods := s.cluster().Status.ClusterID, secretData(t, s.past), podUIDs(t, s.api)
	recreate(t, s.api, s.cluster(), persistent())
	s.untilReady()
	o := s.cluster()
	if o.UID != "u-2" || o.Status.ClusterID != id || o.Status.Ready != "3/3" {
		t.Errorf("cluster %s has id %s and %s members, want u-2 with id %s and all", o.UID, o.Status.ClusterID, o.Status.Ready, id)
	}
	s.untilSettled()
	if diff := cmp.Diff(secrets, secretData(t, s.past)); diff != "" {
		t.Errorf("Secrets (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(pods, podUIDs(t, s.api)); diff != "" {
		t.Errorf("pods (-before +after):\n%s", diff)
	}
	if left := uncontrolled(t, s.past, o); len(left) > 0 {
		t.Errorf("orphans that were not adopted: %v", left)
	}
}

// untilSettled makes reconciles until nothing is written any more.
func (s *stage) untilSettled() {
	s.t.Helper()
	for range 60 {
		before := s.writes
		for range 3 {
			s.turn()
			s.kubelet()
		}
		if s.writes == before {
			return
		}
	}
	s.t.Fatalf("not settled: %s", s.cluster().Status.Activity)
}

func TestARedisClusterThatIsCreatedAgainAdoptsItsOrphans(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	secrets, pods, servers := secretData(t, s.past), podUIDs(t, s.api), ids(s)
	recreate(t, s.api, s.cluster(), redisCluster())
	s.settle()
	if now := s.cluster(); now.UID != "u-2" {
		t.Fatalf("the cluster has UID %s", now.UID)
	}
	for range 5 {
		s.pass()
	}
	if diff := cmp.Diff(secrets, secretData(t, s.past)); diff != "" {
		t.Errorf("Secrets (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(pods, podUIDs(t, s.api)); diff != "" {
		t.Errorf("pods (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(servers, ids(s)); diff != "" {
		t.Errorf("primaries (-before +after):\n%s", diff)
	}
	if left := uncontrolled(t, s.past, s.cluster()); len(left) > 0 {
		t.Errorf("orphans that were not adopted: %v", left)
	}
}

// TestTheAppointmentOfAnOrphanedServiceHolds: the Service is the only record of which replica was
// appointed primary.
func TestTheAppointmentOfAnOrphanedServiceHolds(t *testing.T) {
	t.Parallel()
	o := redisCluster()
	o.Spec.Mode, o.Spec.Shards = ptr.To(v1alpha1.RedisReplicated), 0
	o.CreationTimestamp = metav1.NewTime(stageNow)
	w := newWorld(t, o)
	k := NewRedisKind(newChildren(w))
	b, err := k.builder(t.Context(), o)
	must(t, err)
	want := redis.Appointment{Pod: "carts-0-1", History: "id"}
	service := b.Primary(want, "")
	service.OwnerReferences = nil
	must(t, w.Apply(t.Context(), service, client.FieldOwner(cluster.ManagedBy)))
	got, err := k.appointment(t.Context(), o)
	if err != nil || got.Pod != want.Pod {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// ids returns the primary that each server copies, empty for a primary itself.
func ids(s *redisStage) map[string]string {
	out := map[string]string{}
	for name, server := range s.servers {
		out[name] = server.Primary()
	}
	return out
}

func TestOnlyOrphansOfThisClusterAreAdopted(t *testing.T) {
	t.Parallel()
	o := etcdCluster()
	o.CreationTimestamp = metav1.NewTime(stageNow)
	before, after := metav1.NewTime(stageNow.Add(-time.Hour)), metav1.NewTime(stageNow.Add(time.Hour))
	set := func(labels map[string]string, born metav1.Time) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders", UID: "set", Labels: labels, CreationTimestamp: born}}
	}
	ours := set(etcd.Labels("orders"), before)
	for name, tc := range map[string]struct {
		set     *appsv1.StatefulSet
		change  func(*corev1.Secret)
		manager string
		further map[string]string
		want    bool
	}{
		"an orphan":                                 {set: ours, want: true},
		"a Secret without a StatefulSet":            {},
		"beside a StatefulSet of another cluster":   {set: set(etcd.Labels("other"), before)},
		"beside a StatefulSet that is younger":      {set: set(etcd.Labels("orders"), after)},
		"a Secret that is younger than the cluster": {set: ours, change: func(s *corev1.Secret) { s.CreationTimestamp = after }},
		"a Secret without our labels":               {set: ours, change: func(s *corev1.Secret) { s.Labels = nil }},
		"a Secret of another cluster":               {set: ours, change: func(s *corev1.Secret) { s.Labels = etcd.Labels("other") }},
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
			w := newWorld(t, objects...)
			planted := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-auth", Labels: etcd.Labels("orders"), CreationTimestamp: before},
				Data:       map[string][]byte{"password": []byte("known")},
			}
			if tc.change != nil {
				tc.change(planted)
			}
			manager := tc.manager
			if manager == "" {
				manager = cluster.ManagedBy
			}
			must(t, w.Create(t.Context(), planted, client.FieldOwner(manager)))
			if tc.further != nil {
				must(t, w.Apply(t.Context(), corev1ac.Secret("orders-auth", "default").WithData(bytesOf(tc.further)), client.FieldOwner("kubectl")))
			}
			live, err := newChildren(w).ownSecret(t.Context(), o, "orders-auth")
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnObjectThatChangedSinceItWasReadIsNotAdopted(t *testing.T) {
	t.Parallel()
	o := etcdCluster()
	w := newWorld(t, o)
	c := newChildren(w)
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-config"}}
	must(t, w.Create(t.Context(), live))
	changed := live.DeepCopy()
	changed.Data = map[string]string{"k": "v"}
	must(t, w.Update(t.Context(), changed))
	if err := c.adopt(t.Context(), o, live.DeepCopy()); err == nil {
		t.Error("an object was adopted that has changed")
	}
	must(t, c.adopt(t.Context(), o, changed))
	if !metav1.IsControlledBy(changed, o) {
		t.Errorf("owners: %v", changed.OwnerReferences)
	}
}

// TestTheReferenceToAFormerOwnerIsReplaced: a backup tool restores objects with the UIDs of owners
// that do not exist, and the garbage collector deletes what has no other owner.
func TestTheReferenceToAFormerOwnerIsReplaced(t *testing.T) {
	t.Parallel()
	o := etcdCluster()
	w := newWorld(t, o)
	c := newChildren(w)
	restored := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-auth", Labels: etcd.Labels("orders"), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: "data-orders-0", UID: "former claim"},
			{APIVersion: "quorate.dev/v1alpha1", Kind: "EtcdCluster", Name: "orders", UID: "former", Controller: ptr.To(true)},
		}},
		Data: map[string][]byte{"password": []byte("of root")},
	}
	must(t, w.Create(context.Background(), restored, client.FieldOwner(cluster.ManagedBy)))
	live, err := c.ownSecret(t.Context(), o, "orders-auth")
	must(t, err)
	must(t, c.bringSecret(t.Context(), o, live, "orders-auth", corev1.SecretTypeOpaque, etcd.Labels("orders"), maps.Clone(live.Data)))
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(restored), restored))
	if string(restored.Data["password"]) != "of root" || !metav1.IsControlledBy(restored, o) ||
		slices.ContainsFunc(restored.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == "former" }) {
		t.Errorf("data %v, owners %v", restored.Data, restored.OwnerReferences)
	}
}
