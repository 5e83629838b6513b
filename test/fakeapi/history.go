package fakeapi

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
	"github.com/quorate/quorate/controllers/kubecache"
)

// has reports whether the owner of an object is still there.
func (p *History) has(o client.Object, r metav1.OwnerReference) bool {
	for key, have := range p.Present[r.Kind] {
		if key.Namespace == o.GetNamespace() && key.Name == r.Name && (have.GetUID() == r.UID || r.UID == "") {
			return true
		}
	}
	return false
}

// History is all that happened to the objects of the kinds that the manager has in its cache.
type History struct {
	mu sync.Mutex
	// API is the API server as users reach it.
	API     client.Client
	Watches map[string]watch.Interface
	// events of each kind, in order, and seq is how many there were of all.
	events map[string][]Event
	seq    int
	// Present is what there is now.
	Present map[string]map[types.NamespacedName]client.Object
	// ours are the labels of what the cache holds of a kind; none: it holds all.
	ours map[string]labels.Selector
}

// Event is a change of an object, which is nil when it was deleted. at is its number among those of all kinds.
type Event struct {
	at     int
	Typ    watch.EventType
	Kind   string
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

// newHistory begins with what there is.
func newHistory(t *testing.T, api client.WithWatch) *History {
	t.Helper()
	p := &History{
		Watches: map[string]watch.Interface{}, events: map[string][]Event{}, Present: map[string]map[types.NamespacedName]client.Object{},
		ours: map[string]labels.Selector{},
	}
	for o, how := range kubecache.Options(nil).ByObject {
		if how.Label != nil {
			p.ours[KindOf(o)] = how.Label
		}
	}
	for _, list := range append(cached(), &corev1.SecretList{}) {
		kind := KindOf(list)
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
		if p.Watches[kind], err = api.Watch(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// CatchUp takes over what has happened.
func (p *History) CatchUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for kind, w := range p.Watches {
		for len(w.ResultChan()) > 0 {
			e := <-w.ResultChan()
			p.happened(kind, e.Type, e.Object)
		}
	}
}

func (p *History) happened(kind string, typ watch.EventType, object runtime.Object) {
	o, ok := object.(client.Object)
	if !ok {
		panic(fmt.Sprintf("a %T happened to a %s", object, kind))
	}
	if n := len(p.events[kind]); n > 0 && typ == watch.Modified {
		if last := &p.events[kind][n-1]; last.Typ == watch.Added && unfinished(last.object) && last.key == client.ObjectKeyFromObject(o) {
			o.SetManagedFields(nil)
			last.object, p.Present[kind][last.key] = o, o
			return
		}
	}
	p.seq++
	e := Event{at: p.seq, Typ: typ, Kind: kind, key: client.ObjectKeyFromObject(o), object: o}
	if p.Present[kind] == nil {
		p.Present[kind] = map[types.NamespacedName]client.Object{}
	}
	p.Present[kind][e.key] = o
	if typ == watch.Deleted {
		e.object = nil
		delete(p.Present[kind], e.key)
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

// Now is the number of the last event.
func (p *History) Now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// Births are the creations and deletions behind the n-th event that make a difference. What is made for an owner that is gone does not, which
// nobody can rule out and Kubernetes takes away; nor does the end of a pod that has never run.
func (p *History) Births(n int) []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Event
	for _, events := range p.events {
		for i := len(events) - 1; i >= 0 && events[i].at > n; i-- {
			switch e := events[i]; {
			case e.Typ == watch.Added && p.Orphaned(e.object), e.Typ == watch.Deleted && neverRan(before(events[:i], e.key)):
			case e.Typ != watch.Modified:
				out = append(out, e)
			}
		}
	}
	return out
}

// Orphaned reports whether an object has owners, and all of them are gone.
func (p *History) Orphaned(o client.Object) bool {
	refs := o.GetOwnerReferences()
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return p.has(o, r) })
}

// before is what there was last of an object.
func before(events []Event, key types.NamespacedName) client.Object {
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

// State is what a cache shows of a kind after the n-th event, in the order of the names.
func (p *History) State(kind string, n int) []client.Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.Present[kind]
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
	slices.SortFunc(out, CompareNames)
	return out
}

// CompareNames orders objects by name.
func CompareNames(a, b client.Object) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// Client reads what is in the cache from there.
func (p *History) Client(api client.WithWatch) client.WithWatch {
	v := View{Past: p}
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if v.Shows(o) {
				return v.Get(key, o)
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if v.Shows(list) {
				return v.List(list, opts...)
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// View is what the cache of an operator shows.
type View struct {
	Past *History
	// Behind says of kinds how many events the cache has heard of; what is missing is up to date.
	Behind map[string]int
}

// Freeze stops the cache where it was n events ago, for some kinds or, without any, for all.
func (v *View) Freeze(n int, kinds ...string) {
	at := max(0, v.Past.Now()-n)
	if len(kinds) == 0 {
		for _, list := range cached() {
			kinds = append(kinds, KindOf(list))
		}
	}
	v.Behind = map[string]int{}
	for _, kind := range kinds {
		v.Behind[kind] = at
	}
}

// Thaw lets the cache hear of everything.
func (v *View) Thaw() { v.Behind = nil }

// Shows reports whether objects of this kind are in the cache.
func (v *View) Shows(o runtime.Object) bool {
	if v.Past == nil {
		return false
	}
	kind := KindOf(o)
	_, ok := v.Past.Watches[kind]
	_, typed := o.(interface{ UnstructuredContent() map[string]any })
	return ok && !typed && kind != "Secret"
}

func (v *View) state(kind string) []client.Object {
	v.Past.CatchUp()
	n, old := v.Behind[kind]
	if !old {
		n = v.Past.Now()
	}
	return v.Past.State(kind, n)
}

// Get reads an object as the cache shows it.
func (v *View) Get(key client.ObjectKey, o client.Object) error {
	kind := KindOf(o)
	for _, have := range v.state(kind) {
		if client.ObjectKeyFromObject(have) == key {
			reflect.ValueOf(o).Elem().Set(reflect.ValueOf(have.DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
}

// List reads objects as the cache shows them.
func (v *View) List(list client.ObjectList, opts ...client.ListOption) error {
	how := client.ListOptions{}
	how.ApplyOptions(opts)
	if how.FieldSelector != nil {
		return fmt.Errorf("the cache has no index for %s", how.FieldSelector)
	}
	out := []runtime.Object{}
	for _, o := range v.state(KindOf(list)) {
		if (how.Namespace == "" || how.Namespace == o.GetNamespace()) &&
			(how.LabelSelector == nil || how.LabelSelector.Matches(labels.Set(o.GetLabels()))) {
			out = append(out, o.DeepCopyObject())
		}
	}
	return meta.SetList(list, out)
}

// Another reports whether what has the name of an object is not the one that is to be deleted.
func (p *History) Another(o client.Object, how *client.DeleteOptions) bool {
	live := p.Present[KindOf(o)][client.ObjectKeyFromObject(o)]
	return live == nil || (how.Preconditions != nil && how.Preconditions.UID != nil && *how.Preconditions.UID != live.GetUID())
}
