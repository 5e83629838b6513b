package controllersim

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/kube"
)

// InstallPodMonitors has an API server know PodMonitors.
func InstallPodMonitors(t *testing.T, c client.Client) {
	t.Helper()
	mapper, ok := c.RESTMapper().(*meta.DefaultRESTMapper)
	if !ok {
		t.Fatalf("%T", c.RESTMapper())
	}
	mapper.Add(kube.PodMonitorKind, meta.RESTScopeNamespace)
}

// PodMonitor reads one, nil when there is none.
func PodMonitor(t *testing.T, c client.Client, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kube.PodMonitorKind)
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// reading counts the reads of PodMonitors.
type reading struct {
	client.Client
	n *int
	// fail is what they are answered with.
	fail *error
}

func (r reading) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if o.GetObjectKind().GroupVersionKind() == kube.PodMonitorKind {
		*r.n++
		if *r.fail != nil {
			return *r.fail
		}
	}
	return r.Client.Get(ctx, key, o, opts...)
}

// CountReads counts the reads of the operators from now on.
func CountReads(w *Wire) (reads *int, fail *error) {
	reads, fail = new(int), new(error)
	w.tap = func(of client.Client) client.Client { return reading{of, reads, fail} }
	return reads, fail
}

// WantMonitoring checks the condition MonitoringReady.
func WantMonitoring(t *testing.T, conditions []metav1.Condition, reason, words string) {
	t.Helper()
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionMonitoringReady)
	if c == nil || c.Reason != reason || !strings.Contains(c.Message, words) || (c.Status == metav1.ConditionTrue) != (reason == v1alpha1.ReasonMonitored) {
		t.Errorf("MonitoringReady is %+v, want %s with %q", c, reason, words)
	}
	for typ, want := range map[string]bool{v1alpha1.ConditionReady: true, v1alpha1.ConditionStalled: false} {
		if meta.IsStatusConditionTrue(conditions, typ) != want {
			t.Errorf("%s is not %t: %+v", typ, want, meta.FindStatusCondition(conditions, typ))
		}
	}
}
