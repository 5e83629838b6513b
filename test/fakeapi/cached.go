package fakeapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/controllers/kubecache"
)

// Decisions are functions that decide on an object of the cache, by their name.
type Decisions[O client.Object] map[string]func(O) any

// Compare sets the fields of an object one by one, and compares each decision on it with that on
// what the cache holds of it. containers are the names by which decisions find containers.
func (d Decisions[O]) Compare(t *testing.T, containers ...string) {
	t.Helper()
	var zero O
	typ := reflect.TypeOf(zero).Elem()
	paths := leaves(typ, nil, nil)
	if len(paths) < 40 {
		t.Fatalf("%s has %d fields", typ, len(paths))
	}
	for _, container := range containers {
		all := reflect.New(typ)
		for _, path := range paths {
			populate(all.Elem(), path, container)
			object := reflect.New(typ)
			populate(object.Elem(), path, container)
			d.compareOn(t, object.Interface(), strings.Join(path, "."))
		}
		d.compareOn(t, all.Interface(), "all fields")
	}
}

func (d Decisions[O]) compareOn(t *testing.T, object any, with string) {
	t.Helper()
	whole, _ := object.(O)
	cached := inCache(t, whole)
	for name, decide := range d {
		if full, part := decide(whole), decide(cached); !reflect.DeepEqual(full, part) {
			t.Errorf("%s of a %T with %s decides %v, and %v on what the cache holds", name, whole, with, full, part)
		}
	}
}

// inCache returns what the cache holds of an object.
func inCache[O client.Object](t *testing.T, whole O) O {
	t.Helper()
	o := kubecache.Options(nil)
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

// CheckCompared checks that each function of the package in the working directory that takes an
// object of the cache is one of tables, which are Decisions, or made of some of them. madeOf names
// those by the function.
func CheckCompared(t *testing.T, madeOf map[string][]string, tables ...any) {
	t.Helper()
	known := map[string]bool{}
	for _, table := range tables {
		for _, name := range reflect.ValueOf(table).MapKeys() {
			known[name.String()] = true
		}
	}
	for name, parts := range madeOf {
		for _, part := range parts {
			if !known[part] {
				t.Errorf("%s is made of %s, which is not compared", name, part)
			}
		}
	}
	for name, file := range functionsOnCached(t) {
		if !known[name] && madeOf[name] == nil {
			t.Errorf("%s: %s takes an object of the cache and is not compared: add it to the decisions", file, name)
		}
	}
}

// functionsOnCached returns the functions of the package in the working directory that take an
// object of the cache, with the file of each.
func functionsOnCached(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && takesCached(fn) {
				out[fn.Name.Name] = file
			}
		}
	}
	return out
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
		populateStruct(v, path, container)
	case kind == reflect.String:
		v.SetString("x")
	case kind == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	}
}

func populateStruct(v reflect.Value, path []string, container string) {
	if len(path) == 0 {
		return
	}
	if name := v.FieldByName("Name"); v.Type() == reflect.TypeFor[corev1.ContainerStatus]() || v.Type() == reflect.TypeFor[corev1.Container]() {
		name.SetString(container)
	}
	populate(v.FieldByName(path[0]), path[1:], container)
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
