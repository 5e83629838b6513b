package controllersim

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/schema"
)

// drift is something that somebody else does to an object of ours.
type drift struct {
	kind apischema.GroupVersionKind
	key  types.NamespacedName
	// path is where, in the words of managed fields: "f:spec", `k:{"port":2379}`; none: it is the object that is deleted.
	path []string
	// change makes the new value of the old one, and says whether there is one.
	how    string
	change func(old any) (any, bool)
	// stays says that what is done is no field of ours, and for us to leave alone.
	stays bool
}

func (d drift) String() string {
	return strings.Join(slices.Concat([]string{d.how, d.kind.Kind, d.key.Name}, d.path), " ")
}

// alter changes a value somewhere in an object.
func alter(at any, path []string, change func(any) (any, bool)) (any, bool) {
	if len(path) == 0 {
		return change(at)
	}
	if name, ok := strings.CutPrefix(path[0], "f:"); ok {
		fields, _ := at.(map[string]any)
		if fields == nil {
			fields = map[string]any{}
		}
		if value, keep := alter(fields[name], path[1:], change); keep {
			fields[name] = value
		} else {
			delete(fields, name)
		}
		return fields, len(fields) > 0
	}
	items, _ := at.([]any)
	i := itemOf(items, path[0])
	if i < 0 {
		return at, true
	}
	value, keep := alter(items[i], path[1:], change)
	if keep {
		items[i] = value
		return items, true
	}
	return slices.Delete(items, i, i+1), true
}

// itemOf finds the item of a list that a key is of.
func itemOf(items []any, key string) int {
	var want map[string]any
	if json.Unmarshal([]byte(strings.TrimPrefix(key, "k:")), &want) != nil {
		return -1
	}
	return slices.IndexFunc(items, func(item any) bool {
		fields, _ := item.(map[string]any)
		for k, v := range want {
			if fmt.Sprint(fields[k]) != fmt.Sprint(v) {
				return false
			}
		}
		return true
	})
}

// applied are the paths of the fields that the operator has applied, and those of the items of lists.
func applied(o *unstructured.Unstructured) [][]string {
	var out [][]string
	for _, m := range o.GetManagedFields() {
		var fields map[string]any
		if m.Manager == cluster.ManagedBy && m.Subresource == "" && json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) == nil {
			out = append(out, leavesOf(fields, nil)...)
		}
	}
	slices.SortFunc(out, slices.Compare[[]string])
	return slices.CompactFunc(out, slices.Equal[[]string])
}

func leavesOf(fields map[string]any, path []string) [][]string {
	var out [][]string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		// With another key, it is an item of somebody else.
		isKey := len(path) > 0 && strings.Contains(path[len(path)-1], strings.Replace(name, "f:", `"`, 1)+`":`)
		if name == "." || strings.HasPrefix(name, "v:") || isKey {
			continue
		}
		below, _ := fields[name].(map[string]any)
		here := append(slices.Clone(path), name)
		deeper := leavesOf(below, here)
		if len(deeper) == 0 || strings.HasPrefix(name, "k:") {
			out = append(out, here)
		}
		out = append(out, deeper...)
	}
	return out
}

// other is another value of the same kind.
func other(old any) (any, bool) {
	switch v := old.(type) {
	case string:
		if strings.Trim(v, "0123456789") == "" || strings.HasSuffix(v, "i") {
			return "7", true
		}
		return "drifted7", true // It is a name, and base64 as well.
	case bool:
		return !v, true
	case int64:
		return v + 1, true
	case float64:
		return v + 1, true
	case map[string]any:
		v["drifted"] = "yes"
		return v, true
	case []any:
		if len(v) > 0 {
			return v[:len(v)-1], true
		}
	}
	return old, true
}

func none(any) (any, bool) { return nil, false }

// fixed are the fields that the API server lets nobody change.
var fixed = []string{
	"StatefulSet f:spec f:selector", "StatefulSet f:spec f:serviceName", "StatefulSet f:spec f:podManagementPolicy",
	"StatefulSet f:spec f:volumeClaimTemplates", "Secret f:type", "Service f:spec f:clusterIP",
}

// remembered is what only the operator knows, and has from nowhere else.
var remembered = []string{"ConfigMap f:data f:verdict"}

// drifts are all that somebody may do to an object of ours.
func drifts(kind apischema.GroupVersionKind, o *unstructured.Unstructured) []drift {
	key := client.ObjectKeyFromObject(o)
	out := []drift{{kind: kind, key: key, how: "delete"}}
	for _, path := range applied(o) {
		d := drift{kind: kind, key: key, path: path, how: "change", change: other}
		if slices.ContainsFunc(slices.Concat(fixed, remembered), func(f string) bool { return strings.HasPrefix(kind.Kind+" "+strings.Join(path, " "), f) }) {
			continue
		}
		if !strings.HasPrefix(path[len(path)-1], "k:") {
			out = append(out, d)
		}
		d.how, d.change = "remove", none
		out = append(out, d)
	}
	also := map[string][]string{
		"label": {"f:metadata", "f:labels", "f:example.com/theirs"}, "annotation": {"f:metadata", "f:annotations", "f:example.com/theirs"},
	}
	if kind.Kind == "Secret" { // What a ConfigMap holds are files of servers, and none is of somebody else.
		also["data"] = []string{"f:data", "f:theirs"}
	}
	for _, what := range slices.Sorted(maps.Keys(also)) {
		out = append(out, drift{
			kind: kind, key: key, path: also[what], how: "add", stays: true,
			change: func(any) (any, bool) { return "drifted7", true },
		})
	}
	return out
}

// live reads an object, nil when there is none.
func live(t *testing.T, s scene, kind apischema.GroupVersionKind, key types.NamespacedName) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	if err := api(s).Get(t.Context(), key, u); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	} else if err != nil {
		return nil
	}
	return u
}

// happens does it, and reports whether anything has changed.
func (d drift) happens(t *testing.T, s scene, u *unstructured.Unstructured) bool {
	t.Helper()
	changed := u.DeepCopy()
	if d.path == nil {
		s.(player).Drop(u) //nolint:forcetypeassert // All stages are.
	} else if alter(changed.Object, d.path, d.change); cmp.Equal(changed.Object, u.Object) {
		return false
	} else if err := api(s).Update(t.Context(), changed); err != nil {
		t.Fatalf("%s: %v", d, err)
	}
	s.(player).later() //nolint:forcetypeassert // All stages are.
	if d.kind == kube.PodMonitorKind {
		s.Restart() // The former one looks at it from time to time.
	}
	return true
}

// player is a stage on which things drift.
type player interface {
	// Drop deletes an object with what Kubernetes deletes along.
	Drop(o client.Object)
	// later is when the operator has forgotten what it remembered of Secrets.
	later()
}

// drifted is a cluster at rest, on which one thing after the other drifts.
type drifted struct {
	tried
	t *testing.T
	s scene
}

// children are the objects that the cluster controls.
func (k drifted) children() map[apischema.GroupVersionKind][]*unstructured.Unstructured {
	k.t.Helper()
	p := k.s.Line().Past
	p.CatchUp()
	out := map[apischema.GroupVersionKind][]*unstructured.Unstructured{}
	for _, name := range slices.Sorted(maps.Keys(p.Watches)) {
		for _, o := range slices.SortedFunc(maps.Values(p.Present[name]), fakeapi.CompareNames) {
			kind, err := apiutil.GVKForObject(o, api(k.s).Scheme())
			if err != nil {
				k.t.Fatal(err)
			}
			if metav1.IsControlledBy(o, k.cluster(k.s)) {
				out[kind] = append(out[kind], live(k.t, k.s, kind, client.ObjectKeyFromObject(o)))
			}
		}
	}
	monitors := &unstructured.UnstructuredList{}
	monitors.SetGroupVersionKind(kube.PodMonitorKind)
	if err := api(k.s).List(k.t.Context(), monitors); err != nil {
		k.t.Fatal(err)
	}
	for i := range monitors.Items {
		out[kube.PodMonitorKind] = append(out[kube.PodMonitorKind], &monitors.Items[i])
	}
	return out
}

// picture is what the children look like.
func (k drifted) picture() []string {
	k.t.Helper()
	var out []string
	for kind, objects := range k.children() {
		for _, o := range objects {
			var typed client.Object = o
			if kind.Kind == "Secret" {
				typed = k.s.Line().Past.Present[kind.Kind][client.ObjectKeyFromObject(o)]
			}
			out = append(out, rewritten.Replace(former.ReplaceAllString(likeness(kind.Kind, typed), "")))
		}
	}
	slices.Sort(out)
	return out
}

// rewritten is the record of a cluster that was written anew from what its members say.
var rewritten = strings.NewReplacer("bootstrap:recovered", "bootstrap:new")

// pods are those that there are.
func (k drifted) pods() map[string]types.UID {
	out := map[string]types.UID{}
	for key, o := range k.s.Line().Past.Present["Pod"] {
		out[key.Name] = o.GetUID()
	}
	return out
}

// said is what the status says to people.
func (k drifted) said() string {
	k.t.Helper()
	o, ok := k.cluster(k.s).(owned.Owner)
	if !ok {
		k.t.Fatal("it has no conditions")
	}
	var out []string
	for _, c := range o.GetConditions() {
		out = append(out, c.Message)
	}
	return strings.Join(out, "; ")
}

// bear has something drift, and wants it to be put back, or to be left alone when it is not ours. Where only a human can tell what is right
// the status names the object, and once he has put it back all is as before. It reports whether there was anything to bear.
func (k drifted) bear(d drift) bool {
	k.t.Helper()
	before, pods, was := k.picture(), k.pods(), live(k.t, k.s, d.kind, d.key)
	if was == nil {
		k.t.Fatalf("%s: it is not there", d)
	}
	if !d.happens(k.t, k.s, was) {
		return false
	}
	k.rest(k.t, k.s)
	k.s.Sound()
	if d.stays {
		k.takeAway(d)
	}
	if d.among(k.asks) {
		if said := k.said(); !regexp.MustCompile(d.kind.Kind + " (default/)?" + d.key.Name + `\b`).MatchString(said) {
			k.t.Errorf("%s: the status does not name it: %q", d, said)
		}
		k.putBack(was)
		k.rest(k.t, k.s)
		k.s.Sound()
	}
	if !k.isReady(k.s) {
		k.t.Errorf("%s: it is not Ready: %s", d, k.said())
	}
	if diff := cmp.Diff(before, k.picture()); diff != "" {
		k.t.Errorf("%s (-before +after):\n%s", d, diff)
	}
	if !d.among(k.restarts) {
		if diff := cmp.Diff(pods, k.pods()); diff != "" {
			k.t.Errorf("%s restarts pods (-before +after):\n%s", d, diff)
		}
	}
	return true
}

// among tells whether such drifts are listed, by the beginning of what they are.
func (d drift) among(all map[string]string) bool {
	text := strings.Join(append([]string{d.kind.Kind, d.key.Name}, d.path...), " ")
	for beginning := range all {
		if how, what, _ := strings.Cut(beginning, " "); (how == d.how || how == "any") && glob(what, text) {
			return true
		}
	}
	return false
}

// glob matches the beginning of a text: a star stands for anything.
func glob(pattern, text string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")).MatchString(text)
}

// takeAway undoes what was added, which has to be there still.
func (k drifted) takeAway(d drift) {
	k.t.Helper()
	u := live(k.t, k.s, d.kind, d.key)
	there := false
	alter(u.Object, d.path, func(old any) (any, bool) {
		there = old != nil
		return nil, false
	})
	if !there {
		k.t.Errorf("%s: it is gone, and was not ours", d)
	}
	if err := api(k.s).Update(k.t.Context(), u); err != nil {
		k.t.Fatal(err)
	}
	k.s.(player).later() //nolint:forcetypeassert // All stages are.
	k.rest(k.t, k.s)
}

// putBack brings an object into a former state.
func (k drifted) putBack(was *unstructured.Unstructured) {
	k.t.Helper()
	was = was.DeepCopy()
	was.SetManagedFields(nil)
	if was.GroupVersionKind() == kube.PodMonitorKind {
		k.s.Restart()
	}
	now := live(k.t, k.s, was.GroupVersionKind(), client.ObjectKeyFromObject(was))
	var err error
	if now == nil {
		was.SetResourceVersion("")
		err = api(k.s).Create(k.t.Context(), was)
	} else {
		was.SetResourceVersion(now.GetResourceVersion())
		err = api(k.s).Update(k.t.Context(), was)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.s.(player).later() //nolint:forcetypeassert // All stages are.
}

// watched is a cluster that is read by Prometheus, at rest.
func (k tried) watched(t *testing.T) drifted {
	t.Helper()
	leaves, err := schema.Leaves(crds(t))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(leaves, func(l schema.Leaf) bool { return l.String() == k.kind+" spec.monitoring.podMonitor.enabled" })
	p := k.begin(t, leaves[i], &schema.Value{Of: true})
	k.serve(p.s)
	k.rest(t, p.s)
	if !k.isReady(p.s) {
		t.Fatalf("it is not Ready: %s", drifted{k, t, p.s}.said())
	}
	return drifted{k, t, p.s}
}

// everyDrift has every field that the operator applies drift, and every object be deleted.
func everyDrift(t *testing.T, k tried) {
	t.Helper()
	var ran, all, good atomic.Int32
	step := Stride(t)
	if step > 1 {
		step *= k.sparse
	}
	children := k.watched(t).children()
	kinds := slices.SortedFunc(maps.Keys(children), func(a, b apischema.GroupVersionKind) int { return strings.Compare(a.Kind, b.Kind) })
	t.Run("of", func(t *testing.T) {
		for _, kind := range kinds {
			for _, o := range children[kind] {
				t.Run(kind.Kind+" "+o.GetName(), func(t *testing.T) {
					t.Parallel()
					some := drifts(kind, o)
					all.Add(int32(len(some)))
					now := k.watched(t)
					for i := len(t.Name()) % min(step, len(some)); i < len(some); i += step {
						if !(drifted{k, t, now.s}).bear(some[i]) {
							all.Add(-1) // It has no other value.
							continue
						}
						ran.Add(1)
						if t.Failed() {
							now = k.watched(t)
							continue
						}
						good.Add(1)
					}
				})
			}
		}
	})
	t.Logf("points of %s: %d of %d, %d passed", t.Name(), ran.Load(), all.Load(), good.Load())
}

func TestEtcdObjectsThatDriftArePutBack(t *testing.T) {
	t.Parallel()
	everyDrift(t, etcdTried())
}

func TestRedisObjectsThatDriftArePutBack(t *testing.T) {
	t.Parallel()
	everyDrift(t, redisTried())
}
