package redisclient_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// newReplicatedWorld is one primary with replicas.
func newReplicatedWorld(t *testing.T, engine string, replicas int32, secure bool) *world {
	t.Helper()
	w := newWorld(t, engine, 1, replicas, secure)
	w.cluster.Spec.Mode = ptr.To(v1alpha1.RedisReplicated)
	w.roles = map[string]string{}
	return w
}

// gate decides as the start gate does.
func (w *world) gate(disk gate.Disk) gate.Decision {
	if w.cluster.Spec.IsReplicated() {
		return gate.DecideReplicated(disk)
	}
	return gate.Decide(disk)
}

// assign does what the labels of the pods do.
func (w *world) assign(s steps.AssignRoles) {
	w.change.Lock()
	defer w.change.Unlock()
	for _, p := range s.Pods {
		w.roles[p.Pod.Name] = p.Role
	}
}

// appoint does what the Service of the primary does.
func (w *world) appoint(s steps.Appoint) {
	w.change.Lock()
	defer w.change.Unlock()
	w.appointed, w.candidate = s.Appointment, s.Candidate
}

// handsOver has a primary hand over to a replica, of which the loop hears later.
func (w *world) handsOver(from, to *process) {
	w.t.Helper()
	must(w.t, w.act(w.t.Context(), steps.HandOver{From: from.name, To: to.name, Addr: model.Address{IP: to.ip, Port: model.ClientPort}}))
}

// untilItCopies waits until a server is a replica that is in touch with what it copies.
func (w *world) untilItCopies(p *process) {
	w.t.Helper()
	c := w.connect(p)
	defer func() { _ = c.Close() }()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); pause(w.t.Context(), 20*time.Millisecond) {
		if n, err := c.Read(w.t.Context()); err == nil && !n.Replication.Primary && n.LinkUp {
			return
		}
	}
	w.t.Fatalf("%s copies nobody", p.name)
}

// end kills servers, as the kubelet does with those that do not end by themselves.
func (w *world) end(pods []steps.PodRef) {
	w.t.Helper()
	for _, ref := range pods {
		w.kill(w.pods[ref.Name])
		w.recreate(w.pods[ref.Name], w.ephemeral)
	}
}

// primaryIP is where the Service of the primary leads to, empty when it leads nowhere.
func (w *world) primaryIP() string {
	w.change.RLock()
	defer w.change.RUnlock()
	c := w.candidate
	if p := w.pods[cmp.Or(c.Pod, w.appointed.Pod)]; p != nil && (w.roles[p.name] == model.RolePrimary || (c.Pod != "" && c.History == "")) {
		return p.ip
	}
	return ""
}

// plainClient is a client that knows nothing but the Service of the primary.
func (w *world) plainClient() *goredis.Client {
	var conf *tls.Config
	if w.secure() {
		conf = w.tlsFor("carts-0-0")
	}
	c := goredis.NewClient(&goredis.Options{
		CredentialsProvider: func() (string, string) { return "default", w.given.Load().(string) },
		DialTimeout:         time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			ip := w.primaryIP()
			if ip == "" {
				return nil, errors.New("the Service has no endpoint")
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, net.JoinHostPort(ip, "6379"))
			if err != nil || conf == nil {
				return conn, err
			}
			secure := tls.Client(conn, conf)
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return secure, secure.HandshakeContext(ctx)
		},
	})
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) startPlainWriter() *plainWriter {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // stopped by its user
	wr := &plainWriter{w: w, c: w.plainClient(), stop: cancel}
	wr.done.Go(func() {
		last := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprintf("written-%d", i)
			err := wr.c.Set(ctx, key, value, 0).Err()
			now := time.Now()
			wr.mu.Lock()
			if err == nil {
				wr.stall = max(wr.stall, now.Sub(last))
				last = now
				wr.acked, wr.names = append(wr.acked, now), append(wr.names, key)
			}
			wr.mu.Unlock()
			pause(ctx, time.Millisecond)
		}
	})
	w.t.Cleanup(cancel)
	return wr
}

// fullCopies counts how often replicas copied everything.
func (w *world) fullCopies() int64 {
	w.t.Helper()
	var n int64
	for _, p := range w.pods {
		if p.cmd == nil {
			continue
		}
		c := goredis.NewClient(&goredis.Options{
			Addr: p.ip + ":6379", Username: "default", Password: w.given.Load().(string), TLSConfig: w.tlsFor(p.name),
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		var full int64
		text, err := c.Info(w.t.Context(), "STATS").Result()
		for line := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "sync_full:"); ok {
				_, err = fmt.Sscan(v, &full)
			}
		}
		_ = c.Close()
		if err != nil {
			w.t.Fatal(err)
		}
		n += full
	}
	return n
}

func (w *world) lead() *process {
	w.t.Helper()
	p := w.pods[w.appointed.Pod]
	if p == nil {
		w.t.Fatal("nobody is the primary")
	}
	return p
}

// loopUntil runs the loop until something holds.
func (w *world) loopUntil(holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	started, last := time.Now(), ""
	for ctx.Err() == nil {
		p := planner.Next(w.observe(ctx))
		if p.Message != last {
			w.steps, last = append(w.steps, fmt.Sprintf("%6s %s: %s", time.Since(started).Round(time.Millisecond), p.Reason, p.Message)), p.Message
		}
		if holds() {
			return
		}
		if p.Step != nil {
			if err := w.act(ctx, p.Step); err != nil {
				w.steps = append(w.steps, err.Error())
			}
		}
		pause(ctx, max(min(p.After, time.Second), 20*time.Millisecond))
	}
	w.t.Fatalf("it did not happen\n%s", strings.Join(w.steps, "\n"))
}

// plainWriter writes one key after another until it is stopped, and remembers when each was acknowledged.
type plainWriter struct {
	w     *world
	c     *goredis.Client
	stop  context.CancelFunc
	done  sync.WaitGroup
	mu    sync.Mutex
	acked []time.Time // by key
	names []string
	stall time.Duration
}

// count of acknowledged writes.
func (wr *plainWriter) count() int {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return len(wr.acked)
}

// waitFor waits until so many more writes were acknowledged.
func (wr *plainWriter) waitFor(more int) {
	wr.w.t.Helper()
	from, end := wr.count(), time.Now().Add(30*time.Second)
	for wr.count() < from+more {
		if time.Now().After(end) {
			wr.w.t.Fatalf("%d writes were acknowledged instead of %d more than %d\n%s", wr.count(), more, from, strings.Join(wr.w.steps, "\n"))
		}
		pause(wr.w.t.Context(), 10*time.Millisecond)
	}
}

// finish stops the writer and returns when each lost write was acknowledged.
func (wr *plainWriter) finish(what string) (lost []time.Time) {
	wr.w.t.Helper()
	wr.stop()
	wr.done.Wait()
	var first string
	for i, part := range slices.Collect(slices.Chunk(wr.names, 500)) {
		values, err := wr.c.MGet(wr.w.t.Context(), part...).Result()
		if err != nil {
			wr.w.t.Fatalf("read back: %v", err)
		}
		for j, v := range values {
			if v == nil {
				lost = append(lost, wr.acked[i*500+j])
				if first == "" {
					first = part[j]
				}
			}
		}
	}
	wr.w.t.Logf("%s: %d writes acknowledged, %d lost %s, the longest stall was %s", what, len(wr.acked), len(lost), first, wr.stall.Round(time.Millisecond))
	return lost
}

// nothingLost fails when an acknowledged write is gone.
func (wr *plainWriter) nothingLost(what string) {
	wr.w.t.Helper()
	if lost := wr.finish(what); len(lost) > 0 {
		wr.w.t.Errorf("%s: %d acknowledged writes are lost\n%s", what, len(lost), strings.Join(wr.w.steps, "\n"))
	}
}

// lostOnlyAround fails when a write is gone that was acknowledged long before a fault: it had been copied.
func (wr *plainWriter) lostOnlyAround(what string, fault time.Time) {
	wr.w.t.Helper()
	for _, at := range wr.finish(what) {
		if fault.Sub(at) > 500*time.Millisecond {
			wr.w.t.Fatalf("%s: a write is lost that was acknowledged %s before\n%s", what, fault.Sub(at), strings.Join(wr.w.steps, "\n"))
		}
	}
}

func eachEngine(t *testing.T, test func(t *testing.T, engine string, secure bool)) {
	t.Helper()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			test(t, engine, slices.Index(engines, engine)%2 == 0)
		})
	}
}
