package rediscluster

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/test/fakeapi"
)

// usersOfMany are 1,000 users of 100 clusters, with a client that looks into the index as the manager does.
func usersOfMany(tb testing.TB, use func(client.ListOptions)) *Reconciler {
	tb.Helper()
	b := fake.NewClientBuilder().WithScheme(fakeapi.Scheme(tb))
	for i := range 1000 {
		b.WithObjects(&v1alpha1.RedisUser{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("user-%d", i)},
			Spec:       v1alpha1.RedisUserSpec{ClusterName: fmt.Sprintf("carts-%d", i%100)},
		})
	}
	if err := owned.AddIndexes(tb.Context(), fakeapi.Indexer{ClientBuilder: b}); err != nil {
		tb.Fatal(err)
	}
	b.WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		var o client.ListOptions
		o.ApplyOptions(opts)
		use(o)
		return c.List(ctx, list, opts...)
	}})
	return New(&owned.Client{Client: owned.Indexed{Client: b.Build()}})
}

func TestUsersOfAClusterAreFoundInTheIndex(t *testing.T) {
	var fields []string
	k := usersOfMany(t, func(o client.ListOptions) {
		if o.FieldSelector != nil {
			fields = append(fields, o.FieldSelector.String())
		}
	})
	users, err := k.Users(t.Context(), "default", "carts-7")
	if err != nil || len(users) != 10 || !slices.Equal(fields, []string{owned.ByCluster + "=RedisCluster/carts-7"}) {
		t.Errorf("%d users were listed with %q, %v", len(users), fields, err)
	}
}
