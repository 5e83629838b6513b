package redisclient_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// outsideHost is the DNS name that clients outside are sent to with NodePort. With LoadBalancer every pod has a name below it.
const outsideHost = "outside.example.com"

// door is where a pod is reached from outside.
type door struct {
	model.Announcement
	// inside is the address of the Service inside; empty without one.
	inside string
}

func (w *world) announcement(pod string) model.Announcement {
	if d := w.outside[pod]; d != nil {
		return d.Announcement
	}
	return model.Announcement{}
}

func (w *world) doors() []model.Door {
	var out []model.Door
	for pod, d := range w.outside {
		out = append(out, model.Door{Pod: pod, Announcement: d.Announcement, NodePort: max(d.Port, d.TLSPort)})
	}
	return out
}

// withdraw deletes Services.
func (w *world) withdraw(s steps.Withdraw) {
	w.change.Lock()
	defer w.change.Unlock()
	for _, e := range s.Services {
		delete(w.open, e.Pod)
		delete(w.outside, e.Pod)
	}
}

// exposed are the Services inside. Those of pods that there are stay.
func (w *world) exposed() []model.Exposure {
	var out []model.Exposure
	for pod, d := range w.open {
		out = append(out, model.Exposure{Name: pod, Pod: pod, Inside: model.Address{IP: d.IP, Port: max(d.Port, d.TLSPort)}, Wanted: w.pods[pod] != nil && w.outside[pod] != nil})
	}
	return out
}

// enter is where a connection from outside to a host and a port leads to.
func (w *world) enter(host, port string) (string, bool) {
	w.change.RLock()
	defer w.change.RUnlock()
	for pod, d := range w.open {
		p := w.pods[pod]
		at := strconv.Itoa(max(d.Port, d.TLSPort))
		if at == "0" {
			at = strconv.Itoa(model.ClientPort)
		}
		if p != nil && d.Host == host && at == port {
			return p.ip + ":6379", true
		}
	}
	return "", false
}

// balance gives pods a load balancer each.
func (w *world) balance() {
	w.change.Lock()
	defer w.change.Unlock()
	w.outside = map[string]*door{}
	for name := range w.pods {
		w.outside[name] = &door{Announcement: model.Announcement{Host: name + "." + outsideHost}}
	}
	w.open = w.outside
}

// openPorts gives pods a port on the nodes each, with a Service inside that leads to them as the ports do.
func (w *world) openPorts() {
	w.t.Helper()
	w.change.Lock()
	defer w.change.Unlock()
	if w.outside == nil {
		w.outside = map[string]*door{}
		w.open = w.outside
	}
	for name, p := range w.pods {
		if w.outside[name] != nil {
			continue
		}
		n := 10*p.shard + p.ordinal
		d := &door{inside: fmt.Sprintf("%s.%d", w.subnet, 150+n)}
		d.Announcement = model.Announcement{Host: outsideHost, IP: d.inside, Port: 31000 + n}
		if w.secure() {
			d.Port, d.TLSPort = 0, d.Port
		}
		w.outside[name] = d
		w.relay(name, fmt.Sprintf("%s:%d", d.inside, 31000+n), model.ClientPort)
		w.relay(name, fmt.Sprintf("%s:%d", d.inside, model.BusPort), model.BusPort)
	}
}

// relay passes connections on to a port of whichever server runs under the name of a pod, as kube-proxy does.
func (w *world) relay(pod, at string, port int) {
	w.t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(w.t.Context(), "tcp", at)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			w.change.RLock()
			p := w.pods[pod]
			to := ""
			if p != nil {
				to = net.JoinHostPort(p.ip, strconv.Itoa(port))
			}
			w.change.RUnlock()
			go pass(in, to)
		}
	}()
}

func pass(in net.Conn, to string) {
	defer func() { _ = in.Close() }()
	var d net.Dialer
	out, err := d.DialContext(context.Background(), "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			_, _ = io.Copy(pair[1], pair[0])
			_ = pair[0].Close()
			_ = pair[1].Close()
		})
	}
	both.Wait()
}

// outsider is a client that knows no names but those outside.
func (w *world) outsider() *goredis.ClusterClient {
	var addrs []string
	for _, d := range w.outside {
		port := max(d.Port, d.TLSPort)
		if port == 0 {
			port = model.ClientPort
		}
		addrs = append(addrs, fmt.Sprintf("%s:%d", d.Host, port))
	}
	conf := w.tlsFor("carts-0-0")
	c := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: addrs, Username: "default", Password: w.given.Load().(string), MaxRedirects: 20, MinRetryBackoff: 50 * time.Millisecond,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			at, ok := w.enter(host, port)
			if !ok {
				return nil, closed(network, addr)
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, at)
			if err != nil || conf == nil {
				return conn, err
			}
			own := conf.Clone()
			own.ServerName = host
			return tls.Client(conn, own), nil
		},
	})
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// nowhere is an address that leads nowhere.
type nowhere string

func (nowhere) Network() string  { return "tcp" }
func (n nowhere) String() string { return string(n) }

// closed is how a connection fails to where nobody listens.
func closed(network, addr string) error {
	return &net.OpError{Op: "dial", Net: network, Addr: nowhere(addr), Err: syscall.ECONNREFUSED}
}

// TestClientsOutside switches external access on, changes its type and switches it off, while a client inside writes that follows
// where it is sent. In between a client outside, which knows no inner names, goes on while a primary is replaced and shards come
// and go.
func TestClientsOutside(t *testing.T) {
	t.Parallel()
	some := someEngines(t)
	for i, engine := range some {
		for j, secure := range []bool{true, false} {
			if !picked(some, i, j) {
				continue
			}
			t.Run(fmt.Sprintf("%s/tls=%v", engine, secure), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, engine, 3, 1, secure)
				w.startAll()
				w.settle()
				w.write(w.clients())
				w.during(t, w.clients(), "node ports are opened", w.openPorts)
				w.expectSentTo(t, outsideHost)
				outsider := w.outsider()
				w.during(t, outsider, "a primary's pod is deleted", func() {
					p := w.pods[w.primary(t, 0)]
					w.terminate(p)
					pause(t.Context(), time.Second)
					w.recreate(p, false)
				})
				w.during(t, outsider, "all pods move at once", func() {
					for _, p := range w.pods {
						w.terminate(p)
					}
					for _, p := range w.pods {
						w.recreate(p, false)
					}
				})
				w.during(t, outsider, "a primary loses its disk", func() {
					p := w.pods[w.primary(t, 1)]
					w.kill(p)
					w.recreate(p, true)
				})
				for _, shards := range []int32{4, 3} {
					w.during(t, outsider, fmt.Sprintf("there are to be %d shards", shards), func() {
						w.cluster.Spec.Shards = shards
						w.grow()
						w.openPorts()
					})
				}
				w.expectSentTo(t, outsideHost)
				w.during(t, w.clients(), "node ports are closed", func() { w.close() })
				w.expectSentTo(t, "cluster.local")
				w.during(t, w.clients(), "load balancers come", w.balance)
				w.expectSentTo(t, outsideHost)
				w.during(t, w.outsider(), "a primary's pod is deleted", func() {
					p := w.pods[w.primary(t, 0)]
					w.terminate(p)
					w.recreate(p, false)
				})
				w.during(t, w.clients(), "load balancers go", func() { w.close() })
				w.expectSentTo(t, "cluster.local")
				w.expect(w.clients())
			})
		}
	}
}

// close has servers announce their pods again. The doors stay open for a while.
func (w *world) close() {
	w.change.Lock()
	defer w.change.Unlock()
	w.outside = nil
}

// during settles the cluster after a change while a client writes.
func (w *world) during(t *testing.T, c *goredis.ClusterClient, what string, change func()) {
	t.Helper()
	w.steps = nil
	l := w.startLoad(c)
	pause(t.Context(), 200*time.Millisecond)
	change()
	took := w.settle()
	t.Logf("%s: settled after %s", what, took.Round(time.Millisecond))
	pause(t.Context(), time.Second) // It has to go on after the change, too.
	l.end(w, c)
	if len(l.why) > 0 {
		t.Logf("the first that failed: %s", l.why[0])
	}
	if testing.Verbose() {
		t.Logf("%s", strings.Join(w.steps, "\n"))
	}
}

// expectSentTo insists that every server sends clients to hosts that end like this, and to nothing else. Without TLS and from inside
// it sends them to addresses.
func (w *world) expectSentTo(t *testing.T, suffix string) {
	t.Helper()
	for _, p := range w.pods {
		slots, err := w.client(p).ClusterSlots(t.Context()).Result() //nolint:staticcheck // It is what clients ask.
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range slots {
			for _, n := range s.Nodes {
				host, _, _ := net.SplitHostPort(n.Addr)
				inside := net.ParseIP(host) != nil && !w.secure() && w.outside == nil
				if !strings.HasSuffix(host, suffix) && !inside {
					t.Errorf("%s sends clients to %s, want %s", p.name, n.Addr, suffix)
				}
			}
		}
	}
}

// TestAFreshClusterIsReachedByNodePorts: servers that are told from the start where they are reached find each other there.
func TestAFreshClusterIsReachedByNodePorts(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.openPorts()
			w.startAll()
			t.Logf("formed after %s", w.settle().Round(time.Millisecond))
			w.expectSentTo(t, outsideHost)
			c := w.outsider()
			w.write(c)
			w.expect(c)
			for _, step := range w.steps {
				if strings.Contains(step, steps.ReasonAnnounce) {
					t.Errorf("a server had to be told: %s", step)
				}
			}
		})
	}
}
