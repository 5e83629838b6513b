package monitoring

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	_ "sigs.k8s.io/controller-runtime/pkg/controller" // Its metrics register themselves.
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/kube"
	redisacl "github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/metrics"
	"github.com/quorate/quorate/internal/redisexporter"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// Every name that a rule, a dashboard or a choice in one asks for has to be told by somebody, or the alert would never fire.
func TestEveryMetricThatIsAskedForExists(t *testing.T) {
	told := operatorMetrics(t)
	for name := range etcdMetrics(t) {
		told[name] = true
	}
	for name := range redisMetrics(t) {
		told[name] = true
	}
	for _, name := range kubeletMetrics {
		told[name] = true
	}
	asked := map[string]string{}
	for _, a := range alerts(t) {
		note(asked, a.Expr, a.Alert)
	}
	for file, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			note(asked, strings.TrimPrefix(v.Query, "label_values("), file)
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				note(asked, filled(q.Expr), file+": "+p.Title)
			}
		}
	}
	if len(asked) < 40 {
		t.Errorf("only %d metrics were found in rules and dashboards: their queries are not understood", len(asked))
	}
	for name, where := range asked {
		if !told[name] {
			t.Errorf("%s asks for %s, which nobody tells", where, name)
		}
	}
}

// What is not asked for by name: matchers, durations, strings, and the labels of aggregations and joins.
var (
	noNames = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)`)
	words   = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
)

func note(asked map[string]string, expr, where string) {
	for _, w := range words.FindAllString(noNames.ReplaceAllString(expr, " "), -1) {
		if strings.Contains(w, "_") && !strings.HasSuffix(w, "(") {
			asked[strings.TrimSpace(w)] = where
		}
	}
}

// kubeletMetrics are those that the kubelet tells of volumes, from pkg/kubelet/metrics/metrics.go and
// pkg/kubelet/metrics/collectors/volume_stats.go of Kubernetes 1.36, with the labels namespace and persistentvolumeclaim.
var kubeletMetrics = []string{"kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes"}

// operatorMetrics are those that the manager registers, by what they describe of themselves.
func operatorMetrics(t *testing.T) map[string]bool {
	t.Helper()
	all := make(chan *prometheus.Desc, 10000)
	m := metrics.New(metrics.Options{})
	m.Describe(all)
	library, ok := ctrlmetrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("the registry %T does not describe itself", ctrlmetrics.Registry)
	}
	library.Describe(all)
	close(all)
	out := map[string]bool{}
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range all {
		found := name.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("%s has no name", d)
		}
		out[found[1]], out[found[1]+"_bucket"], out[found[1]+"_count"] = true, true, true
	}
	return out
}

// start runs a server until the test ends.
func start(t *testing.T, program string, args ...string) {
	t.Helper()
	said := &strings.Builder{}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(program), said)
		}
	})
}

// scrape reads the names of all metrics at an address, until they meet a condition.
func scrape(t *testing.T, url, until string) map[string]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		names, err := exposed(ctx, url)
		if err == nil && names[until] {
			return names
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s does not tell %s: %d metrics, %v", url, until, len(names), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func exposed(ctx context.Context, url string) (map[string]bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" && name != "#" {
			name, _, _ = strings.Cut(name, "{")
			out[name] = true
		}
	}
	return out, nil
}

func etcdMetrics(t *testing.T) map[string]bool {
	t.Helper()
	client, peer, plain := loopback.Address(t), loopback.Address(t), loopback.Address(t)
	start(t, stores.Newest(t, "etcd-3.6").Program(), "--data-dir=data", "--listen-client-urls=http://"+client, "--advertise-client-urls=http://"+client,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=default=http://"+peer,
		"--listen-metrics-urls=http://"+plain)
	return scrape(t, "http://"+plain+"/metrics", "grpc_server_started_total")
}

// redisMetrics are those that the agent's exporter reads of a server, as the user that the operator makes for it.
func redisMetrics(t *testing.T) map[string]bool {
	t.Helper()
	port := loopback.Port(t)
	acl := filepath.Join(t.TempDir(), "users.acl")
	account := redisacl.Account(exporterUser(t), "secret")
	if err := os.WriteFile(acl, []byte(redisacl.UsersText([]redisacl.User{{Name: "default"}, account}, true)), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, stores.Newest(t, "redis-8.0").Program(), "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--aclfile", acl)
	secret := t.TempDir()
	for key, value := range map[string]string{"username": account.Name, "password": "secret", "nodes": fmt.Sprintf("127.0.0.1:%d", port)} {
		if err := os.WriteFile(filepath.Join(secret, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serve := httptest.NewServer(redisexporter.Handler(secret))
	t.Cleanup(serve.Close)
	return scrape(t, serve.URL+"/metrics", "redis_memory_used_bytes")
}

// exporterUser is who the exporter of a cluster connects as.
func exporterUser(t *testing.T) *v1alpha1.RedisUser {
	t.Helper()
	o := &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts"},
		Spec:       v1alpha1.RedisClusterSpec{Monitoring: &v1alpha1.RedisMonitoringSpec{}},
	}
	u, err := kube.Convert[v1alpha1.RedisUser](manifests.Builder{Cluster: o, Owner: metav1ac.OwnerReference()}.ExporterUser())
	if err != nil {
		t.Fatal(err)
	}
	return u
}
