package owned

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestWhatAClusterHasIsFoundInTheIndex(t *testing.T) {
	pod := func(name, of string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: cluster.Selector(of, "etcd")}}
	}
	other := pod("orders-exporter", "orders")
	other.Labels[cluster.LabelComponent] = "other"
	b := fake.NewClientBuilder().WithScheme(fakeapi.Scheme(t)).WithObjects(pod("orders-0", "orders"), pod("orders-1", "orders"), pod("carts-0", "carts"), other)
	if err := AddIndexes(t.Context(), fakeapi.Indexer{ClientBuilder: b}); err != nil {
		t.Fatal(err)
	}
	var asked []string
	b.WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		var o client.ListOptions
		o.ApplyOptions(opts)
		field := ""
		if o.FieldSelector != nil {
			field = o.FieldSelector.String()
		}
		asked = append(asked, field)
		return c.List(ctx, list, opts...)
	}})
	c := Indexed{Client: b.Build()}
	for name, tc := range map[string]struct {
		opts  []client.ListOption
		field string
		want  []string
	}{
		"of a cluster":   {[]client.ListOption{client.InNamespace("default"), client.MatchingLabels(cluster.Selector("orders", "etcd"))}, ByCluster + "=orders", []string{"orders-0", "orders-1"}},
		"of no cluster":  {[]client.ListOption{client.MatchingLabels(cluster.Selector("none", "etcd"))}, ByCluster + "=none", nil},
		"of all of them": {[]client.ListOption{client.MatchingLabels{cluster.LabelComponent: "etcd"}}, "", []string{"carts-0", "orders-0", "orders-1"}},
		"of anybody":     {nil, "", []string{"carts-0", "orders-0", "orders-1", "orders-exporter"}},
	} {
		var pods corev1.PodList
		asked = nil
		if err := c.List(t.Context(), &pods, tc.opts...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, p := range pods.Items {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, tc.want) || !slices.Equal(asked, []string{tc.field}) {
			t.Errorf("%s: %v was asked for with %q", name, got, asked)
		}
	}
	// Nothing else has the index.
	var maps corev1.ConfigMapList
	if err := c.List(t.Context(), &maps, client.MatchingLabels(cluster.Selector("orders", "etcd"))); err != nil {
		t.Error(err)
	}
}

func TestEveryKindThatNamesAClusterIsInTheIndex(t *testing.T) {
	of := v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}
	for _, o := range []client.Object{
		&v1alpha1.EtcdUser{Spec: v1alpha1.EtcdUserSpec{ClusterName: of.Name}},
		&v1alpha1.BackupSchedule{Spec: v1alpha1.BackupScheduleSpec{Cluster: of}},
		&v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{Cluster: of}},
	} {
		if got := clusterNamed(o); !slices.Equal(got, []string{OfCluster(of).key()}) {
			t.Errorf("%T is found by %q", o, got)
		}
	}
}
