package redisclient_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

func (w *world) connect(p *process) *redisclient.Client {
	dial := w.dial(p)
	return redisclient.New(redisclient.Options{
		Replicated: w.cluster.Spec.IsReplicated(),
		Logins:     append([]redisclient.Login{{Username: redis.UserOperator, Password: w.passwords[redis.PasswordOperator]}}, w.others...),
		TLS:        w.tlsFor(p.name),
		Dial: func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			if err == nil && w.front != nil {
				conn = w.front(p, conn)
			}
			return conn, err
		},
	})
}

// mover connects as the user that moves keys.
func (w *world) mover(p *process) *redisclient.Client {
	return redisclient.NewMover(redisclient.Options{
		Logins: []redisclient.Login{{Username: redis.UserMigration, Password: w.passwords[redis.PasswordMigration]}}, TLS: w.tlsFor(p.name),
		Dial: w.dial(p),
	})
}

// address is where a server listens now.
func (w *world) address(p *process) redis.Address {
	w.change.RLock()
	defer w.change.RUnlock()
	return redis.Address{IP: p.ip, Port: redis.ClientPort}
}

// dial connects to where a server listens now. A client may go on connecting when the pod has another address.
func (w *world) dial(p *process) func(context.Context) (net.Conn, error) {
	addr := w.address(p).String()
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
}

// drop ends the servers of a shard, as the deletion of its StatefulSet does.
func (w *world) drop(shard int) {
	w.t.Helper()
	var gone []*process
	w.change.Lock()
	delete(w.sets, shard)
	for name, p := range w.pods {
		if p.shard == shard {
			gone = append(gone, p)
			delete(w.pods, name)
		}
	}
	w.change.Unlock()
	w.terminate(gone...)
}

// observe is what the controller does.
func (w *world) observe(ctx context.Context) redis.State {
	spec := w.cluster.Spec
	certificate := ""
	if w.secure() {
		certificate = clustertls.LeafFingerprint(w.leaf.Cert)
	}
	s := redis.State{Now: time.Now(), Accounts: w.accounts, Spec: redis.Spec{
		Name: w.cluster.Name, Namespace: w.cluster.Namespace, Shards: spec.ShardCount(), Replicated: spec.IsReplicated(), Replicas: spec.Replicas(), Version: spec.Version, Persistent: !w.ephemeral, AssignEmpty: w.assignEmpty,
		NodeTimeout: redis.NodeTimeout(spec.Config), ReplaceDead: spec.Recovery.ReplacesDead(), Access: w.access(), HandedOut: true, Hold: hold,
		MemoryLimit: redis.MemoryLimit(spec.Resources), MinReplicas: redis.MinReplicas(&spec),
		Certificate: certificate, Rebalance: w.rebalance,
	}}
	live, err := redis.LiveConfig(&spec)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range w.leaves {
		delete(live, name)
	}
	s.Spec.Live, s.Spec.LiveNames = live, redis.LiveNames(spec.Config)
	for shard := range w.sets {
		s.Sets = append(s.Sets, redis.Set{Shard: shard, Replicas: w.sets[shard], Guarded: w.guarded[shard]})
	}
	s.Appointed, s.Candidate, s.FailedHandOvers = w.appointed, w.candidate, w.failed
	s.Doors, s.Exposed = w.doors(), w.exposed()
	for _, p := range w.pods {
		pod := redis.Pod{
			Role: w.roles[p.name],
			Name: p.name, UID: p.name + "/" + p.ip, Shard: p.shard, Ordinal: p.ordinal, Addr: redis.Address{IP: p.ip, Port: redis.ClientPort}, Gate: p.gate,
			Outdated: p.version != w.cluster.Spec.Version, HasRun: true, Stuck: p.stuck, Ended: p.ended,
			MemoryLimit: p.limit, Resize: redis.Resizing{Wanted: p.limit != redis.MemoryLimit(spec.Resources)},
		}
		if !spec.IsReplicated() {
			pod.Announce = w.announcement(p.name).Parameters(w.host(p.name), p.ip)
			pod.Announce["cluster-preferred-endpoint-type"] = redis.Endpoint(&spec, w.announcement(p.name))
		}
		if p.cmd != nil {
			pod.Started = p.started
			c := w.connect(p)
			asked := time.Now()
			node, err := c.Read(ctx)
			pod.Node, pod.Ready = node, err == nil
			if err == nil {
				pod.Clock = anomaly.ClockOf(p.name, node.Clock, time.Microsecond, asked, time.Now())
			} else {
				pod.Error, pod.Hangs, pod.HungFor = err.Error(), errors.Is(err, redis.ErrHangs), w.hungFor
			}
			_ = c.Close()
		}
		s.Pods = append(s.Pods, pod)
		if !w.ephemeral {
			s.Claims = append(s.Claims, redis.Claim{Name: "data-" + p.name, UID: p.dir, Shard: p.shard, Ordinal: p.ordinal})
		}
	}
	s.Neighbours = w.neighbours()
	w.weigh(ctx, &s)
	w.idle.Watch(&s)
	if w.processes != nil {
		w.processes.Watch(&s)
	}
	return s
}

func (w *world) act(ctx context.Context, step cluster.Step) error {
	w.processes.Stand(step, time.Now())
	if g, ok := step.(redis.Guard); ok {
		for _, shard := range g.Protect {
			w.guarded[shard] = true
		}
		for _, shard := range g.Release {
			delete(w.guarded, shard)
		}
		return nil
	}
	switch s := step.(type) {
	case redis.Appoint:
		w.appoint(s)
		return nil
	case redis.AssignRoles:
		w.assign(s)
		return nil
	case redis.ResizePod:
		w.pods[s.Pod.Name].limit = redis.MemoryLimit(w.cluster.Spec.Resources)
		return nil
	case redis.MoveSlots:
		var errs []error
		for _, m := range s.Moves {
			from, to := w.mover(w.pods[m.From]), w.mover(w.pods[m.To])
			end := time.Now().Add(s.For)
			done, err := m.Run(ctx, from, to, func() bool { return time.Now().Before(end) })
			w.steps = append(w.steps, fmt.Sprintf("%s to %s: %+v %v", m.From, m.To, done, err))
			_, _ = from.Close(), to.Close()
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	case redis.MoverStep:
		pod, _ := s.Server()
		m := w.mover(w.pods[pod])
		defer func() { _ = m.Close() }()
		return s.Run(ctx, m)
	case redis.Withdraw:
		w.withdraw(s)
		return nil
	case redis.DropShard:
		w.drop(s.Shard)
	case redis.ScaleShards:
		return w.scale(s) //nolint:contextcheck // Servers outlive the step.
	case redis.End:
		w.end(s.Pods) //nolint:contextcheck // Servers outlive the step.
		return nil
	case redis.Restart:
		w.restart(s) //nolint:contextcheck // Servers outlive the step.
	case redis.ReplaceDisk:
		w.terminate(w.pods[s.Pod.Name])
		w.recreate(w.pods[s.Pod.Name], true) //nolint:contextcheck // Servers outlive the step.
		return nil
	case redis.Failover:
		former, heir := w.connect(w.pods[s.From]), w.connect(w.pods[s.To])
		defer func() { _, _ = former.Close(), heir.Close() }()
		return s.Run(ctx, former, heir)
	case redis.RotatePasswords:
		w.passwords = s.Apply(w.passwords, time.Now())
		w.given.Store(w.passwords[redis.PasswordDefault])
		return nil
	}
	s, ok := step.(redis.ServerStep)
	if !ok {
		return fmt.Errorf("unexpected step %s", step)
	}
	err := w.tell(ctx, s)
	w.failed.Note(step, err, time.Now())
	return err
}

// tell sends the commands of a step to the servers.
func (w *world) tell(ctx context.Context, s redis.ServerStep) error {
	for _, call := range s.Calls() {
		c := w.connect(w.pods[call.Pod])
		_, err := c.Read(ctx) // As the controller does: this finds out who the server lets in.
		if err == nil {
			err = call.Do(ctx, c)
		}
		_ = c.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", call.Pod, err)
		}
	}
	return nil
}

// settle runs the loop until nothing is left to do, and returns how long it took.
func (w *world) settle() time.Duration {
	w.t.Helper()
	return w.settleUntil("")
}

// refuseReplicas keeps a primary from sending its data to new replicas, as a full disk might, until it starts anew.
func (w *world) refuseReplicas(p *process) {
	w.t.Helper()
	w.leaves = append(w.leaves, "repl-diskless-sync-delay")
	if err := w.do(p, "CONFIG", "SET", "repl-diskless-sync-delay", 3600); err != nil {
		w.t.Fatal(err)
	}
}

// do sends a command as a client that may do anything.
func (w *world) do(p *process, args ...any) error {
	w.t.Helper()
	c := w.client(p)
	defer func() { _ = c.Close() }()
	return c.Do(w.t.Context(), args...).Err()
}

// settleUntil runs the loop until the plan has a reason; the empty one is that of a settled cluster.
func (w *world) settleUntil(reason string) time.Duration {
	w.t.Helper()
	const limit = 2 * time.Minute
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	started := time.Now()
	var last cluster.Plan
	for ctx.Err() == nil {
		p := redis.Next(w.observe(ctx))
		if p.Message != last.Message {
			w.steps = append(w.steps, fmt.Sprintf("%6s %s: %s", time.Since(started).Round(time.Millisecond), p.Reason, p.Message))
		}
		last = p
		if p.Step == nil && p.Reason == reason {
			return time.Since(started)
		}
		if p.Step != nil {
			if err := w.act(ctx, p.Step); err != nil {
				w.steps = append(w.steps, err.Error())
			}
		}
		pause(ctx, max(p.After, 20*time.Millisecond))
	}
	w.t.Errorf("not settled within %s; the last plan was %s: %s\n%s", limit, last.Reason, last.Message, strings.Join(w.steps, "\n"))
	for _, p := range w.pods {
		log, _ := os.ReadFile(filepath.Join(p.dir, "server.log"))
		w.t.Logf("log of %s (%s):\n%s", p.name, p.ip, log[max(0, len(log)-2000):])
	}
	w.t.FailNow()
	return 0
}

// nodeID is the identity of a server that runs.
func (w *world) nodeID(p *process) string {
	w.t.Helper()
	for _, pod := range w.observe(w.t.Context()).Pods {
		if pod.Name == p.name && pod.Node != nil {
			return pod.Node.ID
		}
	}
	w.t.Fatalf("%s does not say who it is", p.name)
	return ""
}

// expectNoSuccessor waits until all others agree that a primary is dead, and then for as long as an election takes:
// within a second of the agreement a replica asks for votes, and it waits for them twice the node timeout
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#replica-election-and-promotion). Nobody of
// its shard may win.
func (w *world) expectNoSuccessor(dead *process, id string) {
	w.t.Helper()
	const limit = time.Minute
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	var agreed time.Time
	for ctx.Err() == nil {
		s := w.observe(ctx)
		for _, p := range s.Pods {
			if p.Shard == dead.shard && p.Name != dead.name && p.Node != nil && len(p.Node.Self().Slots) > 0 {
				w.t.Fatalf("%s succeeds %s", p.Name, dead.name)
			}
		}
		switch {
		case agreed.IsZero() && allSeeDead(s, id):
			agreed = time.Now()
		case !agreed.IsZero() && time.Since(agreed) > time.Second+2*nodeTimeout:
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
	w.t.Fatalf("the others do not agree within %s that %s is dead", limit, dead.name)
}

// allSeeDead reports whether every server but the dead one was read and takes that one for dead.
func allSeeDead(s redis.State, dead string) bool {
	alive := 0
	for _, p := range s.Pods {
		if p.Node == nil || p.Node.ID == dead {
			continue
		}
		if peer, ok := p.Node.Peer(dead); !ok || !peer.Failed {
			return false
		}
		alive++
	}
	return alive == len(s.Pods)-1
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
