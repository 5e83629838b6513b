package envtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/controllers/owned"

	appsv1 "k8s.io/api/apps/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
)

// While pods come and go the status of their StatefulSet changes all the time. What somebody else changes otherwise is undone by the next apply.
func TestAStatusIsNoReasonToApply(t *testing.T) {
	s, ctx := apiServer(t), testContext(t)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	inner, err := client.NewWithWatch(s.config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	applied := 0
	c := interceptor.NewClient(inner, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			applied++
			return c.Apply(ctx, o, opts...)
		},
	})
	o := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "applied"}, Spec: v1alpha1.EtcdClusterSpec{Size: 3, Version: "3.6.16"}}
	if err := c.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
	defer c.Delete(ctx, o) //nolint:errcheck // The server goes away with the tests.
	children := &owned.Client{Client: c, Direct: c, Now: time.Now}
	ref, err := children.OwnerReference(o)
	if err != nil {
		t.Fatal(err)
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
	defer c.Delete(ctx, set) //nolint:errcheck // The same.
	apply := func(why string, want int) {
		t.Helper()
		applied = 0
		labels := map[string]string{"a": "b"}
		wish := appsv1ac.StatefulSet(set.Name, set.Namespace).WithLabels(labels).WithAnnotations(labels).WithOwnerReferences(ref).WithSpec(
			appsv1ac.StatefulSetSpec().WithReplicas(3).WithServiceName("x").WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
				WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(
					corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("c").WithImage("i")))))
		if err := children.Apply(ctx, o, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}, wish); err != nil {
			t.Fatal(err)
		}
		if applied != want {
			t.Errorf("%s: it was applied %d times, want %d", why, applied, want)
		}
	}
	apply("there is none", 1)
	apply("nothing has changed", 0)
	if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	// Somebody puts another one in its place, which nothing but its UID tells apart.
	if err := c.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	other := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name, Labels: set.Labels, Annotations: set.Annotations, OwnerReferences: set.OwnerReferences},
		Spec:       set.Spec,
	}
	other.Spec.Template.Spec.Containers[0].Image = "other"
	if err := c.Create(ctx, other); err != nil {
		t.Fatal(err)
	}
	apply("another one is in its place", 1)
	if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	set.Status.Replicas, set.Status.ReadyReplicas, set.Status.ObservedGeneration = 3, 2, set.Generation
	if err := c.Status().Update(ctx, set); err != nil {
		t.Fatal(err)
	}
	apply("its status has changed", 0)
	for what, change := range map[string]func(){
		"replicas":   func() { set.Spec.Replicas = ptr.To[int32](1) },
		"template":   func() { set.Spec.Template.Spec.Containers[0].Image = "other" },
		"label":      func() { set.Labels["a"] = "c" },
		"annotation": func() { set.Annotations["a"] = "c" },
		"finalizer":  func() { set.Finalizers = []string{"example.com/hold"} },
		"further owners": func() {
			set.OwnerReferences = append(set.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "y"})
		},
	} {
		if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		change()
		if err := c.Update(ctx, set); err != nil {
			t.Fatal(err)
		}
		apply(what, 1)
		apply(what+", again", 0)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	if *set.Spec.Replicas != 3 || set.Spec.Template.Spec.Containers[0].Image != "i" || set.Labels["a"] != "b" || set.Annotations["a"] != "b" {
		t.Errorf("not all was undone: %+v", set)
	}
}
