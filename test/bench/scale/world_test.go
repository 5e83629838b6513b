package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/need"
)

const (
	domain = "cluster.local"
	// namespaces that the clusters are spread over.
	namespaces = 10
	// writers make requests at the same time, in the place of users.
	writers = 8
)

// world is an API server, the simulated rest of Kubernetes, and users.
type world struct {
	tb  testing.TB
	ctx context.Context
	client.Client
	kubelet *kubelet
	// out is where figures and profiles go, log where the manager writes to.
	out, log            string
	program, kubeconfig string
	// memoryLimit is that of the manager's container.
	memoryLimit string
	began       time.Time
}

func newWorld(tb testing.TB, out string) *world {
	tb.Helper()
	ctrl.SetLogger(logr.Discard())
	root, err := filepath.Abs("../../..")
	if err != nil {
		tb.Fatal(err)
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		need.Missing(tb, `KUBEBUILDER_ASSETS is not set: export KUBEBUILDER_ASSETS="$(hack/kind/kind.sh envtest-assets)"`)
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(root, "config/crd/bases")}, ErrorIfCRDPathMissing: true}
	env.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16") // By default there are addresses for 254 Services.
	config, err := env.Start()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := env.Stop(); err != nil {
			tb.Errorf("stop the API server: %v", err)
		}
	})
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		tb.Fatal(err)
	}
	config.QPS = -1 // Nobody limits the kubelets of a cluster together either.
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		tb.Fatal(err)
	}
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{cluster.LabelManagedBy: cluster.ManagedBy})}
	informers, err := cache.New(config, cache.Options{Scheme: scheme, ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: ours, &appsv1.StatefulSet{}: ours}})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	dir := tb.TempDir()
	w := &world{
		tb: tb, ctx: ctx, Client: c, kubelet: newKubelet(c, informers), out: out, began: time.Now(),
		log: filepath.Join(out, "manager.log"), kubeconfig: filepath.Join(dir, "kubeconfig"), program: buildManager(tb, root, dir),
	}
	if err := errors.Join(os.MkdirAll(out, 0o755), os.WriteFile(w.kubeconfig, env.KubeConfig, 0o600), os.RemoveAll(w.log)); err != nil {
		tb.Fatal(err)
	}
	w.furnish()
	if err := w.kubelet.run(ctx); err != nil {
		tb.Fatal(err)
	}
	return w
}

// furnish makes namespaces and nodes.
func (w *world) furnish() {
	w.tb.Helper()
	w.all(namespaces, func(i int) error {
		return w.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}})
	})
	w.all(nodes, func(i int) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}
		if err := w.Create(w.ctx, node); err != nil {
			return err
		}
		node.Spec.Taints = nil // Every node begins with one that says that it is not ready.
		if err := w.Update(w.ctx, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return w.Status().Update(w.ctx, node)
	})
}

// all calls a function for 0 to n-1, several at a time.
func (w *world) all(n int, do func(i int) error) {
	w.tb.Helper()
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		errs = make([]error, writers)
	)
	for i := range writers {
		wg.Go(func() {
			for errs[i] == nil {
				j := int(next.Add(1)) - 1
				if j >= n {
					return
				}
				errs[i] = do(j)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		w.tb.Fatal(err)
	}
}

// progress says how it goes on.
func (w *world) progress(format string, args ...any) {
	fmt.Printf("%6.0f s  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

func namespace(i int) string { return fmt.Sprintf("team-%d", i%namespaces) }

// clusterOf is the cluster of a number: one is etcd, the next one Redis.
func clusterOf(i int) client.Object {
	name := metav1.ObjectMeta{Namespace: namespace(i / 2), Name: fmt.Sprintf("c%d", i)}
	disk := &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}
	if i%2 == 0 {
		return &v1alpha1.EtcdCluster{ObjectMeta: name, Spec: v1alpha1.EtcdClusterSpec{Size: 3, Version: "3.6.16", Storage: disk}}
	}
	return &v1alpha1.RedisCluster{ObjectMeta: name, Spec: v1alpha1.RedisClusterSpec{Version: "8.0.2", Shards: 3, Storage: disk}}
}

// grow is a change of the specification that takes several steps: two more members, or a replica more for each shard.
func grow(o client.Object) {
	switch o := o.(type) {
	case *v1alpha1.EtcdCluster:
		o.Spec.Size = 5
	case *v1alpha1.RedisCluster:
		o.Spec.ReplicasPerShard = ptr.To(int32(o.Spec.Replicas()) + 1)
	}
}

// ready counts the clusters that are Ready, as far as their specification goes.
func (w *world) ready() (ready int) {
	w.tb.Helper()
	count := func(generation, observed int64, conditions []metav1.Condition) {
		if generation == observed && meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
			ready++
		}
	}
	var etcds v1alpha1.EtcdClusterList
	var redises v1alpha1.RedisClusterList
	if err := errors.Join(w.kubelet.cache.List(w.ctx, &etcds), w.kubelet.cache.List(w.ctx, &redises)); err != nil {
		w.tb.Fatal(err)
	}
	for i := range etcds.Items {
		count(etcds.Items[i].Generation, etcds.Items[i].Status.ObservedGeneration, etcds.Items[i].Status.Conditions)
	}
	for i := range redises.Items {
		count(redises.Items[i].Generation, redises.Items[i].Status.ObservedGeneration, redises.Items[i].Status.Conditions)
	}
	return ready
}

// untilReady waits until so many clusters are Ready.
func (w *world) untilReady(want int, patience time.Duration) (took time.Duration) {
	w.tb.Helper()
	began, said := time.Now(), time.Now()
	for {
		n := w.ready()
		if n >= want {
			return time.Since(began)
		}
		if time.Since(said) > 10*time.Second {
			w.progress("%d of %d clusters are Ready%s", n, want, w.kubelet.complaint())
			said = time.Now()
		}
		if time.Since(began) > patience {
			w.tb.Fatalf("%d of %d clusters are Ready after %s%s\n%s", n, want, patience, w.kubelet.complaint(), w.stuck())
		}
		w.pause(200 * time.Millisecond)
	}
}

// stuck says what some clusters wait for.
func (w *world) stuck() (text string) {
	var etcds v1alpha1.EtcdClusterList
	var redises v1alpha1.RedisClusterList
	_ = errors.Join(w.kubelet.cache.List(w.ctx, &etcds), w.kubelet.cache.List(w.ctx, &redises)) // What can be told is.
	said := 0
	say := func(name string, conditions []metav1.Condition) {
		c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
		if said < 5 && (c == nil || c.Status != metav1.ConditionTrue) {
			text += fmt.Sprintf("%s: %+v\n", name, c)
			said++
		}
	}
	for i := range etcds.Items {
		say(etcds.Items[i].Name, etcds.Items[i].Status.Conditions)
	}
	for i := range redises.Items {
		say(redises.Items[i].Name, redises.Items[i].Status.Conditions)
	}
	return text
}

func (w *world) pause(d time.Duration) {
	w.tb.Helper()
	select {
	case <-w.ctx.Done():
		w.tb.Fatal(w.ctx.Err())
	case <-time.After(d):
	}
}
