package controllers

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// The decisions that are made on cached objects, by the function. Each takes the object whole and
// as the cache holds it.
var (
	decisionsOnPods = map[string]func(*corev1.Pod) any{
		"podState": func(p *corev1.Pod) any {
			s := podState(p)
			return s
		},
		"running":    func(p *corev1.Pod) any { return running(p) },
		"gateReport": func(p *corev1.Pod) any { return gateReport(p) },
		"oldRevision": func(p *corev1.Pod) any {
			return oldRevision(p, &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{UpdateRevision: "x"}})
		},
		"podOf":       func(p *corev1.Pod) any { return podOf(p, 0, 0) },
		"ResizeOf":    func(p *corev1.Pod) any { return kube.ResizeOf(p, redis.ContainerServer) },
		"stuck":       func(p *corev1.Pod) any { return stuck(p) },
		"unpulled":    func(p *corev1.Pod) any { return unpulled(p) },
		"startedWith": func(p *corev1.Pod) any { return startedWith([]corev1.Pod{*p}, 1, "x", "x") },
		"jobState":    func(p *corev1.Pod) any { return jobState(&batchv1.Job{}, []corev1.Pod{*p}, time.Unix(1<<30, 0)) },
		"podsOf": func(p *corev1.Pod) any {
			return len(podsOf(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "x"}}, []corev1.Pod{*p}))
		},
		"cordoned":    func(p *corev1.Pod) any { return cordoned(logr.Discard(), taintedNode(), p.Spec.Tolerations) },
		"suits":       func(p *corev1.Pod) any { return suits(p, nil, taintedNode()) },
		"nodeAddress": func(p *corev1.Pod) any { return []string{p.Status.HostIP, p.Spec.NodeName} },
		"has":         func(p *corev1.Pod) any { return []bool{hashes{current: "x"}.has(p), hashes{}.has(p)} },
		"left":        func(p *corev1.Pod) any { return left(lateCluster(), p) },
		"siblingOn":   func(p *corev1.Pod) any { return siblings(p) },
		"foundNoNode": func(p *corev1.Pod) any { return unscheduled(p) },
	}
	decisionsOnNodes = map[string]func(*corev1.Node) any{
		"cordoned":     func(n *corev1.Node) any { return cordoned(logr.Discard(), n, nil) },
		"outOfService": func(n *corev1.Node) any { return outOfService(n) },
		"suits": func(n *corev1.Node) any {
			return suits(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"x": "x"}}}, nil, n)
		},
		"selects": func(n *corev1.Node) any {
			return selects(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}}},
			}}}, n)
		},
		"nodeAddress":   func(n *corev1.Node) any { return n.Status.Addresses },
		"roomElsewhere": func(n *corev1.Node) any { return []any{n.Name, n.Status.Allocatable} },
	}
	decisionsOnSets = map[string]func(*appsv1.StatefulSet) any{
		"storage":     func(s *appsv1.StatefulSet) any { return storage(nil, s) },
		"keepsClaims": func(s *appsv1.StatefulSet) any { return keepsClaims(s) },
		"overdue":     func(s *appsv1.StatefulSet) any { return overdue(s, time.Unix(1<<30, 0)) },
		"oldRevision": func(s *appsv1.StatefulSet) any { return oldRevision(&corev1.Pod{}, s) },
		"firstReach":  func(s *appsv1.StatefulSet) any { return firstReach(etcdCluster(), s) },
		"condemned": func(s *appsv1.StatefulSet) any {
			return condemned(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", UID: "x"}}}}, s)
		},
		"scaledKeyOf":    func(s *appsv1.StatefulSet) any { return scaledKeyOf(s) },
		"StorageChanged": func(s *appsv1.StatefulSet) any { return redis.StorageChanged(redisCluster().Spec.Storage, s) },
		"Set":            func(s *appsv1.StatefulSet) any { return shardSet(s) },
		"observeObjects": func(s *appsv1.StatefulSet) any {
			v, _ := etcd.ParseVersion(s.Spec.Template.Annotations[v1alpha1.AnnotationVersion])
			return []any{s.UID, s.CreationTimestamp, s.Spec.Replicas, v, s.Spec.Template.Annotations[v1alpha1.AnnotationVersion]}
		},
		"left":        func(s *appsv1.StatefulSet) any { return left(lateCluster(), s) },
		"fingerprint": func(s *appsv1.StatefulSet) any { return fingerprint(s) },
	}
	decisionsOnClaims = map[string]func(*corev1.PersistentVolumeClaim) any{
		"claimState": func(c *corev1.PersistentVolumeClaim) any { return claimState(c) },
		"condemned":  func(c *corev1.PersistentVolumeClaim) any { return condemned(c, nil) },
	}
	decisionsOnJobs = map[string]func(*batchv1.Job) any{
		"jobState": func(j *batchv1.Job) any { return jobState(j, nil, time.Unix(1<<30, 0)) },
		"podless":  func(j *batchv1.Job) any { return podless(j, nil) },
		"podsOf": func(j *batchv1.Job) any {
			ref := metav1.OwnerReference{UID: "x", Controller: ptr.To(true)}
			return len(podsOf(j, []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{ref}}}}))
		},
	}
	decisionsOnBudgets = map[string]func(*policyv1.PodDisruptionBudget) any{
		"guarded": func(b *policyv1.PodDisruptionBudget) any { return b.Spec.MaxUnavailable },
	}
	// decidedBy names the decisions above that a function makes. Others read objects, ask servers,
	// or write.
	decidedBy = map[string][]string{
		"agreedBefore": {"podState"}, "hasPort": {"podState"}, "podReady": {"podOf"}, "readySince": {"podOf"}, "hasRun": {"podOf"}, "startOf": {"podState"},
		"cannotRun": {"podOf"}, "stuckIn": {"podOf"}, "heldUntil": {"podOf"}, "fatalStart": {"podState"}, "unreadySince": {"podOf"}, "startedAt": {"podOf"},
		"endedBy": {"podOf"}, "gateRemark": {"podOf"}, "hashes": {"has"}, "observeResize": {"ResizeOf", "has"}, "moveOrWait": {"suits", "cordoned"},
		"cordon": {"cordoned"}, "endHeld": {"jobState"}, "versionsInUse": {"podState"}, "claims": {"condemned", "claimState"}, "pods": {"podState"},
		"askMembers": {"running"}, "findLosses": {"podOf"}, "correctSize": {"scaledKeyOf"}, "ownsPod": {"left"}, "podsOfSets": {"left"},
		"roomElsewhere": {"suits", "cordoned"}, "client": {"running"}, "flow": {"running"}, "volumeOf": {"claimState"}, "observeCertificates": {"startedWith"},
		"heldBack": {"podOf"}, "observeClaims": {"condemned", "claimState"}, "besideOthers": {"siblingOn", "suits", "cordoned"},
		"stranded": {"foundNoNode", "siblingOn", "suits", "cordoned"}, "observeStranded": {"foundNoNode", "siblingOn", "suits", "cordoned"},
	}
)

// siblings returns what siblingOn says of a pod, as the pod that looks and as the one that is found.
func siblings(p *corev1.Pod) []string {
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", OwnerReferences: []metav1.OwnerReference{{UID: "x", Controller: ptr.To(true)}}}}
	other.Spec.NodeName = "x"
	living := p.DeepCopy()
	living.DeletionTimestamp = nil
	return []string{siblingOn("x", other, []corev1.Pod{*living}), siblingOn("x", living, []corev1.Pod{*other}), siblingOn("x", other, []corev1.Pod{*p})}
}

// unscheduled returns what foundNoNode says of a pod when the scheduler found no node for it, and
// what it reads.
func unscheduled(p *corev1.Pod) []any {
	waits := p.DeepCopy()
	waits.Spec.NodeName, waits.DeletionTimestamp = "", nil
	for i := range waits.Status.Conditions {
		c := &waits.Status.Conditions[i]
		if c.Reason != "" {
			c.Type, c.Status, c.Reason = corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable
		}
	}
	return []any{foundNoNode(p), foundNoNode(waits), p.Spec.NodeName, len(p.Status.Conditions)}
}

func taintedNode() *corev1.Node {
	n := nodeWith(corev1.Taint{Key: "x", Value: "x", Effect: corev1.TaintEffectNoSchedule})
	n.Labels = map[string]string{"other": "other"}
	return n
}

func lateCluster() Object {
	o := etcdCluster()
	o.Name, o.CreationTimestamp = "x", metav1.NewTime(time.Unix(1<<31, 0))
	return o
}

func shardSet(live *appsv1.StatefulSet) any {
	out, err := redis.Builder{Cluster: redisCluster(), Owner: kube.Owner("v1", "x", "x", "x")}.Set(0, live)
	if err != nil {
		return err.Error()
	}
	out.Spec.Template = nil
	raw, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// TestACachedObjectDecidesLikeTheWholeOne sets the fields of an object one by one, and compares
// every decision on it with that on what the cache holds of it.
func TestACachedObjectDecidesLikeTheWholeOne(t *testing.T) {
	t.Parallel()
	compareDecisions(t, decisionsOnPods)
	compareDecisions(t, decisionsOnNodes)
	compareDecisions(t, decisionsOnSets)
	compareDecisions(t, decisionsOnClaims)
	compareDecisions(t, decisionsOnJobs)
	compareDecisions(t, decisionsOnBudgets)
}

func compareDecisions[O client.Object](t *testing.T, decisions map[string]func(O) any) {
	t.Helper()
	var zero O
	typ := reflect.TypeOf(zero).Elem()
	paths := leaves(typ, nil, nil)
	if len(paths) < 40 {
		t.Fatalf("%s has %d fields", typ, len(paths))
	}
	for _, container := range []string{redis.ContainerServer, redis.ContainerGate, etcd.ContainerEtcd, etcd.ContainerGate, plan.Container} {
		all := reflect.New(typ)
		for _, path := range paths {
			populate(all.Elem(), path, container)
			object := reflect.New(typ)
			populate(object.Elem(), path, container)
			compareOn(t, decisions, object.Interface(), strings.Join(path, "."))
		}
		compareOn(t, decisions, all.Interface(), "all fields")
	}
}

func compareOn[O client.Object](t *testing.T, decisions map[string]func(O) any, object any, with string) {
	t.Helper()
	whole, _ := object.(O)
	cached := inCache(t, whole)
	for name, decide := range decisions {
		if full, part := decide(whole), decide(cached); !reflect.DeepEqual(full, part) {
			t.Errorf("%s of a %T with %s decides %v, and %v on what the cache holds", name, whole, with, full, part)
		}
	}
}

// inCache returns what the cache holds of an object.
func inCache[O client.Object](t *testing.T, whole O) O {
	t.Helper()
	o := CacheOptions(nil)
	transform := o.DefaultTransform
	for of, by := range o.ByObject {
		if reflect.TypeOf(of) == reflect.TypeOf(whole) && by.Transform != nil {
			transform = by.Transform
		}
	}
	out, err := transform(whole.DeepCopyObject())
	cached, ok := out.(O)
	if err != nil || !ok {
		t.Fatalf("a %T becomes a %T: %v", whole, out, err)
	}
	return cached
}

// whole are types that are set as one value.
var whole = map[reflect.Type]any{
	reflect.TypeFor[metav1.Time]():       metav1.NewTime(time.Unix(1, 0)),
	reflect.TypeFor[metav1.MicroTime]():  metav1.NewMicroTime(time.Unix(1, 0)),
	reflect.TypeFor[resource.Quantity](): resource.MustParse("1Gi"),
	reflect.TypeFor[metav1.FieldsV1]():   metav1.FieldsV1{},
}

// leaves lists the paths to all fields of a type. A list has one element, and a map one entry.
func leaves(typ reflect.Type, path []string, above []reflect.Type) (out [][]string) {
	if slices.Contains(above, typ) {
		return nil
	}
	above = append(slices.Clip(above), typ)
	_, one := whole[typ]
	switch kind := typ.Kind(); {
	case one:
	case kind == reflect.Pointer:
		return leaves(typ.Elem(), path, above)
	case kind == reflect.Slice && typ.Elem().Kind() != reflect.Uint8, kind == reflect.Map:
		return leaves(typ.Elem(), path, above)
	case kind == reflect.Struct:
		for i := range typ.NumField() {
			if f := typ.Field(i); f.IsExported() && f.Name != "TypeMeta" {
				out = append(out, leaves(f.Type, append(slices.Clip(path), f.Name), above)...)
			}
		}
		return out
	}
	return [][]string{path}
}

// populate sets the field at a path. Containers have the given name, by which decisions find them.
func populate(v reflect.Value, path []string, container string) {
	value, one := whole[v.Type()]
	switch kind := v.Kind(); {
	case one:
		v.Set(reflect.ValueOf(value))
	case kind == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		populate(v.Elem(), path, container)
	case kind == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		populate(v.Index(0), path, container)
	case kind == reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString("x")
		populate(element, path, container)
		v.SetMapIndex(key, element)
	case kind == reflect.Struct:
		if len(path) == 0 {
			return
		}
		if name := v.FieldByName("Name"); v.Type() == reflect.TypeFor[corev1.ContainerStatus]() || v.Type() == reflect.TypeFor[corev1.Container]() {
			name.SetString(container)
		}
		populate(v.FieldByName(path[0]), path[1:], container)
	case kind == reflect.String:
		v.SetString("x")
	case kind == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	}
}

// TestEveryFunctionThatTakesACachedObjectIsCompared: a new one is either a decision above, or made
// of decisions above.
func TestEveryFunctionThatTakesACachedObjectIsCompared(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, table := range []any{decisionsOnPods, decisionsOnNodes, decisionsOnSets, decisionsOnClaims, decisionsOnJobs, decisionsOnBudgets} {
		for _, name := range reflect.ValueOf(table).MapKeys() {
			known[name.String()] = true
		}
	}
	for name, parts := range decidedBy {
		for _, part := range parts {
			if !known[part] {
				t.Errorf("%s is made of %s, which is not compared", name, part)
			}
		}
	}
	files, err := os.ReadDir(".")
	must(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		must(t, err)
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && takesCached(fn) && !known[fn.Name.Name] && decidedBy[fn.Name.Name] == nil {
				t.Errorf("%s: %s takes an object of the cache and is not compared: add it to the decisions", f.Name(), fn.Name.Name)
			}
		}
	}
}

func takesCached(fn *ast.FuncDecl) (takes bool) {
	if fn.Type.Results == nil && fn.Recv == nil {
		return false
	}
	for _, p := range fn.Type.Params.List {
		ast.Inspect(p.Type, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				of, _ := s.X.(*ast.Ident)
				cached := []string{"corev1.Pod", "corev1.Node", "corev1.PersistentVolumeClaim", "appsv1.StatefulSet", "batchv1.Job", "policyv1.PodDisruptionBudget"}
				takes = takes || (of != nil && slices.Contains(cached, of.Name+"."+s.Sel.Name))
			}
			return true
		})
	}
	return takes
}
