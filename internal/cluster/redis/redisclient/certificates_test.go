package redisclient_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// TestRealCertificates replaces the certificate and then the authority of servers that run, while a client writes that makes a
// new connection for every few writes.
func TestRealCertificates(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.startAll()
			w.settle()
			pids := map[string]int{}
			for name, p := range w.pods {
				pids[name] = p.cmd.Process.Pid
			}
			old := w.ca
			next, err := clustertls.NewCA("next", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			both := slices.Concat(old.Cert, next.Cert)
			w.trusted = both
			c := w.clients()
			c.Options().ConnMaxLifetime = 20 * time.Millisecond
			writing := write(t, c)
			// The operator has connections of its own for every look, in sessions that go on.
			w.sessions = tls.NewLRUClientSessionCache(0)
			w.observe(t.Context())
			for _, phase := range []struct {
				what    string
				signing clustertls.Pair
				bundle  []byte
			}{
				{"renewed", old, old.Cert}, {"along with another authority", old, both}, {"of the other authority", next, both}, {"after the old authority", next, next.Cert},
			} {
				w.steps = nil
				w.issue(phase.signing)
				plan := planner.Next(w.observe(t.Context()))
				if _, ok := plan.Step.(steps.ReloadCertificates); !ok {
					t.Fatalf("%s: planned %s: %s", phase.what, plan.Reason, plan.Message)
				}
				if err := w.act(t.Context(), plan.Step); err != nil { // Nothing has reached the pods yet.
					t.Fatal(err)
				}
				if plan = planner.Next(w.observe(t.Context())); plan.Reason != steps.ReasonReloadCertificates {
					t.Fatalf("%s: planned %s although servers show the old certificate", phase.what, plan.Reason)
				}
				w.project(phase.bundle)
				t.Logf("%s: all servers show it after %s", phase.what, w.settle())
				for name, p := range w.pods {
					if !w.resumes(p) {
						t.Errorf("%s has to prove itself anew at every look", name)
					}
					if accepts := w.accepts(p, next); accepts != strings.Contains(string(phase.bundle), string(next.Cert)) {
						t.Errorf("%s: %s accepts a client of the new authority: %t", phase.what, name, accepts)
					}
					if p.cmd.Process.Pid != pids[name] {
						t.Errorf("%s was restarted", name)
					}
				}
			}
			writing.expectNoRefusal(t)
		})
	}
}

// issue makes another certificate for the servers.
func (w *world) issue(ca clustertls.Pair) {
	w.t.Helper()
	var err error
	w.leaf, err = clustertls.Issue(ca, clustertls.Leaf{
		CommonName: "carts", DNSNames: []string{"*." + cluster.ServiceHost(cluster.PeersService("carts"), "shop", domain)},
	}, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
}

// project brings it to the pods, as the kubelet does.
func (w *world) project(bundle []byte) {
	w.t.Helper()
	for _, p := range w.pods {
		for name, content := range map[string][]byte{"tls.crt": w.leaf.Cert, "tls.key": w.leaf.Key, "ca.crt": bundle} {
			if err := os.WriteFile(filepath.Join(p.dir, name), content, 0o600); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// resumes reports whether a server goes on with the session that the operator had with it.
func (w *world) resumes(p *process) bool {
	w.t.Helper()
	conn, err := (&tls.Dialer{Config: w.tlsFor(p.name)}).DialContext(w.t.Context(), "tcp", p.ip+":6379")
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().DidResume
}

// accepts reports whether a server takes the certificate of a client that an authority signed.
func (w *world) accepts(p *process, ca clustertls.Pair) bool {
	w.t.Helper()
	leaf, err := clustertls.Issue(ca, clustertls.Leaf{CommonName: "client"}, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := w.tlsFor(p.name)
	cfg.Certificates, cfg.ClientSessionCache = []tls.Certificate{pair}, nil
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(w.t.Context(), "tcp", p.ip+":6379")
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	// A server that refuses says so after its side of the handshake only.
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	_, err = conn.Read(make([]byte, 64))
	return err == nil
}
