package autoscaler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/internal/cluster/autoscale"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/controllersim/kinds"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func scaler(name string, of v1alpha1.ClusterReference) *v1alpha1.Autoscaler {
	return &v1alpha1.Autoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("as-" + name), Generation: 1},
		Spec:       v1alpha1.AutoscalerSpec{Cluster: of},
	}
}

func shardScaler(name string) *v1alpha1.Autoscaler {
	a := scaler(name, v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"})
	a.Spec.Shards = &v1alpha1.AutoscalerShards{Min: 2, Max: 4, ScaleOutAfter: &metav1.Duration{Duration: 2 * time.Minute}}
	return a
}

// scaledRedis is a cluster with a limit of memory, and an Autoscaler of it.
type scaledRedis struct {
	*controllersim.Redis
	scalers *reconcile.Loop[*v1alpha1.Autoscaler, autoscale.State]
	events  *events.FakeRecorder
	passed  time.Duration
	// data of all shards, what each process takes, and the maxmemory that it was told, in bytes.
	data, resident, most int64
}

func newScaledRedis(t *testing.T, more ...client.Object) *scaledRedis {
	t.Helper()
	o := fakeapi.RedisCluster()
	o.Spec.Resources = &corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
	s := &scaledRedis{Redis: kinds.NewRedis(t, o, more...), events: events.NewFakeRecorder(1000), data: 900 << 20, resident: 2 << 20, most: 1 << 29}
	kind, ok := s.Loop.Kind.(*rediscluster.Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	start := kind.Now()
	kind.Now = func() time.Time { return start.Add(s.passed) }
	s.scalers = &reconcile.Loop[*v1alpha1.Autoscaler, autoscale.State]{Kind: New(kind.Client, nil, kind), Client: s.API, Direct: s.API, Events: s.events}
	s.fill()
	s.Settle()
	return s
}

// fill divides the data among the shards that there are to be.
func (s *scaledRedis) fill() {
	for _, server := range s.Servers {
		server.Memory = model.Memory{Used: 1<<20 + s.data/int64(s.Cluster().Spec.Shards), Empty: 1 << 20, Resident: s.resident, Max: s.most}
	}
}

func (s *scaledRedis) scaler(name string) *v1alpha1.Autoscaler {
	s.T.Helper()
	out := &v1alpha1.Autoscaler{}
	if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: name}, out); err != nil {
		s.T.Fatal(err)
	}
	return out
}

// measure looks at the cluster for a time, and lets it do what is asked of it meanwhile.
func (s *scaledRedis) measure(name string, d time.Duration) {
	s.T.Helper()
	for end := s.passed + d; s.passed < end; s.passed += 15 * time.Second {
		s.fill()
		if _, err := s.scalers.Reconcile(s.T.Context(), s.scaler(name)); err != nil {
			s.T.Fatal(err)
		}
		s.Settle()
	}
}

func (s *scaledRedis) edit(name string, change func(*v1alpha1.AutoscalerSpec)) {
	s.T.Helper()
	a := s.scaler(name)
	change(&a.Spec)
	a.Generation++
	if err := s.API.Update(s.T.Context(), a); err != nil {
		s.T.Fatal(err)
	}
}

func TestShardsFollowTheMemoryThatIsUsed(t *testing.T) {
	t.Parallel()
	a := shardScaler("carts")
	a.Spec.Mode = ptr.To(v1alpha1.AutoscalerDryRun)
	s := newScaledRedis(t, a)
	s.data = 3 * 450 << 20
	s.measure("carts", 3*time.Minute)
	st := s.scaler("carts").Status
	if n := s.Cluster().Spec.Shards; n != 3 || st.LastChange != nil || !strings.Contains(st.Activity, "it would change spec.shards from 3 to 4") {
		t.Fatalf("%d shards after a dry run: %+v", n, st)
	}
	if st.Shards == nil || st.Shards.Current != 3 || st.Shards.Wanted != 4 || ptr.Deref(st.Shards.MemoryPercent, 0) != 88 {
		t.Errorf("%+v", st.Shards)
	}
	before := s.API.Writes.Load()
	s.measure("carts", 2*time.Minute)
	if n := s.API.Writes.Load() - before; n != 0 {
		t.Errorf("%d writes while nothing changed", n)
	}

	s.edit("carts", func(spec *v1alpha1.AutoscalerSpec) { spec.Mode = nil })
	s.measure("carts", 3*time.Minute)
	st = s.scaler("carts").Status
	if n := s.Cluster().Spec.Shards; n != 4 || st.LastChange == nil || st.LastChange.Change != "change spec.shards from 3 to 4" {
		t.Fatalf("%d shards: %+v", n, st)
	}
	if !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady) || !meta.IsStatusConditionFalse(st.Conditions, v1alpha1.ConditionLimited) {
		t.Errorf("%+v", st.Conditions)
	}
	if text := s.told(); !strings.Contains(text, "ChangingShards") {
		t.Errorf("no event tells it: %s", text)
	}
	untold := s.scaler("carts")
	untold.Status.LastChange = nil // As if the status could not be written, because somebody changed the resource at that moment.
	if err := s.API.Status().Update(t.Context(), untold); err != nil {
		t.Fatal(err)
	}
	s.measure("carts", 15*time.Second)
	if got := s.scaler("carts").Status.LastChange; got == nil || !got.Time.Equal(&st.LastChange.Time) {
		t.Errorf("the last change is %+v, not %+v", got, st.LastChange)
	}

	s.data *= 2
	s.measure("carts", 5*time.Minute)
	st = s.scaler("carts").Status
	if n := s.Cluster().Spec.Shards; n != 4 || !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionLimited) {
		t.Errorf("%d shards, which is the largest number: %+v", n, st.Conditions)
	}
	if text := s.told(); !strings.Contains(text, "Warning ShardsAtMaximum") {
		t.Errorf("no event tells it: %s", text)
	}
}

// told are the events since the last time.
func (s *scaledRedis) told() (out string) {
	for len(s.events.Events) > 0 {
		out += <-s.events.Events + "\n"
	}
	return out
}

func TestOneAutoscalerWorksForACluster(t *testing.T) {
	t.Parallel()
	second := shardScaler("another")
	second.CreationTimestamp = metav1.NewTime(time.Date(2026, 4, 2, 0, 0, 0, 0, time.UTC))
	first := shardScaler("carts")
	first.CreationTimestamp = metav1.NewTime(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC))
	s := newScaledRedis(t, first, second)
	s.data = 3 * 450 << 20
	s.measure("another", 5*time.Minute)
	c := meta.FindStatusCondition(s.scaler("another").Status.Conditions, v1alpha1.ConditionStalled)
	if c.Status != metav1.ConditionTrue || c.Reason != autoscale.ReasonRival || s.Cluster().Spec.Shards != 3 {
		t.Errorf("%d shards, %+v", s.Cluster().Spec.Shards, c)
	}
	if err := s.API.Delete(t.Context(), s.scaler("carts")); err != nil {
		t.Fatal(err)
	}
	s.measure("another", 5*time.Minute)
	if n := s.Cluster().Spec.Shards; n != 4 {
		t.Errorf("%d shards when it is alone: %+v", n, s.scaler("another").Status)
	}
}

func TestTheLimitOfMemoryFollowsWhatIsUsed(t *testing.T) {
	t.Parallel()
	a := scaler("carts", v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"})
	a.Spec.Memory = &v1alpha1.AutoscalerMemory{Min: resource.MustParse("256Mi"), Max: resource.MustParse("4Gi")}
	s := newScaledRedis(t, a)
	s.data = 3 * 800 << 20
	s.measure("carts", 5*time.Minute)
	st := s.scaler("carts").Status
	if got := s.Cluster().Spec.Resources.Limits.Memory(); got.String() != "1Gi" || st.Memory == nil || !strings.Contains(st.Activity, "is recommended") {
		t.Fatalf("limit %s, %+v", got, st)
	}
	s.edit("carts", func(spec *v1alpha1.AutoscalerSpec) { spec.Memory.Apply = ptr.To(true) })
	s.measure("carts", 3*time.Minute)
	r, want := s.Cluster().Spec.Resources, st.Memory.Recommended
	if !r.Limits.Memory().Equal(want) || r.Requests.Memory().Value() != want.Value()/2 {
		t.Errorf("limit %s, request %s, and %s was recommended: %+v", r.Limits.Memory(), r.Requests.Memory(), &want, s.scaler("carts").Status)
	}
}

// A server that was started anew is not told its maxmemory while it holds more than that leaves.
func TestServersThatAreTooFullToBeLimitedAreMeasured(t *testing.T) {
	t.Parallel()
	s := newScaledRedis(t, shardScaler("carts"))
	s.data, s.most = 3*700<<20, 0
	s.measure("carts", 4*time.Minute)
	if n := s.Cluster().Spec.Shards; n != 4 {
		t.Errorf("%d shards: %+v", n, s.scaler("carts").Status)
	}
}

// Less memory than the process takes would leave the cluster waiting for it to be given back.
func TestMemoryIsTakenAwayWhenItWasGivenBack(t *testing.T) {
	t.Parallel()
	a := scaler("carts", v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"})
	a.Spec.Memory = &v1alpha1.AutoscalerMemory{
		Min: resource.MustParse("128Mi"), Max: resource.MustParse("4Gi"), Apply: ptr.To(true), ShrinkAfter: &metav1.Duration{Duration: 2 * time.Minute},
	}
	s := newScaledRedis(t, a)
	s.data, s.resident = 3*100<<20, 900<<20
	s.measure("carts", 5*time.Minute)
	if got := s.Cluster().Spec.Resources.Limits.Memory(); got.String() != "1Gi" {
		t.Errorf("the limit is %s while a process takes 900 MiB: %+v", got, s.scaler("carts").Status)
	}
	s.resident = 110 << 20
	s.measure("carts", 5*time.Minute)
	if got := s.Cluster().Spec.Resources.Limits.Memory(); got.Value() >= 1<<30 {
		t.Errorf("the limit is %s: %+v", got, s.scaler("carts").Status)
	}
}

func TestWhatWasTakenAwayIsKnownAfterARestart(t *testing.T) {
	k := New(ownedtest.New(fakeapi.New(t)), nil, nil)
	a := shardScaler("carts")
	if got := k.former(a, 3); got != 0 {
		t.Errorf("%d before anything was changed", got)
	}
	at := metav1.NewTime(fakeapi.Now)
	a.Status.LastChange = &v1alpha1.AutoscalerChange{Time: at, Change: autoscale.SetShards{Change: autoscale.Change{From: 6, To: 3}}.String()}
	if three, four := k.former(a, 3), k.former(a, 4); three != 6 || four != 0 {
		t.Errorf("%d, and %d when somebody has changed it since", three, four)
	}
	k.past(a.UID).changed = &v1alpha1.AutoscalerChange{Time: metav1.NewTime(at.Add(time.Minute)), Change: autoscale.SetShards{Change: autoscale.Change{From: 2, To: 3}}.String()}
	if got := k.former(a, 3); got != 0 {
		t.Errorf("%d after a change that has not been told yet", got)
	}
}

// That shards have left long ago is no reason to bring them back.
func TestOnlyShardsThatAreStillThereComeBack(t *testing.T) {
	t.Parallel()
	a := shardScaler("carts")
	s := newScaledRedis(t, a)
	observed := func(from, to int64, spec int32) int {
		t.Helper()
		o := s.Cluster()
		o.Spec.Shards = spec
		if err := s.API.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		a.Status.LastChange = &v1alpha1.AutoscalerChange{Change: autoscale.SetShards{Change: autoscale.Change{From: from, To: to}}.String()}
		state, err := s.scalers.Kind.Observe(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return state.Shards.Former
	}
	if got := observed(6, 3, 3); got != 0 {
		t.Errorf("%d shards are to come back that have left", got)
	}
	if got := observed(3, 2, 2); got != 3 {
		t.Errorf("%d shards may come back while one is on its way out, want 3", got)
	}
}

func TestWhatCannotFollowSaysWhy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cluster func(*v1alpha1.RedisClusterSpec)
		spec    func(*v1alpha1.AutoscalerSpec)
		says    string
	}{
		"a cache":           {cluster: evicting, says: "evicts keys when it is full"},
		"memory of a cache": {cluster: evicting, spec: ofMemory, says: "remove spec.memory"},
		"no limit":          {cluster: func(c *v1alpha1.RedisClusterSpec) { c.Resources = nil }, says: "has no limit of memory that it could come near to"},
		"no limit to apply": {cluster: func(c *v1alpha1.RedisClusterSpec) { c.Resources = nil }, spec: ofMemory, says: "for a start"},
		"a maxmemory of its own": {
			cluster: func(c *v1alpha1.RedisClusterSpec) {
				c.Config = &v1alpha1.RedisConfig{MaxMemory: ptr.To(resource.MustParse("100Mi"))}
			},
			spec: ofMemory, says: "spec.config.maxMemory",
		},
		"one primary": {cluster: func(c *v1alpha1.RedisClusterSpec) { c.Mode = ptr.To(v1alpha1.RedisReplicated) }, says: "is Replicated"},
	} {
		t.Run(name, func(t *testing.T) {
			o, a := fakeapi.RedisCluster(), shardScaler("carts")
			o.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
			tc.cluster(&o.Spec)
			if tc.spec != nil {
				tc.spec(&a.Spec)
			}
			s := autoscale.State{
				Target: "RedisCluster carts", Cluster: &autoscale.Cluster{}, Shards: shardsOf(a.Spec.Shards, o), Memory: memoryOf(a.Spec.Memory, o),
			}
			if p := autoscale.Next(s); !p.Stalled || !strings.Contains(p.Message, tc.says) {
				t.Errorf("%+v", p)
			}
		})
	}
}

func evicting(c *v1alpha1.RedisClusterSpec) {
	c.Config = &v1alpha1.RedisConfig{MaxMemoryPolicy: ptr.To("allkeys-lru")}
}

func ofMemory(a *v1alpha1.AutoscalerSpec) {
	a.Shards, a.Memory = nil, &v1alpha1.AutoscalerMemory{Min: resource.MustParse("1Gi"), Max: resource.MustParse("2Gi"), Apply: ptr.To(true)}
}

func TestVolumesOfEtcdGrowBeforeTheyAreFull(t *testing.T) {
	t.Parallel()
	o := fakeapi.EtcdCluster()
	o.Spec.Storage = &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}
	a := scaler("orders", v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"})
	a.Spec.Storage = &v1alpha1.AutoscalerStorage{Max: resource.MustParse("2Gi")}
	s := kinds.NewEtcd(t, o, a)
	s.UntilReady()
	s.Put(4)
	s.Net.Quota = 0
	kind, ok := s.NewOperator().Kind.(*etcdcluster.Reconciler)
	if !ok {
		t.Fatal("no EtcdKind")
	}
	loop := &reconcile.Loop[*v1alpha1.Autoscaler, autoscale.State]{Kind: New(kind.Client, kind, nil), Client: s.Others, Direct: s.Others, Events: events.NewFakeRecorder(100)}
	look := func(mib int64) *v1alpha1.Autoscaler {
		t.Helper()
		s.Net.Unit = mib << 20 / max(1, s.Procs["orders-0"].Disk.Size())
		live := &v1alpha1.Autoscaler{}
		if err := s.Others.Get(t.Context(), client.ObjectKeyFromObject(a), live); err != nil {
			t.Fatal(err)
		}
		if _, err := loop.Reconcile(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		return live
	}
	size := func() string { return s.Cluster().Spec.Storage.Size.String() }
	if st := look(200).Status; size() != "1Gi" || st.Storage == nil || st.Storage.UsedPercent < 50 || st.Storage.UsedPercent > 65 {
		t.Fatalf("%s: %+v %s", size(), st.Storage, st.Activity)
	}
	if st := look(300).Status; size() != "1280Mi" || st.LastChange == nil || !strings.Contains(st.LastChange.Reason, "more than 80 %") {
		t.Fatalf("%s: %+v", size(), st)
	}
	if st := look(300).Status; size() != "1280Mi" {
		t.Errorf("%s: %+v", size(), st)
	}
	if look(2000); size() != "2Gi" {
		t.Errorf("it does not grow to its maximum: %s", size())
	}
	if st := look(2000).Status; size() != "2Gi" || !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionLimited) {
		t.Errorf("%s: %+v", size(), st)
	}
}
