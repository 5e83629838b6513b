package autoscaler

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/autoscale"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// An Autoscaler is the one exception to the rule that the operator writes no specification.
func TestASpecificationIsWrittenUnderTheNameOfTheAutoscaler(t *testing.T) {
	type write struct{ Name, Subresource, Manager, Patch string }
	change := autoscale.Change{ResourceVersion: "999", From: 3, To: 4}
	redisCluster := v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
	etcdCluster := v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}
	for name, tc := range map[string]struct {
		step cluster.Step
		of   v1alpha1.ClusterReference
		want write
	}{
		"shards by the scale subresource": {
			autoscale.SetShards{Change: change},
			redisCluster,
			write{"carts", "scale", "quorate-autoscaler", `{"metadata":{"resourceVersion":"999"},"spec":{"replicas":4}}`},
		},
		"the limit of memory": {
			autoscale.SetMemory{Change: change},
			redisCluster,
			write{"carts", "", "quorate-autoscaler", `{"metadata":{"resourceVersion":"999"},"spec":{"resources":{"limits":{"memory":"4"}}}}`},
		},
		"the size of volumes": {
			autoscale.SetStorage{Change: change},
			etcdCluster,
			write{"orders", "", "quorate-autoscaler", `{"metadata":{"resourceVersion":"999"},"spec":{"storage":{"size":"4"}}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []write
			note := func(o client.Object, subresource, manager string, p client.Patch) error {
				raw, err := p.Data(o)
				got = append(got, write{o.GetName(), subresource, manager, string(raw)})
				return err
			}
			w := fakeapi.New(t, fakeapi.EtcdCluster(), fakeapi.RedisCluster())
			inner, ok := w.Client.(client.WithWatch)
			if !ok {
				t.Fatalf("%T cannot be watched", w.Client)
			}
			w.Client = interceptor.NewClient(inner, interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					return note(o, "", (&client.PatchOptions{}).ApplyOptions(opts).FieldManager, p)
				},
				SubResourcePatch: func(_ context.Context, _ client.Client, name string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					return note(o, name, (&client.SubResourcePatchOptions{}).ApplyOptions(opts).FieldManager, p)
				},
			})
			if err := New(ownedtest.New(w), nil, nil).Act(t.Context(), scaler("scaler", tc.of), tc.step); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]write{tc.want}, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
