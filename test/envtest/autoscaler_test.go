package envtest

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/autoscaler"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/autoscale"
)

var scalerKind = kind{"Autoscaler", "autoscalers", `
apiVersion: quorate.dev/v1alpha1
kind: Autoscaler
metadata: {name: carts, namespace: default}
spec: {cluster: {kind: RedisCluster, name: carts}, shards: {min: 3, max: 12}}
`}

const ofEtcd = `cluster: {kind: EtcdCluster, name: orders}, shards: <removed>`

var validScalers = map[string]string{
	"minimal":            ``,
	"a dry run":          `mode: DryRun`,
	"frozen":             `mode: Frozen`,
	"one number":         `shards: {min: 5, max: 5}`,
	"by load":            `shards: {operationsPerSecond: 50000, memoryPercent: 90, scaleOutAfter: 0s, scaleInAfter: 720h0m0s}`,
	"a recommendation":   `memory: {min: 16Mi, max: 64Ti, headroomPercent: 0, growAfter: 0s, shrinkAfter: 720h}`,
	"memory alone":       `{shards: <removed>, memory: {min: 1Gi, max: 1Gi, apply: true}}`,
	"memory as numbers":  `{shards: <removed>, memory: {min: 1073741824, max: 2147483648}}`,
	"volumes":            `{` + ofEtcd + `, storage: {max: 4Gi}}`,
	"volumes, carefully": `{` + ofEtcd + `, storage: {max: 512Mi, fullPercent: 10, growPercent: 100}}`,
	"nulls":              `{mode: null, memory: null, storage: null, shards: {memoryPercent: null, scaleOutAfter: null}}`,
}

var invalidScalers = map[string]bad{
	"no cluster":              {spec: `cluster: <removed>`, field: "spec.cluster", words: "Required"},
	"cluster elsewhere":       {spec: `cluster: {name: team-a/carts}`, field: "spec.cluster.name", words: "must be the name of a cluster of the same namespace"},
	"nothing to do":           {spec: `shards: <removed>`, field: "spec", words: "write what is to follow the cluster's needs"},
	"a mode of its own":       {spec: `mode: "Off"`, field: "spec.mode", words: "supported values"},
	"min above max":           {spec: `shards: {min: 13}`, field: "spec.shards.min", words: "spec.shards.min cannot be above spec.shards.max"},
	"no shard":                {spec: `shards: {min: 0}`, field: "spec.shards.min", words: "greater than or equal to 1"},
	"too many shards":         {spec: `shards: {max: 501}`, field: "spec.shards.max", words: "less than or equal to 500"},
	"no max":                  {spec: `shards: {max: <removed>}`, field: "spec.shards.max", words: "Required"},
	"full shards":             {spec: `shards: {memoryPercent: 91}`, field: "spec.shards.memoryPercent", words: "less than or equal to 90"},
	"no commands":             {spec: `shards: {operationsPerSecond: 0}`, field: "spec.shards.operationsPerSecond", words: "greater than or equal to 1"},
	"out in milliseconds":     {spec: `shards: {scaleOutAfter: 500ms}`, field: "spec.shards.scaleOutAfter", words: "from 0s to 24h"},
	"in after a year":         {spec: `shards: {scaleInAfter: 8760h}`, field: "spec.shards.scaleInAfter", words: "from 0s to 720h"},
	"shards of etcd":          {spec: `cluster: {kind: EtcdCluster, name: orders}`, field: "spec.shards", words: "more members make etcd safer and slower"},
	"memory of etcd":          {spec: `{` + ofEtcd + `, memory: {min: 1Gi, max: 2Gi}}`, field: "spec.memory", words: "members of etcd restart"},
	"volumes of Redis":        {spec: `storage: {max: 4Gi}`, field: "spec.storage", words: "volumes of a RedisCluster cannot grow in this release"},
	"two for one need":        {spec: `memory: {min: 1Gi, max: 2Gi, apply: true}`, field: "spec.memory.apply", words: "both would answer the same need"},
	"memory min above max":    {spec: `memory: {min: 2Gi, max: 1Gi}`, field: "spec.memory.min", words: "spec.memory.min cannot be above spec.memory.max"},
	"too little memory":       {spec: `memory: {min: 15Mi, max: 1Gi}`, field: "spec.memory.min", words: "of at least 16Mi"},
	"negative memory":         {spec: `memory: {min: "-1Gi", max: 1Gi}`, field: "spec.memory.min", words: "of at least 16Mi"},
	"too much memory":         {spec: `memory: {min: 1Gi, max: 65Ti}`, field: "spec.memory.max", words: "of at most 64Ti"},
	"headroom without end":    {spec: `memory: {min: 1Gi, max: 2Gi, headroomPercent: 401}`, field: "spec.memory.headroomPercent", words: "less than or equal to 400"},
	"memory grows tomorrow":   {spec: `memory: {min: 1Gi, max: 2Gi, growAfter: 25h}`, field: "spec.memory.growAfter", words: "from 0s to 24h"},
	"memory shrinks never":    {spec: `memory: {min: 1Gi, max: 2Gi, shrinkAfter: 721h}`, field: "spec.memory.shrinkAfter", words: "from 0s to 720h"},
	"a volume too small":      {spec: `{` + ofEtcd + `, storage: {max: 511Mi}}`, field: "spec.storage.max", words: "from 512Mi to 64Ti"},
	"a volume that is full":   {spec: `{` + ofEtcd + `, storage: {max: 4Gi, fullPercent: 96}}`, field: "spec.storage.fullPercent", words: "less than or equal to 95"},
	"a volume of growth":      {spec: `{` + ofEtcd + `, storage: {max: 4Gi, growPercent: 101}}`, field: "spec.storage.growPercent", words: "less than or equal to 100"},
	"what there is not":       {spec: `replicas: {min: 1, max: 2}`, field: "spec.replicas", words: "unknown field"},
	"a volume of few bytes":   {spec: `{` + ofEtcd + `, storage: {max: "4e9"}}`, field: "spec.storage.max", words: "from 512Mi to 64Ti"},
	"a cluster of its own":    {spec: `cluster: {kind: MemcachedCluster}`, field: "spec.cluster.kind", words: "supported values"},
	"a limit with an e in it": {spec: `memory: {min: "1e9", max: 2Gi}`, field: "spec.memory.min", words: "of at least 16Mi"},
}

var scalerChanges = map[string]change{
	"other bounds":    {to: `shards: {min: 1, max: 20}`},
	"another mode":    {to: `mode: Frozen`},
	"another cluster": {to: `cluster: {name: other}`, field: "spec.cluster", words: "create another Autoscaler for the other cluster"},
}

func TestValidAutoscalersAreAcceptedWithTheirDefaults(t *testing.T) {
	acceptAll(t, scalerKind, validScalers)
}

func TestInvalidAutoscalersAreRefused(t *testing.T) { refuseAll(t, scalerKind, invalidScalers) }

func TestChangesOfAutoscalers(t *testing.T) { changeAll(t, scalerKind, scalerChanges) }

func TestAnyAdmittedAutoscalerCanBeReadByATypedClient(t *testing.T) {
	s, ctx, typed := apiServer(t), testContext(t), typedClient(t)
	for name, spec := range validScalers {
		u := toUnstructured(t, bad{spec: spec}.object(t, scalerKind))
		if err := s.client.Create(ctx, u); err != nil {
			t.Fatal(err)
		}
		if err := typed.List(ctx, &v1alpha1.AutoscalerList{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.client.Delete(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
}

// An Autoscaler changes the one field that it decided on, as the manager it is told apart by, and only of the cluster that it saw.
func TestAnAutoscalerChangesOneFieldOfTheClusterThatItSaw(t *testing.T) {
	s, ctx := apiServer(t), testContext(t)
	typed := typedClient(t)
	act := autoscaler.New(&owned.Client{Client: typed, Direct: typed}, nil, nil).Act
	for name, tc := range map[string]struct {
		kind
		spec, field string
		step        func(autoscale.Change) cluster.Step
		from, to    int64
		want        string
	}{
		"shards": {
			kind: redisKind, field: "f:shards", from: 3, to: 4, want: `shards: 4`,
			step: func(c autoscale.Change) cluster.Step { return autoscale.SetShards{Change: c} },
		},
		"memory": {
			kind: redisKind, spec: `resources: {limits: {memory: 1Gi, cpu: 500m}, requests: {memory: 512Mi}}`, field: "f:limits", from: 1 << 30, to: 2 << 30,
			want: `resources: {limits: {memory: 2Gi, cpu: 500m}, requests: {memory: 1Gi}}`,
			step: func(c autoscale.Change) cluster.Step { return autoscale.SetMemory{Change: c, Request: 1 << 30} },
		},
		"volumes": {
			kind: etcdKind, field: "f:size", from: 1 << 30, to: 5 << 28, want: `storage: {size: 1280Mi}`,
			step: func(c autoscale.Change) cluster.Step { return autoscale.SetStorage{Change: c} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := toUnstructured(t, bad{spec: tc.spec, whole: `metadata: {name: scaled}`}.object(t, tc.kind))
			if err := s.client.Create(ctx, u); err != nil {
				t.Fatal(err)
			}
			defer s.client.Delete(context.WithoutCancel(ctx), u) //nolint:errcheck // The server goes away with the tests.
			o := &v1alpha1.Autoscaler{Spec: v1alpha1.AutoscalerSpec{Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.ClusterKind(tc.name), Name: "scaled"}}}
			o.Namespace = "default"
			seen := autoscale.Change{ResourceVersion: u.GetResourceVersion(), From: tc.from, To: tc.to}
			other := autoscale.Change{ResourceVersion: "1", From: tc.from, To: tc.to}
			if err := act(ctx, o, tc.step(other)); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
				t.Errorf("another cluster was changed: %v", err)
			}
			if err := act(ctx, o, tc.step(seen)); err != nil {
				t.Fatal(err)
			}
			want := toUnstructured(t, overlay(u.Object, object{"spec": parse(t, tc.want)})).Object
			if err := s.client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want["spec"], u.Object["spec"]); diff != "" {
				t.Errorf("the specification (-want +got):\n%s", diff)
			}
			if raw := ownedFields(u, "quorate-autoscaler"); !strings.Contains(raw, tc.field) {
				t.Errorf("quorate-autoscaler owns %s, and not %s", raw, tc.field)
			}
		})
	}
}

// ownedFields are the fields that a manager owns.
func ownedFields(u *unstructured.Unstructured, manager string) (out string) {
	for _, m := range u.GetManagedFields() {
		if m.Manager == manager {
			out += m.FieldsV1.GetRawString()
		}
	}
	return out
}

// What the cluster refuses is told as a refusal, and not tried for ever.
func TestARefusedChangeIsTold(t *testing.T) {
	s, ctx := apiServer(t), testContext(t)
	typed := typedClient(t)
	u := toUnstructured(t, bad{whole: `metadata: {name: refusing}`, spec: `replicasPerShard: 1`}.object(t, redisKind))
	if err := s.client.Create(ctx, u); err != nil {
		t.Fatal(err)
	}
	defer s.client.Delete(context.WithoutCancel(ctx), u) //nolint:errcheck // The server goes away with the tests.
	o := &v1alpha1.Autoscaler{Spec: v1alpha1.AutoscalerSpec{Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "refusing"}}}
	o.Namespace = "default"
	err := autoscaler.New(&owned.Client{Client: typed, Direct: typed}, nil, nil).Act(ctx, o, autoscale.SetShards{
		Change: autoscale.Change{ResourceVersion: u.GetResourceVersion(), From: 3, To: 501},
	})
	if _, ok := err.(cluster.Refusal); !ok || !strings.Contains(err.Error(), "spec.shards must be at most 500") { //nolint:errorlint // It is not wrapped.
		t.Errorf("%T %v", err, err)
	}
}
