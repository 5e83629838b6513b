package controllersim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/repository"
	"github.com/quorate/quorate/test/schema"
)

const crdDir = "config/crd/bases"

// tried is a kind of cluster whose fields are tried one by one.
type tried struct {
	cast
	kind string
	// from builds a stage with a cluster of that specification.
	from func(t *testing.T, spec schema.Object) scene
	// idle are leaves that do nothing on a stage, lasting those that are not set back by setting them back, and unplayed those that the stage
	// cannot play, by the beginning of their paths, with the reason in words.
	idle, lasting, unplayed map[string]string
	// beside is what is set along with a leaf, so that it acts, by the beginning of its path.
	beside map[string]string
	// asks are drifts of objects of which only a human can tell what is right, and restarts those that restart pods.
	asks, restarts map[string]string
	// sparse is how many times fewer leaves there are in a sample.
	sparse int
}

// decode reads a specification, as the API server hands it out.
func decode[S any](t *testing.T, spec any) S {
	t.Helper()
	var out S
	raw, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatalf("%v: %v", spec, err)
	}
	return out
}

// around is what there is beside a cluster: what the valid values name.
func around() []client.Object {
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}, Data: map[string][]byte{owned.PasswordKey: []byte("chosen")}}
	out := []client.Object{mine}
	for _, name := range []string{"standard", "fast"} {
		out = append(out, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disk"})
	}
	return out
}

// damaged is a record that is not guessed at.
const damaged = "the record is deleted, or put back"

func etcdTried() tried {
	return tried{
		cast: etcdCast(), kind: "EtcdCluster", sparse: 2,
		from: func(t *testing.T, spec schema.Object) scene {
			t.Helper()
			o := fakeapi.EtcdCluster()
			o.Spec = decode[v1alpha1.EtcdClusterSpec](t, spec)
			s := newStage(t, o, around()...)
			// A pass takes ten seconds: who is patient for some time is so for some passes.
			s.equip = func(c *owned.Client) {
				c.Now = func() time.Time { return fakeapi.Now.Add(time.Duration(s.turns) * 10 * time.Second) }
			}
			InstallPodMonitors(t, s.Others)
			s.Restart()
			s.Wire.guard = s.guard
			s.upset = true
			return s
		},
		idle: map[string]string{
			"spec.maintenance.":                                 "no database is worth a defragmentation",
			"spec.recovery.":                                    "no member is lost",
			"spec.tls.rotation.":                                "nothing is due: what is, is an operation of its own",
			"spec.template.securityContext.runAsNonRoot":        "all pods have the only value that is admitted",
			"spec.template.securityContext.seccompProfile.type": "all pods have the only value that needs no file of the node",
		},
		lasting: map[string]string{
			"spec.storage.className": "without a class, volumes stay in theirs",
			"spec.tls.mode":          "a password that was needed without certificates is kept with the claims from then on",
		},
		beside: map[string]string{"spec.upgrade.": "version: 3.7.3"},
		asks: map[string]string{
			"any * f:metadata f:ownerReferences":                "it may be that of somebody else",
			"change Secret orders-ca f:data":                    "nobody would trust what another authority signs",
			"remove Secret orders-ca f:data":                    "nobody would trust what another authority signs",
			"delete Secret orders-ca":                           "nobody would trust what another authority signs",
			"change ConfigMap orders-config f:data f:bootstrap": damaged, "remove ConfigMap orders-config f:data f:bootstrap": damaged,
			"change ConfigMap orders-config f:data f:members": damaged, "remove ConfigMap orders-config f:data f:members": damaged,
			"change ConfigMap orders-config f:data f:version": damaged, "remove ConfigMap orders-config f:data f:version": damaged,
			"change ConfigMap orders-config f:data f:cluster-id": damaged, "change ConfigMap orders-config f:data f:recovery": damaged,
			"change ConfigMap orders-config f:data f:restore": damaged, "change ConfigMap orders-config f:data f:snapshot": damaged,
			"change ConfigMap orders-config f:data f:transport": damaged,
		},
		restarts: map[string]string{
			"delete StatefulSet":                          "Kubernetes deletes its pods",
			"delete Secret orders-auth":                   "members read the key again that tokens are signed with",
			"any Secret orders-auth f:data f:signing-key": "members read the key again that tokens are signed with",
		},
	}
}

func redisTried() tried {
	return tried{
		cast: redisCast(), kind: "RedisCluster", sparse: 4,
		from: func(t *testing.T, spec schema.Object) scene {
			t.Helper()
			o := fakeapi.RedisCluster()
			o.Spec = decode[v1alpha1.RedisClusterSpec](t, spec)
			s := newRedisStage(t, o, around()...)
			s.Equip = func(c *owned.Client) {
				c.Now = func() time.Time { return fakeapi.Now.Add(time.Duration(s.turns) * 5 * time.Second) }
			}
			InstallPodMonitors(t, s.API)
			s.Restart()
			s.Wire.guard = s.guard
			s.upset = true
			return s
		},
		idle: map[string]string{
			"spec.recovery.lostShard":                           "no shard is lost",
			"spec.recovery.deadPrimary":                         "no primary dies",
			"spec.rebalance.mode":                               "there is nothing to move",
			"spec.rebalance.coolDown":                           "nothing was moved",
			"spec.tls.rotation.":                                "nothing is due: what is, is an operation of its own",
			"spec.auth.rotation.":                               "no password is replaced: that is an operation of its own",
			"spec.template.securityContext.runAsNonRoot":        "all pods have the only value that is admitted",
			"spec.template.securityContext.seccompProfile.type": "all pods have the only value that needs no file of the node",
		},
		lasting: map[string]string{
			"spec.version":             "servers do not read what later ones have written",
			"spec.externalAccess.host": "an address is used until another one takes its place, and pods here are on no node",
		},
		asks: map[string]string{
			"any * f:metadata f:ownerReferences": "it may be that of somebody else",
			"change Secret carts-ca f:data":      "nobody would trust what another authority signs",
			"remove Secret carts-ca f:data":      "nobody would trust what another authority signs",
			"delete Secret carts-ca":             "nobody would trust what another authority signs",
		},
		restarts: map[string]string{
			"delete StatefulSet":                  "Kubernetes deletes its pods",
			"any StatefulSet * f:spec f:replicas": "Kubernetes deletes pods that there is no room for",
		},
		unplayed: map[string]string{
			"spec.mode": "its servers are those of a sharded cluster", "spec.tls.mode": "its servers speak TLS",
		},
		beside: map[string]string{"spec.rebalance.": "rebalance: {by: Memory}"},
	}
}

// specify gives the cluster another specification.
func (k tried) specify(t *testing.T, s scene, spec any) {
	t.Helper()
	live := k.cluster(s)
	switch o := live.(type) {
	case *v1alpha1.EtcdCluster:
		o.Spec = decode[v1alpha1.EtcdClusterSpec](t, spec)
	case *v1alpha1.RedisCluster:
		o.Spec = decode[v1alpha1.RedisClusterSpec](t, spec)
	}
	live.SetGeneration(live.GetGeneration() + 1)
	if err := api(s).Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
}

// isReady reports whether the cluster is as specified.
func (k tried) isReady(s scene) bool {
	o, ok := k.cluster(s).(owned.Owner)
	if !ok {
		return false
	}
	c := meta.FindStatusCondition(o.GetConditions(), v1alpha1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.GetGeneration()
}

// patience is how many passes without a write tell that an operator waits for somebody: longer than servers are forgotten for.
const patience = 40

// rest lets the operator come to rest, be the cluster Ready then or waiting for somebody, and fails the test when it goes on writing.
func (k tried) rest(t *testing.T, s scene) {
	t.Helper()
	w := s.Line()
	quiet := 0
	for range 300 {
		before := w.Writes
		s.Round()
		if quiet++; w.Writes != before {
			quiet = 0
		}
		if quiet == patience || (quiet == 5 && k.isReady(s)) {
			return
		}
	}
	t.Errorf("it does not come to rest, the last writes are %v", w.Log[max(0, len(w.Log)-10):])
}

// traces are all that a specification leaves: objects, what they hold, and what is said in the status of the cluster. same says that they are
// compared with those of the same cluster, whose sums and keys are the same too.
func traces(t *testing.T, s scene, same bool) []string {
	t.Helper()
	p := s.Line().Past
	p.CatchUp()
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(p.Watches)) {
		for _, o := range slices.SortedFunc(maps.Values(p.Present[kind]), fakeapi.CompareNames) {
			out = append(out, traced(t, kind, o, same)...)
		}
	}
	return append(out, strangers(t, s)...)
}

// traced is what an object tells of a specification, apart from being it, or having a copy of it.
func traced(t *testing.T, kind string, o client.Object, same bool) []string {
	t.Helper()
	o, _ = o.DeepCopyObject().(client.Object)
	var held []string
	switch o := o.(type) {
	case *v1alpha1.EtcdCluster:
		return []string{words(t, o.Status)}
	case *v1alpha1.RedisCluster:
		return []string{words(t, o.Status)}
	case *appsv1.StatefulSet:
		delete(o.Annotations, manifests.AnnotationReach)
	case *corev1.ConfigMap:
		delete(o.Data, "proven")
		delete(o.Data, "transport")
		held = contents("ConfigMap "+o.Name, o.Data)
	case *corev1.Secret:
		held = contents("Secret "+o.Name, o.Data)
	}
	if !same {
		held = nil
	}
	return append(held, likeness(kind, o))
}

func contents[V string | []byte](of string, data map[string]V) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		out = append(out, fmt.Sprintf("%s %s: %x", of, key, sha256.Sum256([]byte(data[key]))))
	}
	return out
}

// words are what a status says.
func words(t *testing.T, status any) string {
	t.Helper()
	u := decode[map[string]any](t, status)
	for _, key := range []string{"observedGeneration", "members", "leader", "shards"} {
		delete(u, key) // What servers are doing at the moment is none of it.
	}
	conditions, _ := u["conditions"].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			delete(c, "observedGeneration")
		}
	}
	return "status: " + times.ReplaceAllString(random.ReplaceAllString(fmt.Sprint(u), "#"), "then")
}

// strangers are the objects whose kinds come with other operators.
func strangers(t *testing.T, s scene) []string {
	t.Helper()
	var out []string
	for _, kind := range []apischema.GroupVersionKind{kube.PodMonitorKind, owned.CertificateKind} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := api(s).List(t.Context(), list); err != nil {
			continue // Nobody has made one.
		}
		for i := range list.Items {
			out = append(out, likeness(kind.Kind, &list.Items[i]))
		}
	}
	return out
}

// apart are the beginnings of what two lists have not in common.
func apart(a, b []string) string {
	var out []string
	for _, lists := range [][2][]string{{a, b}, {b, a}} {
		for _, text := range lists[0] {
			if name, _, _ := strings.Cut(text, ":"); !slices.Contains(lists[1], text) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// trial is a cluster at rest on which values of a leaf are tried.
type trial struct {
	tried
	t    *testing.T
	s    scene
	leaf schema.Leaf
	base schema.Object
	// ready says that it was Ready, before is what there was, and like what it looked like.
	ready        bool
	before, like []string
}

// try sets the leaf to a value, and back. It returns what the value changed.
func (k *trial) try(v schema.Value) string {
	k.t.Helper()
	o, err := v.In(k.leaf, k.base)
	if err != nil {
		k.t.Fatal(err)
	}
	k.specify(k.t, k.s, o["spec"])
	k.rest(k.t, k.s)
	k.observed(v)
	changed := apart(k.before, traces(k.t, k.s, true))
	k.sound()
	k.specify(k.t, k.s, k.base["spec"])
	k.rest(k.t, k.s)
	k.sound()
	if _, lasts := said(k.lasting, k.leaf); lasts {
		*k = *k.begin(k.t, k.leaf, nil)
		return changed
	}
	if k.ready != k.isReady(k.s) {
		k.t.Errorf("%s: Ready was %t before, and is not again", v.Name, k.ready)
	}
	if diff := cmp.Diff(k.like, shape(k.s.Line().Past)); diff != "" {
		k.t.Errorf("%s, and back (-before +after):\n%s", v.Name, diff)
	}
	return changed
}

// said is what is said of a leaf, and whether anything is.
func said(words map[string]string, l schema.Leaf) (string, bool) {
	for beginning, text := range words {
		if strings.HasPrefix(l.Path, beginning) {
			return text, true
		}
	}
	return "", false
}

func (k *trial) sound() {
	k.t.Helper()
	if k.ready {
		k.s.Sound()
	}
}

// observed fails the test when the status is of another specification.
func (k *trial) observed(v schema.Value) {
	k.t.Helper()
	o := k.cluster(k.s)
	generation := int64(0)
	switch o := o.(type) {
	case *v1alpha1.EtcdCluster:
		generation = o.Status.ObservedGeneration
	case *v1alpha1.RedisCluster:
		generation = o.Status.ObservedGeneration
	}
	if generation != o.GetGeneration() {
		k.t.Errorf("%s: the status is of generation %d, and the specification of %d", v.Name, generation, o.GetGeneration())
	}
}

// begin makes a cluster with what the leaf needs beside it, and with a value of it, nil: without.
func (k tried) begin(t *testing.T, l schema.Leaf, v *schema.Value) *trial {
	t.Helper()
	base, err := l.Base("default")
	if err != nil {
		t.Fatal(err)
	}
	if v != nil {
		if base, err = v.In(l, base); err != nil {
			t.Fatal(err)
		}
	}
	spec, _ := base["spec"].(schema.Object)
	out := &trial{tried: k, t: t, s: k.from(t, spec), leaf: l, base: base}
	k.rest(t, out.s)
	if out.ready = k.isReady(out.s); out.ready && v == nil {
		k.serve(out.s)
		k.rest(t, out.s)
	}
	out.before, out.like = traces(t, out.s, true), shape(out.s.Line().Past)
	return out
}

// made is what a cluster comes to that is made with a value of a leaf, nil: without, and is then given what the leaf acts on.
func (k tried) made(t *testing.T, l schema.Leaf, v *schema.Value) []string {
	t.Helper()
	p := k.begin(t, l, v)
	if text, ok := said(k.beside, l); ok {
		then, err := schema.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		k.specify(t, p.s, schema.Overlay(p.base, schema.Object{"spec": then})["spec"])
		k.rest(t, p.s)
	}
	return traces(t, p.s, false)
}

// serve has a client write something that must not be lost.
func (k tried) serve(s scene) {
	switch s := s.(type) {
	case *Etcd:
		s.acknowledge()
	case *Redis:
		s.Write()
	}
}

// Every field does something, whatever it is set to nothing is lost, and setting it back undoes it.
func everyField(t *testing.T, k tried) {
	t.Helper()
	outcomes, err := schema.ReadOutcomes()
	if err != nil {
		t.Fatal(err)
	}
	leaves, err := schema.Leaves(crds(t))
	if err != nil {
		t.Fatal(err)
	}
	leaves = slices.DeleteFunc(leaves, func(l schema.Leaf) bool {
		_, no := said(k.unplayed, l)
		return l.Kind != k.kind || l.Closed() || no
	})
	step := Stride(t)
	if step > 1 {
		step *= k.sparse
	}
	var ran, all, good atomic.Int32
	t.Run("fields", func(t *testing.T) {
		for i, l := range leaves {
			valid, hostile, create, err := outcomes.Of(l)
			if err != nil {
				t.Fatal(err)
			}
			points := int32(len(valid) + len(hostile) + len(create))
			all.Add(points)
			if points == 0 || i%step != 0 {
				continue
			}
			t.Run(strings.TrimPrefix(l.Path, "spec."), func(t *testing.T) {
				t.Parallel()
				ran.Add(points)
				k.field(t, l, valid, hostile, create)
				if !t.Failed() {
					good.Add(points)
				}
			})
		}
	})
	t.Logf("points of %s: %d of %d, %d passed", t.Name(), ran.Load(), all.Load(), good.Load())
}

// field tries the values of a leaf.
func (k tried) field(t *testing.T, l schema.Leaf, valid, hostile, create []schema.Value) {
	t.Helper()
	changed := map[string]string{}
	p := k.begin(t, l, nil)
	for _, v := range valid {
		changed[v.Name] = p.try(v)
	}
	for _, v := range hostile {
		p.try(v)
	}
	if _, ok := said(k.beside, l); ok {
		create = append(create, valid...)
	}
	if len(create) > 0 {
		reference := k.made(t, l, nil)
		for _, v := range create {
			changed[v.Name] += apart(reference, k.made(t, l, &v))
		}
	}
	alive := false
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		t.Logf("%s changes %q", name, changed[name])
		alive = alive || changed[name] != ""
	}
	why, known := said(k.idle, l)
	switch {
	case len(changed) == 0:
	case !alive && !known:
		t.Errorf("%s is a dead field: no value of it changes anything", l)
	case alive && known:
		t.Errorf("%s is said to do nothing (%s), and does something", l, why)
	}
}

func TestEtcdFieldsDoSomethingAndCanBeSetBack(t *testing.T) {
	t.Parallel()
	everyField(t, etcdTried())
}

func TestRedisFieldsDoSomethingAndCanBeSetBack(t *testing.T) {
	t.Parallel()
	everyField(t, redisTried())
}

func crds(t *testing.T) string {
	t.Helper()
	dir, err := repository.File(crdDir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
