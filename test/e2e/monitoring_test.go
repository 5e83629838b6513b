package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/controllers/owned"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/test/harness"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/picture"
	"github.com/quorate/quorate/test/podmonitor"
)

const monitoringDir = "../../config/monitoring"

// unproven are panels that have nothing to show before a backup was checked, which would take another minute.
var unproven = map[string]bool{"Age of the last proof": true, "Time to restore, as measured": true}

// TestPrometheusAnswersTheDashboards has a real Prometheus scrape the manager, a member of etcd and the exporter, each in the way that
// docs/monitoring.md tells, and asks it every query of every dashboard.
func TestPrometheusAnswersTheDashboards(t *testing.T) {
	feature := features.New("monitoring").Assess("every query has an answer", step(func(ctx context.Context, t *testing.T, s *scope) {
		s.podMonitors(ctx, t)
		orders, carts := s.etcdOf(t, "orders", 1), s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) {
			r.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}}
			r.Monitoring = &v1alpha1.RedisMonitoringSpec{}
		})
		orders.Spec.Monitoring = &v1alpha1.EtcdMonitoringSpec{}
		s.create(ctx, t, carts)
		createReady(ctx, t, s, orders)
		schedule(ctx, t, s, orders)
		waitReady(ctx, t, s, carts)
		s.waitMonitored(ctx, t, orders)
		s.waitMonitored(ctx, t, carts)
		prometheus := s.prometheus(ctx, t)
		began := time.Now()
		queries := 0
		for _, q := range dashboardQueries(t, s.ns) {
			queries++
			must(t, harness.Eventually(ctx, fmt.Sprintf("an answer to %q of %s: %s", q.panel, q.dashboard, q.expr), 2*time.Minute, func(ctx context.Context) (bool, string, error) {
				series, err := ask[any](ctx, prometheus, "query", url.Values{"query": {q.expr}})
				return err == nil && len(series) > 0, fmt.Sprintf("%d series, %v", len(series), err), nil
			}))
		}
		figure(t, "Prometheus answered all %d queries of the dashboards %.0f s after it was started", queries, time.Since(began).Seconds())
		time.Sleep(time.Until(began.Add(30 * time.Second))) // A line of two figures shows nothing.
		s.picture(ctx, t, prometheus, began)
	}))
	suite.Test(t, feature.Feature())
}

// schedule takes a backup of a cluster at the next full minute.
func schedule(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) {
	t.Helper()
	s.create(ctx, t, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "kept"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
	s.create(ctx, t, &v1alpha1.BackupSchedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "often"},
		Spec: v1alpha1.BackupScheduleSpec{
			Cluster:  v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: c.Name},
			Schedule: "* * * * *", Destination: v1alpha1.BackupDestination{URL: "pvc://kept/etcd"},
		},
	})
}

// podMonitors has the API server know PodMonitors, and forget them after the test, unless it knows them already.
func (s *scope) podMonitors(ctx context.Context, t *testing.T) {
	t.Helper()
	crd, err := podmonitor.CRD(ctx, "../..")
	must(t, err)
	err = s.Create(ctx, crd)
	must(t, client.IgnoreAlreadyExists(err))
	if err == nil {
		t.Cleanup(func() { must(t, client.IgnoreNotFound(s.Delete(context.WithoutCancel(ctx), crd))) })
	}
}

// waitMonitored waits until everything is in place that spec.monitoring asks for, a PodMonitor among it.
func (s *scope) waitMonitored(ctx context.Context, t *testing.T, o owned.Owner) {
	t.Helper()
	must(t, harness.Eventually(ctx, o.GetName()+" to be monitored", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
		if err := s.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return false, "", err
		}
		c := meta.FindStatusCondition(o.GetConditions(), v1alpha1.ConditionMonitoringReady)
		return c != nil && c.Status == metav1.ConditionTrue, fmt.Sprintf("%+v", c), nil
	}))
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kube.PodMonitorKind)
	must(t, s.List(ctx, list, client.InNamespace(s.ns)))
	if !slices.ContainsFunc(list.Items, func(u unstructured.Unstructured) bool { return metav1.IsControlledBy(&u, o) }) {
		t.Errorf("%s has no PodMonitor: %d in all", o.GetName(), len(list.Items))
	}
}

func (s *scope) manager(ctx context.Context, t *testing.T) *corev1.Pod {
	t.Helper()
	pods, err := s.ManagerPods(ctx)
	if err != nil || len(pods) == 0 {
		t.Fatalf("find the manager among %d pods: %v", len(pods), err)
	}
	return &pods[0]
}

// prometheus starts one on loopback, and returns its URL.
func (s *scope) prometheus(ctx context.Context, t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	manager := s.manager(ctx, t)
	secret := s.secretOf(ctx, t, cluster.ConnectionSecret("orders"))
	toManager := s.forward(ctx, t, client.ObjectKeyFromObject(manager), harness.MetricsPort)
	toEtcd := s.forward(ctx, t, types.NamespacedName{Namespace: s.ns, Name: "orders-0"}, model.ClientPort)
	toExporter := s.forward(ctx, t, s.exporterPod(ctx, t), 9121)
	rules, err := filepath.Abs(filepath.Join(monitoringDir, "rules.yaml"))
	must(t, err)
	settings := map[string]any{
		"global":     map[string]any{"scrape_interval": "2s"},
		"rule_files": []string{rules},
		"scrape_configs": []any{
			map[string]any{
				"job_name": "quorate-metrics", "scheme": "https", "honor_labels": true, "tls_config": map[string]any{"insecure_skip_verify": true},
				"authorization":  map[string]any{"credentials_file": file("token", []byte(s.token(ctx, t, "prometheus", true)))},
				"static_configs": targets(toManager, nil),
			},
			map[string]any{
				"job_name": "etcd", "scheme": "https", "tls_config": map[string]any{
					"server_name": "orders-client", "ca_file": file("ca.crt", secret["ca.crt"]),
					"cert_file": file("tls.crt", secret["tls.crt"]), "key_file": file("tls.key", secret["tls.key"]),
				},
				"static_configs": targets(toEtcd, map[string]string{"namespace": s.ns, "pod": "orders-0", "managed_by": cluster.ManagedBy}),
			},
			map[string]any{"job_name": "redis", "honor_labels": true, "static_configs": targets(toExporter, map[string]string{"managed_by": cluster.ManagedBy})},
		},
	}
	raw, err := yaml.Marshal(settings)
	must(t, err)
	address := loopback.Address(t) //nolint:contextcheck // The port is that of the test, whose context it takes.
	said := &strings.Builder{}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "prometheus", "--config.file="+file("prometheus.yaml", raw),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = said, said
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", said)
		}
	})
	return "http://" + address
}

func targets(address string, labels map[string]string) []any {
	return []any{map[string]any{"targets": []string{address}, "labels": labels}}
}

// exporterPod waits until the exporter serves.
func (s *scope) exporterPod(ctx context.Context, t *testing.T) types.NamespacedName {
	t.Helper()
	var name types.NamespacedName
	must(t, harness.Eventually(ctx, "the exporter to run", 2*time.Minute, func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		err := s.List(ctx, &pods, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelComponent: v1alpha1.ComponentRedisExporter})
		if err != nil || len(pods.Items) == 0 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return false, fmt.Sprintf("%d pods", len(pods.Items)), err
		}
		name = client.ObjectKeyFromObject(&pods.Items[0])
		return true, "", nil
	}))
	return name
}

// forward is an address on loopback that leads to the port of a pod.
func (s *scope) forward(ctx context.Context, t *testing.T, pod types.NamespacedName, port int) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go s.join(ctx, near, pod, port)
		}
	}()
	return l.Addr().String()
}

// join passes on what either side says until one of them has said everything.
func (s *scope) join(ctx context.Context, near net.Conn, pod types.NamespacedName, port int) {
	defer func() { _ = near.Close() }()
	far, err := s.Dial(ctx, pod, "", port)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	over := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			over <- struct{}{}
		}()
	}
	<-over
}

type dashboardQuery struct{ dashboard, panel, unit, expr string }

// dashboardQueries are all queries, as Grafana would ask for the clusters of this test.
func dashboardQueries(t *testing.T, ns string) []dashboardQuery {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(monitoringDir, "dashboards", "*.json"))
	must(t, err)
	var out []dashboardQuery
	for _, file := range files {
		raw, err := os.ReadFile(file)
		must(t, err)
		var d struct {
			Title  string
			Panels []struct {
				Title       string
				Targets     []struct{ Expr string }
				FieldConfig struct{ Defaults struct{ Unit string } }
			}
		}
		must(t, json.Unmarshal(raw, &d))
		name := map[string]string{"Quorate / etcd": "orders", "Quorate / Redis and Valkey": "carts"}[d.Title]
		fill := strings.NewReplacer("$__rate_interval", "1m", "$namespace", ns, "$name", name)
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				if !unproven[p.Title] {
					out = append(out, dashboardQuery{d.Title, p.Title, p.FieldConfig.Defaults.Unit, fill.Replace(q.Expr)})
				}
			}
		}
	}
	return out
}

// ask returns the series that answer a query, in the form of the endpoint of Prometheus.
func ask[T any](ctx context.Context, prometheus, endpoint string, values url.Values) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, prometheus+"/api/v1/"+endpoint+"?"+values.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	var got struct {
		Status, Error string
		Data          struct{ Result []T }
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		return nil, err
	}
	if got.Status != "success" {
		return nil, fmt.Errorf("%s: %s", got.Status, got.Error)
	}
	return got.Data.Result, nil
}

// ranged is a series over a time.
type ranged struct {
	Metric map[string]string
	Values []sample
}

// sample is a time in seconds and a figure as text.
type sample [2]any

func (v sample) point() (picture.Point, error) {
	at, isTime := v[0].(float64)
	text, isText := v[1].(string)
	if !isTime || !isText {
		return picture.Point{}, fmt.Errorf("%v is no sample", v)
	}
	value, err := strconv.ParseFloat(text, 64)
	return picture.Point{Time: time.UnixMilli(int64(at * 1000)), Value: value}, err
}

// picture draws what Prometheus answers to all queries, and writes it next to the results of the tests.
func (s *scope) picture(ctx context.Context, t *testing.T, prometheus string, began time.Time) {
	t.Helper()
	var sections []picture.Section
	drawn := 0
	for _, q := range dashboardQueries(t, s.ns) {
		series, err := ask[ranged](ctx, prometheus, "query_range", url.Values{
			"query": {q.expr}, "start": {began.Format(time.RFC3339)}, "end": {time.Now().Format(time.RFC3339)}, "step": {"2"},
		})
		must(t, err)
		var lines []picture.Line
		for _, r := range series {
			line := picture.Line{Name: q.legend(r.Metric)}
			for _, v := range r.Values {
				at, err := v.point()
				must(t, err)
				if !math.IsNaN(at.Value) && !math.IsInf(at.Value, 0) {
					line.Points = append(line.Points, at)
				}
			}
			if len(line.Points) > 0 {
				lines = append(lines, line)
			}
		}
		if len(sections) == 0 || sections[len(sections)-1].Title != q.dashboard {
			sections = append(sections, picture.Section{Title: q.dashboard})
		}
		drawing, err := picture.Lines(q.panel, q.unit, lines)
		must(t, err)
		last := &sections[len(sections)-1]
		last.Drawings = append(last.Drawings, drawing)
		drawn += len(lines)
	}
	raw, err := picture.Page("What Prometheus answered to the dashboards", sections)
	must(t, err)
	dir := filepath.Join(s.Root, "bin", "reports")
	must(t, os.MkdirAll(dir, 0o750))
	must(t, os.WriteFile(filepath.Join(dir, "dashboards.html"), raw, 0o600))
	figure(t, "bin/reports/dashboards.html shows %d series", drawn)
}

// legend names a series by what tells it from the others.
func (q dashboardQuery) legend(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if !slices.Contains([]string{"__name__", "namespace", "job", "instance", "managed_by"}, name) {
			out = append(out, labels[name])
		}
	}
	return cmp.Or(strings.Join(out, " "), q.panel)
}
