// Package install installs the operator as users do who have no checkout: by Helm, in a Kubernetes of its own.
package install

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/chart"
	"github.com/quorate/quorate/test/harness"
	"github.com/quorate/quorate/test/need"
	"github.com/quorate/quorate/test/repository"
)

const (
	// kindName is the cluster that the test makes and removes.
	kindName = "quorate-helm"
	release  = "quorate"
	system   = "quorate-system"
	// settle is time for a new operator to lead and to look at everything.
	settle = 20 * time.Second
	ready  = 4 * time.Minute
)

// site is a Kubernetes with a cluster of each kind that clients write to.
type site struct {
	*harness.Cluster
	ns    string
	etcd  *v1alpha1.EtcdCluster
	redis *v1alpha1.RedisCluster
	loads map[string]*harness.Load
	lives map[string]harness.Incarnation
}

// TestHelmInstallsUpgradesAndUninstalls goes the way of a site: the release before this tree, an upgrade, no operator at all, and one for
// a few namespaces alone. Pods and clients must not notice.
func TestHelmInstallsUpgradesAndUninstalls(t *testing.T) {
	ctrllog.SetLogger(logr.Discard())
	ctx := t.Context()
	image := os.Getenv("IMG")
	if image == "" {
		need.Missing(t, `IMG is not set: run "make test-e2e-fresh"`)
	}
	was := packPrevious(ctx, t)
	is := pack(ctx, t, ".", "0.0.2", image)
	s := begin(ctx, t, image, was.image)

	step(t, "the release before is installed for all namespaces", func(t *testing.T) {
		s.helm(ctx, t, "install", release, was.file, "--namespace", system, "--create-namespace", "--wait", "--timeout", "3m")
		s.create(ctx, t)
	})
	step(t, "it is upgraded, CRDs included", func(t *testing.T) {
		began := time.Now()
		s.helm(ctx, t, "upgrade", release, is.file, "--namespace", system, "--wait", "--timeout", "3m")
		fmt.Printf("FIGURE %s: upgraded after %.1f s\n", t.Name(), time.Since(began).Seconds())
		s.wantCRDs(ctx, t, "quorate-0.0.2")
		s.wantOperator(ctx, t, image)
		s.wantUntouched(ctx, t)
		s.wantReady(ctx, t, s.ns, "after-upgrade")
	})
	step(t, "it is uninstalled, and the clusters run on", func(t *testing.T) {
		s.helm(ctx, t, "uninstall", release, "--namespace", system, "--wait", "--timeout", "3m")
		must(t, s.WaitGone(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: release + "-manager"}}, time.Minute))
		s.wantCRDs(ctx, t, "quorate-0.0.2")
		s.wantUntouched(ctx, t)
	})
	step(t, "it is installed for some namespaces", func(t *testing.T) {
		outside, err := s.NewNamespace(ctx, "outside")
		must(t, err)
		s.helm(ctx, t, "install", release, is.file, "--namespace", system, "--wait", "--timeout", "3m",
			"--set", "watchNamespaces={"+s.ns+"}", "--set", "replicas=2")
		foreigner := s.etcdOf(t, outside, "foreigner", 1)
		must(t, s.Create(ctx, foreigner))
		s.wantReady(ctx, t, s.ns, "after-install")
		must(t, s.Get(ctx, client.ObjectKeyFromObject(foreigner), foreigner))
		if foreigner.Status.ObservedGeneration != 0 || len(foreigner.Status.Conditions) > 0 {
			t.Errorf("a cluster of another namespace has the status %+v", foreigner.Status)
		}
		s.wantUntouched(ctx, t)
		s.wantNothingClusterWide(ctx, t)
	})
	step(t, "no write was lost or refused", func(t *testing.T) { s.stop(ctx, t) })
}

// step runs a part of the way. The next one needs it.
func step(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	if !t.Run(name, run) {
		t.FailNow()
	}
}

// begin makes the Kubernetes, which is removed with the test, and loads the images.
func begin(ctx context.Context, t *testing.T, images ...string) *site {
	t.Helper()
	kind, err := harness.Connect(ctx)
	must(t, err)
	fresh, err := kind.Fresh(ctx, kindName)
	must(t, err)
	s := &site{Cluster: fresh, loads: map[string]*harness.Load{}}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if t.Failed() {
			t.Logf("what was there:\n%s\n%s", s.Dump(ctx, s.ns), s.Dump(ctx, system))
		}
		if err := s.Remove(ctx); err != nil {
			t.Errorf("remove the cluster: %v", err)
		}
	})
	_, err = s.Kind(ctx, append([]string{"load"}, images...)...)
	must(t, err)
	s.ns, err = s.NewNamespace(ctx, t.Name())
	must(t, err)
	return s
}

func (s *site) helm(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	_, err := chart.Helm(ctx, append(args, "--kubeconfig", s.Kubeconfig)...)
	must(t, err)
}

func (s *site) etcdOf(t *testing.T, ns, name string, size int32) *v1alpha1.EtcdCluster {
	t.Helper()
	version, err := s.Version("ETCD_3_6")
	must(t, err)
	return &v1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       v1alpha1.EtcdClusterSpec{Size: size, Version: version, Storage: &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
	}
}

// create makes a cluster of each kind, waits until they are Ready, and writes to them from then on.
func (s *site) create(ctx context.Context, t *testing.T) {
	t.Helper()
	version, err := s.Version("VALKEY_8_1")
	must(t, err)
	s.etcd = s.etcdOf(t, s.ns, "orders", 3)
	s.redis = &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "carts"},
		Spec: v1alpha1.RedisClusterSpec{
			Engine: ptr.To(v1alpha1.EngineValkey), Version: version, Shards: 3, ReplicasPerShard: ptr.To[int32](0),
			Storage: &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
		},
	}
	must(t, s.Create(ctx, s.etcd))
	must(t, s.Create(ctx, s.redis))
	must(t, harness.WaitReady(ctx, s.Cluster, s.etcd, ready))
	must(t, harness.WaitReady(ctx, s.Cluster, s.redis, ready))
	s.lives = s.incarnations(ctx, t)
	if len(s.lives) != 6 {
		t.Fatalf("there are %d pods, want 6: %v", len(s.lives), s.lives)
	}
	image, err := s.BuildLoad(ctx)
	must(t, err)
	var members []string
	for i := range 3 {
		members = append(members, cluster.PodHost(cluster.Pod("orders", i), "orders", s.ns, "cluster.local")+":2379")
	}
	for _, o := range []harness.LoadOptions{
		{Image: image, Namespace: s.ns, Mode: "etcd", Cluster: "orders", Endpoints: members},
		{Image: image, Namespace: s.ns, Mode: "redis", Cluster: "carts"},
	} {
		s.loads[o.Mode], err = s.StartLoad(ctx, o)
		must(t, err)
	}
}

func (s *site) incarnations(ctx context.Context, t *testing.T) map[string]harness.Incarnation {
	t.Helper()
	out := map[string]harness.Incarnation{}
	for name, component := range map[string]string{"orders": v1alpha1.ComponentEtcd, "carts": v1alpha1.ComponentRedis} {
		pods, err := s.Pods(ctx, s.ns, name, component)
		must(t, err)
		for i := range pods {
			out[pods[i].Name] = harness.IncarnationOf(&pods[i])
		}
	}
	return out
}

// wantUntouched fails unless every pod lives the life that it had at the beginning, a while from now, and both clusters are written to.
func (s *site) wantUntouched(ctx context.Context, t *testing.T) {
	t.Helper()
	must(t, harness.Throughout(ctx, settle, func(ctx context.Context) error {
		now := s.incarnations(ctx, t)
		for name, was := range s.lives {
			if is, there := now[name]; !there || is != was {
				return fmt.Errorf("%s has begun another life: %+v, then %+v", name, was, is)
			}
		}
		if len(now) != len(s.lives) {
			return fmt.Errorf("there were %d pods, and are %d", len(s.lives), len(now))
		}
		return nil
	}))
	for _, l := range s.loads {
		_, err := l.WaitAcked(ctx, 20, time.Minute)
		must(t, err)
	}
}

// wantReady makes one more cluster, which only an operator that works makes Ready, and removes it.
func (s *site) wantReady(ctx context.Context, t *testing.T, ns, name string) {
	t.Helper()
	o := s.etcdOf(t, ns, name, 1)
	must(t, s.Create(ctx, o))
	must(t, harness.WaitReady(ctx, s.Cluster, o, ready))
	must(t, s.Delete(ctx, o))
	must(t, s.WaitGone(ctx, o, time.Minute))
}

// wantCRDs fails unless all CRDs are there, as that chart brought them.
func (s *site) wantCRDs(ctx context.Context, t *testing.T, label string) {
	t.Helper()
	out, err := s.Run(ctx, "get", "crds", "-l", "helm.sh/chart="+label, "-o", "name")
	must(t, err)
	files, err := filepath.Glob(filepath.Join(s.Root, "config/crd/bases/*.yaml"))
	must(t, err)
	if got := strings.Fields(out); len(files) == 0 || len(got) != len(files) {
		t.Errorf("%d CRDs are of %s, want %d: %v", len(got), label, len(files), got)
	}
}

func (s *site) wantOperator(ctx context.Context, t *testing.T, image string) {
	t.Helper()
	var d appsv1.Deployment
	must(t, s.Get(ctx, client.ObjectKey{Namespace: system, Name: release + "-manager"}, &d))
	if got := d.Spec.Template.Spec.Containers[0].Image; got != image || d.Status.ReadyReplicas != *d.Spec.Replicas {
		t.Errorf("%d replicas of %d are ready with the image %s, want %s", d.Status.ReadyReplicas, *d.Spec.Replicas, got, image)
	}
}

// wantNothingClusterWide fails when the release has left or made a right that goes beyond its namespaces.
func (s *site) wantNothingClusterWide(ctx context.Context, t *testing.T) {
	t.Helper()
	ours := client.MatchingLabels{"app.kubernetes.io/part-of": "quorate"}
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}} {
		must(t, s.List(ctx, list, ours))
		if names := fmt.Sprintf("%v", itemNames(list)); names != "[]" {
			t.Errorf("%T: %s", list, names)
		}
	}
	var pods corev1.PodList
	must(t, s.List(ctx, &pods, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/component": "manager"}))
	if len(pods.Items) != 2 {
		t.Errorf("%d managers, want 2", len(pods.Items))
	}
}

func itemNames(list client.ObjectList) []string {
	var out []string
	switch l := list.(type) {
	case *rbacv1.ClusterRoleList:
		for i := range l.Items {
			out = append(out, l.Items[i].Name)
		}
	case *rbacv1.ClusterRoleBindingList:
		for i := range l.Items {
			out = append(out, l.Items[i].Name)
		}
	}
	return out
}

// stop ends the writing. A write without an answer in time is the machine's doing, where no pod was touched; none may fail or be gone.
func (s *site) stop(ctx context.Context, t *testing.T) {
	t.Helper()
	for mode, l := range s.loads {
		summary, err := l.Stop(ctx)
		must(t, err)
		fmt.Printf("FIGURE %s: %s: %s\n", t.Name(), mode, summary)
		if !summary.Checked || summary.Lost > 0 || summary.Failed > 0 {
			t.Errorf("%s: %d lost, %d failed, because of: %s", mode, summary.Lost, summary.Failed, summary.Misses)
		}
	}
}

// packed is a chart as it is released, and the image that it installs.
type packed struct{ file, image string }

// pack packs the chart of a tree, which is relative to the root of the repository or absolute.
func pack(ctx context.Context, t *testing.T, tree, version, image string) packed {
	t.Helper()
	dir := t.TempDir()
	tag := image[strings.LastIndex(image, ":")+1:]
	_, err := chart.Helm(ctx, "package", filepath.Join(tree, "charts/quorate"), "--version", version, "--app-version", tag, "--destination", dir)
	must(t, err)
	return packed{filepath.Join(dir, "quorate-"+version+".tgz"), image}
}

// packPrevious builds the image of the commit before this one and packs its chart: the release that a site upgrades from. A commit that
// had no chart yet gets this one.
func packPrevious(ctx context.Context, t *testing.T) packed {
	t.Helper()
	root, err := repository.Root()
	must(t, err)
	tree, image := t.TempDir(), "quay.io/quorate/quorate:previous"
	run(ctx, t, root, "bash", "-c", `set -o pipefail; git archive HEAD^ | tar -x -C "$0"`, tree)
	run(ctx, t, tree, "make", "-s", "docker-build", "IMG="+image, "VERSION=previous")
	if _, err := os.Stat(filepath.Join(tree, "charts/quorate")); err != nil {
		tree = "."
	}
	return pack(ctx, t, tree, "0.0.1", image)
}

func run(ctx context.Context, t *testing.T, dir string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
