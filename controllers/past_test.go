package controllers

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
)

// past is all that happened to the objects of the kinds that the manager has in its cache.
type past struct {
	mu sync.Mutex
	// api is the API server as users reach it.
	api     client.Client
	watches map[string]watch.Interface
	// events of each kind, in order, and seq is how many there were of all.
	events map[string][]occurrence
	seq    int
	// present is what there is now.
	present map[string]map[types.NamespacedName]client.Object
	// ours are the labels of what the cache holds of a kind; none: it holds all.
	ours map[string]labels.Selector
}

// occurrence is a change of an object, which is nil when it was deleted. at is its number among those of all kinds.
type occurrence struct {
	at     int
	typ    watch.EventType
	kind   string
	key    types.NamespacedName
	object client.Object
}

// cached are lists of the kinds that the manager reads from its cache. It reads Secrets, and what comes without a Go type, from the API
// server.
func cached() []client.ObjectList {
	return []client.ObjectList{
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.NodeList{},
		&appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &policyv1.PodDisruptionBudgetList{}, &batchv1.JobList{},
		&v1alpha1.EtcdClusterList{}, &v1alpha1.RedisClusterList{}, &v1alpha1.EtcdUserList{}, &v1alpha1.RedisUserList{},
		&v1alpha1.BackupList{}, &v1alpha1.BackupScheduleList{}, &v1alpha1.RestoreList{},
	}
}

// newPast begins with what there is.
func newPast(t *testing.T, api client.WithWatch) *past {
	t.Helper()
	p := &past{
		watches: map[string]watch.Interface{}, events: map[string][]occurrence{}, present: map[string]map[types.NamespacedName]client.Object{},
		ours: map[string]labels.Selector{},
	}
	for o, how := range CacheOptions(nil).ByObject {
		if how.Label != nil {
			p.ours[kindOf(o)] = how.Label
		}
	}
	for _, list := range append(cached(), &corev1.SecretList{}) {
		kind := kindOf(list)
		if err := api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range items {
			p.happened(kind, watch.Added, o)
		}
		if p.watches[kind], err = api.Watch(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// catchUp takes over what has happened.
func (p *past) catchUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for kind, w := range p.watches {
		for len(w.ResultChan()) > 0 {
			e := <-w.ResultChan()
			p.happened(kind, e.Type, e.Object)
		}
	}
}

func (p *past) happened(kind string, typ watch.EventType, object runtime.Object) {
	o, ok := object.(client.Object)
	if !ok {
		panic(fmt.Sprintf("a %T happened to a %s", object, kind))
	}
	if n := len(p.events[kind]); n > 0 && typ == watch.Modified {
		if last := &p.events[kind][n-1]; last.typ == watch.Added && unfinished(last.object) && last.key == client.ObjectKeyFromObject(o) {
			o.SetManagedFields(nil)
			last.object, p.present[kind][last.key] = o, o
			return
		}
	}
	p.seq++
	e := occurrence{at: p.seq, typ: typ, kind: kind, key: client.ObjectKeyFromObject(o), object: o}
	if p.present[kind] == nil {
		p.present[kind] = map[types.NamespacedName]client.Object{}
	}
	p.present[kind][e.key] = o
	if typ == watch.Deleted {
		e.object = nil
		delete(p.present[kind], e.key)
	} else {
		o.SetManagedFields(nil)
	}
	p.events[kind] = append(p.events[kind], e)
}

// unfinished reports whether an object lacks what it gets before anybody hears of it: its UID, which the API server gives it, and as a pod its
// first status. Pods are a year old on a stage, and one that nobody has said a word about since has failed.
func unfinished(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return o.GetUID() == "" || (ok && reflect.DeepEqual(pod.Status, corev1.PodStatus{}))
}

// now is the number of the last event.
func (p *past) now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// births are the creations and deletions behind the n-th event that make a difference. What is made for an owner that is gone does not, which
// nobody can rule out and Kubernetes takes away; nor does the end of a pod that has never run.
func (p *past) births(n int) []occurrence {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []occurrence
	for _, events := range p.events {
		for i := len(events) - 1; i >= 0 && events[i].at > n; i-- {
			switch e := events[i]; {
			case e.typ == watch.Added && p.orphaned(e.object), e.typ == watch.Deleted && neverRan(before(events[:i], e.key)):
			case e.typ != watch.Modified:
				out = append(out, e)
			}
		}
	}
	return out
}

// orphaned reports whether an object has owners, and all of them are gone.
func (p *past) orphaned(o client.Object) bool {
	refs := o.GetOwnerReferences()
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return p.has(o, r) })
}

// before is what there was last of an object.
func before(events []occurrence, key types.NamespacedName) client.Object {
	for _, e := range slices.Backward(events) {
		if e.key == key {
			return e.object
		}
	}
	return nil
}

func neverRan(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && pod.Status.PodIP == "" && len(pod.Status.ContainerStatuses) == 0
}

// state is what a cache shows of a kind after the n-th event, in the order of the names.
func (p *past) state(kind string, n int) []client.Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.present[kind]
	if n < p.seq {
		have = map[types.NamespacedName]client.Object{}
		for _, e := range p.events[kind] {
			if e.at > n {
				break
			}
			if have[e.key] = e.object; e.object == nil {
				delete(have, e.key)
			}
		}
	}
	var out []client.Object
	for _, o := range have {
		if p.ours[kind] == nil || p.ours[kind].Matches(labels.Set(o.GetLabels())) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, compareNames)
	return out
}

func compareNames(a, b client.Object) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// client reads what is in the cache from there.
func (p *past) client(api client.WithWatch) client.WithWatch {
	v := view{past: p}
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if v.shows(o) {
				return v.get(key, o)
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if v.shows(list) {
				return v.list(list, opts...)
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// view is what the cache of an operator shows.
type view struct {
	past *past
	// behind says of kinds how many events the cache has heard of; what is missing is up to date.
	behind map[string]int
}

// freeze stops the cache where it was n events ago, for some kinds or, without any, for all.
func (v *view) freeze(n int, kinds ...string) {
	at := max(0, v.past.now()-n)
	if len(kinds) == 0 {
		for _, list := range cached() {
			kinds = append(kinds, kindOf(list))
		}
	}
	v.behind = map[string]int{}
	for _, kind := range kinds {
		v.behind[kind] = at
	}
}

// thaw lets the cache hear of everything.
func (v *view) thaw() { v.behind = nil }

// shows reports whether objects of this kind are in the cache.
func (v *view) shows(o runtime.Object) bool {
	if v.past == nil {
		return false
	}
	kind := kindOf(o)
	_, ok := v.past.watches[kind]
	_, typed := o.(interface{ UnstructuredContent() map[string]any })
	return ok && !typed && kind != "Secret"
}

func (v *view) state(kind string) []client.Object {
	v.past.catchUp()
	n, old := v.behind[kind]
	if !old {
		n = v.past.now()
	}
	return v.past.state(kind, n)
}

func (v *view) get(key client.ObjectKey, o client.Object) error {
	kind := kindOf(o)
	for _, have := range v.state(kind) {
		if client.ObjectKeyFromObject(have) == key {
			reflect.ValueOf(o).Elem().Set(reflect.ValueOf(have.DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
}

func (v *view) list(list client.ObjectList, opts ...client.ListOption) error {
	how := client.ListOptions{}
	how.ApplyOptions(opts)
	if how.FieldSelector != nil {
		return fmt.Errorf("the cache has no index for %s", how.FieldSelector)
	}
	out := []runtime.Object{}
	for _, o := range v.state(kindOf(list)) {
		if (how.Namespace == "" || how.Namespace == o.GetNamespace()) &&
			(how.LabelSelector == nil || how.LabelSelector.Matches(labels.Set(o.GetLabels()))) {
			out = append(out, o.DeepCopyObject())
		}
	}
	return meta.SetList(list, out)
}

// outdated is a cache that still shows an object as it was, for so many reads.
type outdated struct {
	client.Client
	old   client.Object
	reads int
}

func (c *outdated) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if reflect.TypeOf(o) != reflect.TypeOf(c.old) || key != client.ObjectKeyFromObject(c.old) {
		return c.Client.Get(ctx, key, o, opts...)
	}
	if c.reads--; c.reads < 0 {
		return c.Client.Get(ctx, key, o, opts...)
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(c.old.DeepCopyObject()).Elem())
	return nil
}

// meddled is a client beside which somebody does something right after each read.
type meddled struct {
	client.Client
	after func(client.Object)
}

func (m *meddled) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := m.Client.Get(ctx, key, o, opts...)
	m.after(o)
	return err
}
