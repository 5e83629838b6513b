// Package memory measures how much memory the manager takes, as a process of its own beside a real API server. The pods are made here, and
// never start: what a cluster costs is what the manager caches and remembers of it.
package memory

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/api/v1alpha1"
)

const (
	// clusters of each kind.
	clusters = 100
	// settle passes before each measurement: the collector returns memory to the system in the background.
	settle = 30 * time.Second
	// patience is how long the clusters may take to be worked on.
	patience = 20 * time.Minute
	often    = time.Second
)

// BenchmarkManager prints the resident memory of the manager with nothing to do, and with so many clusters of each kind.
func BenchmarkManager(b *testing.B) {
	for b.Loop() {
		measure(b)
	}
}

func measure(b *testing.B) {
	b.Helper()
	w := start(b)
	idle := w.memory()
	for i := range clusters {
		w.create(etcdCluster(i), redisCluster(i))
	}
	pods := w.populate()
	full := w.memory()
	const mib = 1 << 10 // Of what is told in KiB.
	fmt.Printf("FIGURE manager's memory, resident: %.1f MiB idle, %.1f MiB with %d EtcdClusters, %d RedisClusters and %d pods, %.1f MiB at most\n",
		idle.now/mib, full.now/mib, clusters, clusters, pods, full.most/mib)
	fmt.Printf("FIGURE of that without the pages of files, which the kernel may drop: %.1f MiB and %.1f MiB, %.0f KiB for each cluster\n",
		idle.own/mib, full.own/mib, (full.own-idle.own)/(2*clusters))
	b.ReportMetric(full.now/mib, "MiB")
	b.ReportMetric((full.own-idle.own)/(2*clusters), "KiB/cluster")
	b.ReportMetric(0, "ns/op")
}

// world is an API server and a manager.
type world struct {
	b   *testing.B
	ctx context.Context
	client.Client
	manager *exec.Cmd
}

func start(b *testing.B) *world {
	b.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		b.Fatal(err)
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		b.Fatal(`KUBEBUILDER_ASSETS is not set; run: export KUBEBUILDER_ASSETS="$(hack/kind/kind.sh envtest-assets)"`)
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(root, "config/crd/bases")}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := env.Stop(); err != nil {
			b.Errorf("stop the API server: %v", err)
		}
	})
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		b.Fatal(err)
	}
	config.QPS, config.Burst = 1000, 1000
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	w := &world{b: b, ctx: b.Context(), Client: c}
	w.run(root, env.KubeConfig)
	return w
}

// run starts the manager with what its Deployment gives it.
func (w *world) run(root string, kubeconfig []byte) {
	w.b.Helper()
	dir := w.b.TempDir()
	file, program := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "manager")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		w.b.Fatal(err)
	}
	build := exec.CommandContext(w.ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "./cmd/manager")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		w.b.Fatalf("build the manager: %v\n%s", err, out)
	}
	var log bytes.Buffer
	w.manager = exec.CommandContext(w.ctx, program, "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--agent-image=quay.io/quorate/quorate:v0.1.0")
	w.manager.Env = append(os.Environ(), "KUBECONFIG="+file, "GOGC=50", "GOMEMLIMIT=256MiB")
	w.manager.Stderr = &log
	if err := w.manager.Start(); err != nil {
		w.b.Fatal(err)
	}
	w.b.Cleanup(func() {
		_ = w.manager.Process.Kill()
		_ = w.manager.Wait()
		if w.b.Failed() {
			w.b.Logf("the end of its log: %s", log.Bytes()[max(0, log.Len()-2000):])
		}
	})
}

func (w *world) create(objects ...client.Object) {
	w.b.Helper()
	for _, o := range objects {
		if err := w.Create(w.ctx, o); err != nil {
			w.b.Fatal(err)
		}
	}
}

func etcdCluster(i int) client.Object {
	return &v1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("orders%d", i)},
		Spec:       v1alpha1.EtcdClusterSpec{Size: 3, Version: "3.6.16", Storage: &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
	}
}

func redisCluster(i int) client.Object {
	return &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("carts%d", i)},
		Spec:       v1alpha1.RedisClusterSpec{Version: "8.0.2", Shards: 3, Storage: &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
	}
}

// populate makes the pods of all StatefulSets, in the place of their controller, and waits until every cluster has all of its sets.
func (w *world) populate() (pods int) {
	w.b.Helper()
	const wantSets = clusters * (1 + 3)
	filled := map[string]bool{}
	err := wait.PollUntilContextTimeout(w.ctx, often, patience, true, func(ctx context.Context) (bool, error) {
		var sets appsv1.StatefulSetList
		if err := w.List(ctx, &sets); err != nil {
			return false, err
		}
		for i := range sets.Items {
			set := &sets.Items[i]
			if filled[set.Name] {
				continue
			}
			for ordinal := range int(*set.Spec.Replicas) {
				if err := w.Create(ctx, podOf(set, ordinal)); err != nil && !apierrors.IsAlreadyExists(err) {
					return false, err
				}
				pods++
			}
			filled[set.Name] = true
		}
		return len(filled) == wantSets, nil
	})
	if err != nil {
		w.b.Fatalf("%d of %d StatefulSets: %v", len(filled), wantSets, err)
	}
	return pods
}

func podOf(set *appsv1.StatefulSet, ordinal int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	p.Namespace, p.Name = set.Namespace, fmt.Sprintf("%s-%d", set.Name, ordinal)
	p.Labels["apps.kubernetes.io/pod-index"], p.Labels["statefulset.kubernetes.io/pod-name"] = strconv.Itoa(ordinal), p.Name
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + p.Name},
		}})
	}
	return p
}

// memory in KiB: resident, of that without pages of files, and the most that was resident.
type memory struct{ now, own, most float64 }

// memory waits a while and reads what the kernel says of the manager.
func (w *world) memory() (m memory) {
	w.b.Helper()
	select {
	case <-w.ctx.Done():
	case <-time.After(settle):
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.manager.Process.Pid))
	if err != nil {
		w.b.Fatalf("the manager has ended: %v", err)
	}
	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		into := map[string]*float64{"VmRSS": &m.now, "RssAnon": &m.own, "VmHWM": &m.most}[name]
		if into == nil {
			continue
		}
		found++
		if *into, err = strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64); err != nil {
			w.b.Fatal(err)
		}
	}
	if found != 3 {
		w.b.Fatalf("the kernel says %d of three figures:\n%s", found, raw)
	}
	return m
}
