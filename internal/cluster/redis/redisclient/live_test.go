package redisclient_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/config"
)

// TestEveryServerTakesWhatIsCalledLive sets every good value of every live parameter as the operator's user, and reads it back.
func TestEveryServerTakesWhatIsCalledLive(t *testing.T) {
	t.Parallel()
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 1, 0, true)
			w.startAll()
			p := w.pods["carts-0-0"]
			w.answers(p)
			c := w.connect(p)
			defer c.Close() //nolint:errcheck // The server goes away with the test.
			number := 0
			for name, values := range w.liveValues(t) {
				for _, value := range values {
					want := config.Normal(name, value)
					if err := c.Configure(t.Context(), map[string]string{name: want}); err != nil {
						t.Errorf("%s %q: %v", name, value, err)
						continue
					}
					node, err := c.Read(t.Context())
					if err != nil {
						t.Fatalf("after %s %q: %v", name, value, err)
					}
					if got := node.Config[name]; got != want {
						t.Errorf("%s was set to %q and is %q", name, want, got)
					}
					number++
				}
			}
			t.Logf("%d values", number)
		})
	}
}

// liveValues are the good values of the live parameters that the server has, under the names that it is asked for.
func (w *world) liveValues(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{
		"appendfsync": {"always", "everysec", "no"}, "cluster-node-timeout": {"5000"}, "maxmemory": {"1073741824", "0"},
		"maxmemory-policy": {"allkeys-lru", "noeviction"}, "min-replicas-to-write": {"1", "0"},
	}
	for name := range everyParameter(t, w.cluster.Spec, 0) {
		if slices.Contains(config.LiveParameters(), name) {
			out[name] = config.FreeParameters[name].Value.Good
		}
	}
	out["activedefrag"] = []string{"no"} // See everyParameter.
	return out
}

// TestTheDocumentTellsWhatIsLive: its table names every parameter, and says what the code does.
func TestTheDocumentTellsWhatIsLive(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	row := regexp.MustCompile(`(?m)^\| (live|restart) \| (.*) \|$`)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(m[2], ", ") {
			got[strings.Trim(name, "`")] = m[1] == "live"
		}
	}
	want := map[string]bool{
		"appendfsync": true, "cluster-node-timeout": true, "maxmemory": true, "maxmemory-policy": true, "min-replicas-to-write": true,
	}
	for name := range config.FreeParameters {
		want[name] = config.Live(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is live (-code +document):\n%s", diff)
	}
}

// TestARealClusterIsConfigured changes settings while a client writes, and restarts nothing.
func TestARealClusterIsConfigured(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.startAll()
			w.settle()
			c := w.clients()
			w.write(c)
			started := w.startTimes()
			w.steps = nil
			l := w.startLoad(c)
			w.cluster.Spec.Config = &v1alpha1.RedisConfig{
				MaxMemory: ptr.To(resource.MustParse("512Mi")), MaxMemoryPolicy: ptr.To("allkeys-lfu"), AppendFsync: ptr.To("always"),
				NodeTimeout: &metav1.Duration{Duration: 2 * time.Second},
				Extra: map[string]v1alpha1.ConfigValue{
					"hz": "50", "repl-backlog-size": "64mb", "client-output-buffer-limit": "pubsub 64mb 16mb 90", "notify-keyspace-events": "KEA", "lua-time-limit": "100",
				},
			}
			took := w.settle()
			l.end(w, c)
			t.Logf("after %s\n%s", took, strings.Join(w.steps, "\n"))
			want, err := config.LiveConfig(&w.cluster.Spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range w.observe(t.Context()).Pods {
				have := maps.Clone(p.Node.Config)
				maps.DeleteFunc(have, func(name, _ string) bool {
					_, wanted := want[name]
					return !wanted // The wanted value of save is empty.
				})
				if diff := cmp.Diff(want, have); diff != "" {
					t.Errorf("%s (-want +got):\n%s", p.Name, diff)
				}
			}
			if diff := cmp.Diff(started, w.startTimes()); diff != "" {
				t.Errorf("servers were restarted:\n%s", diff)
			}
			w.expect(c)
		})
	}
}

func (w *world) startTimes() map[string]time.Time {
	out := map[string]time.Time{}
	for name, p := range w.pods {
		out[name] = p.started
	}
	return out
}

// TestAServerThatDoesNotTellItsSettingsCanBeRead: it was started before the operator's user might ask for them.
func TestAServerThatDoesNotTellItsSettingsCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, engines[0], 1, 0, true)
	w.startAll()
	p := w.pods["carts-0-0"]
	w.answers(p)
	if err := w.do(p, "ACL", "SETUSER", acl.UserOperator, "-config|get"); err != nil {
		t.Fatal(err)
	}
	c := w.connect(p)
	defer c.Close() //nolint:errcheck // The server goes away with the test.
	node, err := c.Read(t.Context())
	if err != nil || node.ID == "" || node.Config != nil {
		t.Errorf("%+v, %v", node, err)
	}
}
