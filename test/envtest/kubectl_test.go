package envtest

import (
	"strings"
	"testing"
	"time"
)

// What kubectl shows comes from the API server's own tables.
func TestKubectlShowsTheClusters(t *testing.T) {
	s, ctx := apiServer(t), testContext(t)
	for _, c := range []struct {
		kind
		short, status, header, row, wide string
	}{
		{
			etcdKind, "ec", `{size: 3, ready: 3/3, leader: shown-1, currentVersion: 3.6.16, activity: settled}`,
			"NAME SIZE VERSION READY MEMBERS LEADER AGE", "shown 3 3.6.16 True 3/3 shown-1", "ACTIVITY",
		},
		{
			redisKind, "rdc", `{shardCount: 3, ready: 6/6, slots: 16384/16384, currentVersion: 8.0.2, activity: settled}`,
			"NAME ENGINE VERSION SHARDS REPLICAS READY NODES SLOTS AGE", "shown redis 8.0.2 3 1 True 6/6 16384/16384", "ACTIVITY",
		},
		{
			userKind, "eu", `{username: shown, secretName: shown-etcd-user, activity: settled}`,
			"NAME CLUSTER USERNAME READY AGE", "shown orders shown True", "ACTIVITY",
		},
		{
			scalerKind, "qas", `{activity: settled}`,
			"NAME KIND CLUSTER MODE READY LIMITED CHANGED AGE", "shown RedisCluster carts Auto True", "ACTIVITY",
		},
	} {
		u := toUnstructured(t, bad{whole: `metadata: {name: shown}`}.object(t, c.kind))
		if err := s.client.Create(ctx, u); err != nil {
			t.Fatal(err)
		}
		status := parse(t, c.status)
		status["conditions"] = []any{object{
			"type": "Ready", "status": "True", "reason": "Settled", "message": "all is well",
			"lastTransitionTime": time.Unix(0, 0).UTC().Format(time.RFC3339),
		}}
		u.Object["status"] = status
		if err := s.client.Status().Update(ctx, toUnstructured(t, u.Object)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{c.resource, c.short, strings.ToLower(c.name)} {
			out := strings.Split(s.kubectl(t, "get", name, "-n", "default"), "\n")
			// A warning comes first where the name also belongs to something of Kubernetes, as rc does.
			if got := words(out[0]); got != c.header {
				t.Errorf("kubectl get %s: columns %q, want %q", name, got, c.header)
			}
			if got := words(out[1]); !strings.HasPrefix(got, c.row+" ") {
				t.Errorf("kubectl get %s: row %q, want %q and an age", name, got, c.row)
			}
		}
		if out := s.kubectl(t, "get", c.resource, "-n", "default", "-o", "wide"); !strings.Contains(out, c.wide) {
			t.Errorf("kubectl get -o wide lacks %s:\n%s", c.wide, out)
		}
		for _, category := range []string{"all", "quorate"} {
			if out := s.kubectl(t, "get", category, "-n", "default"); !strings.Contains(out, c.resource+"."+"quorate.dev/shown") &&
				!strings.Contains(out, strings.ToLower(c.name)+".quorate.dev/shown") {
				t.Errorf("kubectl get %s does not list the %s:\n%s", category, c.name, out)
			}
		}
		s.kubectl(t, "wait", "--for=condition=Ready", "--timeout=5s", "-n", "default", c.resource+"/shown")
	}
	t.Log("\n" + s.kubectl(t, "get", "etcdclusters,etcdusers,redisclusters,redisusers,backups,backupschedules,restores,autoscalers", "-A"))
	s.kubectl(t, "delete", "etcdclusters,etcdusers,redisclusters,redisusers,backups,backupschedules,restores,autoscalers", "--all", "-n", "default")
}

func TestKubectlExplainsTheFields(t *testing.T) {
	s := apiServer(t)
	for field, want := range map[string][]string{
		"etcdcluster":                              {"EtcdCluster is an etcd cluster"},
		"etcdcluster.spec":                         {"size <integer> -required-", "version <string> -required-", "tls <Object>"},
		"etcdcluster.spec.size":                    {"1, 3, 5 or 7"},
		"etcdcluster.spec.config.electionTimeout":  {"Default: 1s"},
		"etcduser.spec":                            {"clusterName <string> -required-", "permissions <[]Object>"},
		"redisuser.spec":                           {"clusterName <string> -required-", "keys <[]Object>"},
		"rediscluster.spec":                        {"version <string> -required-", "mode <string>", "engine <string>", "enum: redis, valkey"},
		"rediscluster.spec.storage.deletionPolicy": {"ENUM: Retain Delete"},
		"rediscluster.status":                      {"conditions <[]Object>"},
	} {
		out := words(s.kubectl(t, "explain", field))
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("kubectl explain %s lacks %q: %s", field, w, out)
			}
		}
	}
}

func words(line string) string { return strings.Join(strings.Fields(line), " ") }
