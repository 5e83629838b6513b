package redisclient_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/stores"
)

// The bus of a cluster takes every certificate of its authority for that of a server: no password is
// asked there, and a peer with a higher epoch takes slots, whose keys their owners then delete.
func TestNothingThatClientsAreHandedOpensTheClusterBus(t *testing.T) {
	t.Parallel()
	for _, engine := range allEngines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 0, true)
			w.startAll()
			w.settle()
			const keys = 300
			c := w.clients()
			for i := range keys {
				if err := c.Set(t.Context(), fmt.Sprintf("key:%d", i), "v", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for _, user := range []string{acl.UserDefault, "app"} {
				handed := manifests.Connection(w.cluster, manifests.Login{Domain: domain, Username: user, Password: "secret", CA: w.ca.Cert})
				a := w.attack(handed)
				if a.joins() {
					t.Fatalf("the Secret of %s opens the cluster bus", user)
				}
				if n := w.keysOf(); n != keys {
					t.Fatalf("%d keys are left after an attack with the Secret of %s, want %d", n, user, keys)
				}
			}
			// The attack works with what builds before the first release handed out.
			leaf, err := clustertls.Issue(w.ca, clustertls.Leaf{CommonName: "carts-client"}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			a := w.attack(map[string][]byte{"ca.crt": w.ca.Cert, "tls.crt": leaf.Cert, "tls.key": leaf.Key})
			if !a.joins() {
				t.Fatal("a certificate of the servers' authority does not open the cluster bus: the attack proves nothing")
			}
			a.takeSlots()
			await(t, "the owners to delete their keys", func() bool { return w.keysOf() == 0 })
		})
	}
}

// attacker is a stock server that speaks to the bus of a cluster.
type attacker struct {
	*goredis.Client
	w  *world
	id string
}

// attack starts a stock server with the files of a Secret, and with a certificate of an authority of
// its own where the Secret has none, and lets it meet every server.
func (w *world) attack(secret map[string][]byte) *attacker {
	w.t.Helper()
	files := map[string][]byte{"ca.crt": secret["ca.crt"], "tls.crt": secret["tls.crt"], "tls.key": secret["tls.key"]}
	if len(files["tls.crt"]) == 0 {
		own, err := clustertls.NewCA("attacker", time.Now())
		if err != nil {
			w.t.Fatal(err)
		}
		leaf, err := clustertls.Issue(own, clustertls.Leaf{CommonName: "carts"}, time.Now())
		if err != nil {
			w.t.Fatal(err)
		}
		files["tls.crt"], files["tls.key"] = leaf.Cert, leaf.Key
	}
	dir := w.t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	p := &process{name: "attacker", dir: dir}
	w.newIP(p)
	p.cmd = exec.CommandContext(w.t.Context(), w.binary, "--port", "0", "--tls-port", "6379", "--tls-cluster", "yes", "--tls-replication", "yes",
		"--tls-cert-file", dir+"/tls.crt", "--tls-key-file", dir+"/tls.key", "--tls-ca-cert-file", dir+"/ca.crt", "--tls-auth-clients", "no",
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--protected-mode", "no", "--save", "", "--dir", dir,
		"--bind", p.ip, "--bind-source-addr", p.ip)
	stores.Start(w.t, p.cmd, filepath.Join(dir, "server.log"))
	w.t.Cleanup(func() { w.kill(p) })
	a := &attacker{w: w, Client: goredis.NewClient(&goredis.Options{
		Addr: p.ip + ":6379", Protocol: 2, DisableIdentity: true,
		TLSConfig: &tls.Config{InsecureSkipVerify: true}, // The attacker need not know its own server.
	})}
	w.t.Cleanup(func() { _ = a.Close() })
	await(w.t, "the attacker's server", func() bool { return a.Ping(w.t.Context()).Err() == nil })
	a.id = a.do("CLUSTER", "MYID")
	for _, victim := range w.pods {
		a.do("CLUSTER", "MEET", victim.ip, "6379")
	}
	return a
}

func (a *attacker) do(args ...any) string {
	a.w.t.Helper()
	text, err := a.Do(a.w.t.Context(), args...).Text()
	if err != nil {
		a.w.t.Fatalf("attacker: %v: %v", args, err)
	}
	return text
}

// joins reports whether every server has taken the attacker for a peer. A handshake that does not succeed
// is given up after the node timeout.
func (a *attacker) joins() bool {
	a.w.t.Helper()
	joined := false
	await(a.w.t, "the handshakes of the attacker to end", func() bool {
		nodes := a.do("CLUSTER", "NODES")
		others := strings.Count(nodes, "\n") - 1
		joined = others >= len(a.w.pods) && !strings.Contains(nodes, "handshake")
		return joined || others == 0
	})
	for _, p := range a.w.pods {
		nodes, err := a.w.direct(p).ClusterNodes(a.w.t.Context()).Result()
		if err != nil {
			a.w.t.Fatal(err)
		}
		if known := strings.Contains(nodes, a.id); known && !joined {
			a.w.t.Errorf("%s knows the attacker", p.name)
		}
	}
	return joined
}

// takeSlots claims every slot with an epoch above all others.
func (a *attacker) takeSlots() {
	a.w.t.Helper()
	a.do("CLUSTER", "BUMPEPOCH")
	_, err := a.Pipelined(a.w.t.Context(), func(p goredis.Pipeliner) error {
		for slot := range 16384 {
			p.Do(a.w.t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", a.id)
		}
		return nil
	})
	if err != nil {
		a.w.t.Fatalf("claim the slots: %v", err)
	}
	a.do("CLUSTER", "BUMPEPOCH")
}

// direct connects to one server as the default user.
func (w *world) direct(p *process) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{
		Addr: p.ip + ":6379", Username: acl.UserDefault, Password: w.passwords[acl.PasswordDefault],
		TLSConfig: w.tlsFor(p.name), Protocol: 2, DisableIdentity: true,
	})
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// keysOf counts the keys on all servers.
func (w *world) keysOf() (n int64) {
	w.t.Helper()
	for _, p := range w.pods {
		size, err := w.direct(p).DBSize(w.t.Context()).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		n += size
	}
	return n
}

// await polls until something holds, for a minute at most.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const often = 100 * time.Millisecond
	poll := func(context.Context) (bool, error) { return holds(), nil }
	if err := wait.PollUntilContextTimeout(t.Context(), often, time.Minute, true, poll); err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}
