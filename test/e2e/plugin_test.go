package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/test/harness"
)

// plugin runs kubectl-quorate as a person in the namespace of a test.
type plugin struct {
	*scope
	path string
}

// newPlugin builds the plugin as "make build" does.
func newPlugin(ctx context.Context, t *testing.T, s *scope) plugin {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubectl-quorate")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "./cmd/kubectl-quorate")
	build.Dir, build.Env = s.Root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	return plugin{s, path}
}

// run returns what the plugin prints. in is what it reads.
func (p plugin) run(ctx context.Context, t *testing.T, in string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, append([]string{"--kubeconfig", p.Kubeconfig, "-n", p.ns}, args...)...)
	var said strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(in), &said
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl quorate %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	t.Logf("kubectl quorate %s (%s)\n%s%s", strings.Join(args, " "), time.Since(began).Round(100*time.Millisecond), said.String(), out)
	return string(out)
}

// says fails unless the plugin prints all the words.
func (p plugin) says(ctx context.Context, t *testing.T, args []string, words ...string) string {
	t.Helper()
	out := p.run(ctx, t, "", args...)
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("kubectl quorate %s does not say %q", strings.Join(args, " "), word)
		}
	}
	return out
}

func TestThePluginShowsAndActs(t *testing.T) {
	var (
		p      plugin
		orders *v1alpha1.EtcdCluster
		carts  *v1alpha1.RedisCluster
	)
	feature := features.New("kubectl quorate").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			orders = s.etcdOf(t, "orders", 1)
			carts = s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) { r.Shards = 1 })
			s.create(ctx, t, orders)
			s.create(ctx, t, carts)
			s.create(ctx, t, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "kept"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			})
			p = newPlugin(ctx, t, s)
			waitReady(ctx, t, s, orders)
			waitReady(ctx, t, s, carts)
		})).
		Assess("a client reads and writes", step(func(ctx context.Context, t *testing.T, _ *scope) {
			p.says(ctx, t, []string{"shell", "etcdcluster/orders", "--", "put", "greeting", "hello there"}, "OK")
			if out := p.run(ctx, t, "get greeting\nendpoint status\n", "shell", "etcdcluster/orders"); !strings.Contains(out, "hello there") {
				t.Errorf("etcdctl read %q", out)
			}
			if out := p.run(ctx, t, "SET cart:1 'two apples'\nGET cart:1\n", "shell", "rediscluster/carts"); !strings.Contains(out, "two apples") {
				t.Errorf("redis-cli read %q", out)
			}
			p.says(ctx, t, []string{"shell", "rediscluster/carts", "--pod", "carts-0-1", "--", "ROLE"}, "slave")
		})).
		Assess("status and plan", step(func(ctx context.Context, t *testing.T, s *scope) { statusAndPlan(ctx, t, s, p, orders) })).
		Assess("a backup is followed to its end", step(func(ctx context.Context, t *testing.T, _ *scope) {
			p.says(ctx, t, []string{"backup", "etcdcluster/orders", "--destination", "pvc://kept/orders", "--wait"}, "is complete", "stored as")
		})).
		Assess("a replica is promoted", step(func(ctx context.Context, t *testing.T, s *scope) {
			p.says(ctx, t, []string{"promote", "rediscluster/carts", "carts-0-1"}, "done: hand shard 0 from carts-0-0 to carts-0-1")
			must(t, harness.Until(ctx, s.Cluster, carts, harness.Deadline{What: "the operator to see it", Within: time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
				return len(c.Status.Shards) == 1 && c.Status.Shards[0].Primary == "carts-0-1", c.Status.Activity
			}))
			var pod corev1.Pod
			must(t, s.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: "carts-0-1"}, &pod))
			if pod.Annotations[history.AnnotationElection] == "" {
				t.Error("carts-0-1 does not say when it stood for election")
			}
			waitReady(ctx, t, s, carts)
		})).
		Assess("a report holds no password", step(func(ctx context.Context, t *testing.T, s *scope) { reportWithoutSecrets(ctx, t, s, p) }))
	suite.Test(t, feature.Feature())
}

// statusAndPlan looks at a cluster before, while and after it grows.
func statusAndPlan(ctx context.Context, t *testing.T, s *scope, p plugin, orders *v1alpha1.EtcdCluster) {
	t.Helper()
	p.says(ctx, t, []string{"status"}, "EtcdCluster orders  etcd", "orders-0", "Leader", "RedisCluster carts", "████", "16384 slots", "carts-0-1", "Replica")
	p.says(ctx, t, []string{"status", "rediscluster/carts", "--live"}, "behind")
	p.says(ctx, t, []string{"plan", "etcdcluster/orders"}, "nothing: the cluster is as specified")
	p.says(ctx, t, []string{"plan", "rediscluster/carts"}, "nothing: the cluster is as specified")

	edited := orders.DeepCopy()
	edited.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: string(v1alpha1.KindEtcdCluster)}
	edited.ObjectMeta = metav1.ObjectMeta{Name: orders.Name}
	edited.Spec.Size, edited.Status = 3, v1alpha1.EtcdClusterStatus{}
	raw, err := json.Marshal(edited)
	must(t, err)
	plan := p.run(ctx, t, string(raw), "plan", "-f", "-")
	if !strings.Contains(plan, "nothing has been changed") || !strings.Contains(plan, "ScalingOut") {
		t.Errorf("the plan for three members:\n%s", plan)
	}
	if now := refresh(ctx, t, s, orders); now.Spec.Size != 1 || now.Status.Size != 1 {
		t.Errorf("the plan has changed the cluster: size %d of %d", now.Status.Size, now.Spec.Size)
	}
	scale(ctx, t, s, orders, 3)
	p.says(ctx, t, []string{"plan", "etcdcluster/orders"}, "next", "why", "operator")
	p.says(ctx, t, []string{"status", "etcdcluster/orders"}, "Reconciling: ")
	waitReady(ctx, t, s, orders)
	out := p.says(ctx, t, []string{"status", "etcdcluster/orders", "--live", "-o", "json"})
	var seen struct {
		Clusters []struct {
			State  string
			Shards []struct {
				Servers []struct{ Name, Role, Lag string }
			}
		}
	}
	must(t, json.Unmarshal([]byte(out), &seen))
	if len(seen.Clusters) != 1 || seen.Clusters[0].State != "Ready" || len(seen.Clusters[0].Shards[0].Servers) != 3 || seen.Clusters[0].Shards[0].Servers[2].Lag == "" {
		t.Errorf("-o json: %+v", seen)
	}
	p.says(ctx, t, []string{"promote", "etcdcluster/orders", "orders-2"}, "orders-2")
}

// reportWithoutSecrets looks in a report for everything that the Secrets of the namespace hold.
func reportWithoutSecrets(ctx context.Context, t *testing.T, s *scope, p plugin) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	p.run(ctx, t, "", "report", "--file", file)
	files := unpackReport(t, file)
	for _, name := range []string{
		"README.txt", "status.txt", "events.txt", "plans/etcdcluster-orders.txt", "plans/rediscluster-carts.txt",
		"objects/etcdcluster/orders.yaml", "objects/statefulset/carts-0.yaml", "logs/orders-0/etcd.log", "logs/carts-0-0/" + manifests.ContainerServer + ".log",
	} {
		if files[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if readme := files["README.txt"]; strings.Contains(readme, "Not in it") {
		t.Errorf("something could not be read:\n%s", readme)
	}
	operator := false
	for name := range files {
		operator = operator || (strings.HasPrefix(name, "operator/") && len(files[name]) > 0)
	}
	if !operator {
		t.Error("the log of the operator is missing")
	}
	var secrets corev1.SecretList
	must(t, s.List(ctx, &secrets, client.InNamespace(s.ns)))
	looked := 0
	for _, secret := range secrets.Items {
		for key, value := range secret.Data {
			if !strings.Contains(strings.ToLower(key), "password") && !strings.HasSuffix(key, ".key") && secret.Name != cluster.AuthSecret("orders") && secret.Name != cluster.AuthSecret("carts") {
				continue
			}
			looked++
			for name, text := range files {
				if strings.Contains(text, string(value)) {
					t.Errorf("%s has %s of Secret %s", name, key, secret.Name)
				}
			}
		}
	}
	if looked < 4 {
		t.Errorf("only %d secrets were looked for", looked)
	}
}

// unpackReport reads the files of a report, by their names without the directory.
func unpackReport(t *testing.T, path string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	must(t, err)
	files := map[string]string{}
	for in := tar.NewReader(zip); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		text, err := io.ReadAll(in)
		must(t, err)
		_, name, _ := strings.Cut(head.Name, "/")
		files[name] = string(text)
	}
}
