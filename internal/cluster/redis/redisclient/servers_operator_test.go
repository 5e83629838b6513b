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
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

func (w *world) connect(p *process) *redisclient.Client {
	dial := w.dial(p)
	return redisclient.New(redisclient.Options{
		Replicated: w.cluster.Spec.IsReplicated(),
		Logins:     append([]redisclient.Login{{Username: acl.UserOperator, Password: w.passwords[acl.PasswordOperator]}}, w.others...),
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
		Logins: []redisclient.Login{{Username: acl.UserMigration, Password: w.passwords[acl.PasswordMigration]}}, TLS: w.tlsFor(p.name),
		Dial: w.dial(p),
	})
}

// address is where a server listens now.
func (w *world) address(p *process) model.Address {
	w.change.RLock()
	defer w.change.RUnlock()
	return model.Address{IP: p.ip, Port: model.ClientPort}
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
func (w *world) observe(ctx context.Context) model.State {
	spec := w.cluster.Spec
	certificate := ""
	if w.secure() {
		certificate = clustertls.LeafFingerprint(w.leaf.Cert)
	}
	s := model.State{Now: time.Now(), Accounts: w.accounts, Spec: model.Spec{
		Name: w.cluster.Name, Namespace: w.cluster.Namespace, Shards: spec.ShardCount(), Replicated: spec.IsReplicated(), Replicas: spec.Replicas(), Version: spec.Version, Persistent: !w.ephemeral, AssignEmpty: w.assignEmpty,
		NodeTimeout: config.NodeTimeout(spec.Config), ReplaceDead: spec.Recovery.ReplacesDead(), Access: w.access(), HandedOut: true, Hold: hold,
		MemoryLimit: config.MemoryLimit(spec.Resources), MinReplicas: config.MinReplicas(&spec),
		Certificate: certificate, Rebalance: w.rebalance,
	}}
	live, err := config.LiveConfig(&spec)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range w.leaves {
		delete(live, name)
	}
	s.Spec.Live, s.Spec.LiveNames = live, config.LiveNames(spec.Config)
	for shard := range w.sets {
		s.Sets = append(s.Sets, model.Set{Shard: shard, Replicas: w.sets[shard], Guarded: w.guarded[shard]})
	}
	s.Appointed, s.Candidate, s.FailedHandOvers = w.appointed, w.candidate, w.failed
	s.Doors, s.Exposed = w.doors(), w.exposed()
	for _, p := range w.pods {
		pod := model.Pod{
			Role: w.roles[p.name],
			Name: p.name, UID: p.name + "/" + p.ip, Shard: p.shard, Ordinal: p.ordinal, Addr: model.Address{IP: p.ip, Port: model.ClientPort}, Gate: p.gate,
			Outdated: p.version != w.cluster.Spec.Version, HasRun: true, Stuck: p.stuck, Ended: p.ended,
			MemoryLimit: p.limit, Resize: model.Resizing{Wanted: p.limit != config.MemoryLimit(spec.Resources)},
		}
		if !spec.IsReplicated() {
			pod.Announce = w.announcement(p.name).Parameters(w.host(p.name), p.ip)
			pod.Announce["cluster-preferred-endpoint-type"] = model.Endpoint(&spec, w.announcement(p.name))
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
				pod.Error, pod.Hangs, pod.HungFor = err.Error(), errors.Is(err, steps.ErrHangs), w.hungFor
			}
			_ = c.Close()
		}
		s.Pods = append(s.Pods, pod)
		if !w.ephemeral {
			s.Claims = append(s.Claims, model.Claim{Name: "data-" + p.name, UID: p.dir, Shard: p.shard, Ordinal: p.ordinal})
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
	if g, ok := step.(steps.Guard); ok {
		for _, shard := range g.Protect {
			w.guarded[shard] = true
		}
		for _, shard := range g.Release {
			delete(w.guarded, shard)
		}
		return nil
	}
	switch s := step.(type) {
	case steps.Appoint:
		w.appoint(s)
		return nil
	case steps.AssignRoles:
		w.assign(s)
		return nil
	case steps.ResizePod:
		w.pods[s.Pod.Name].limit = config.MemoryLimit(w.cluster.Spec.Resources)
		return nil
	case steps.MoveSlots:
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
	case steps.MoverStep:
		pod, _ := s.Server()
		m := w.mover(w.pods[pod])
		defer func() { _ = m.Close() }()
		return s.Run(ctx, m)
	case steps.Withdraw:
		w.withdraw(s)
		return nil
	case steps.DropShard:
		w.drop(s.Shard)
	case steps.ScaleShards:
		return w.scale(s) //nolint:contextcheck // Servers outlive the step.
	case steps.End:
		w.end(s.Pods) //nolint:contextcheck // Servers outlive the step.
		return nil
	case steps.Restart:
		w.restart(s) //nolint:contextcheck // Servers outlive the step.
	case steps.ReplaceDisk:
		w.terminate(w.pods[s.Pod.Name])
		w.recreate(w.pods[s.Pod.Name], true) //nolint:contextcheck // Servers outlive the step.
		return nil
	case steps.Failover:
		former, heir := w.connect(w.pods[s.From]), w.connect(w.pods[s.To])
		defer func() { _, _ = former.Close(), heir.Close() }()
		return s.Run(ctx, former, heir)
	case steps.RotatePasswords:
		w.passwords = s.Apply(w.passwords, time.Now())
		w.given.Store(w.passwords[acl.PasswordDefault])
		return nil
	}
	s, ok := step.(steps.ServerStep)
	if !ok {
		return fmt.Errorf("unexpected step %s", step)
	}
	err := w.tell(ctx, s)
	history.Note(&w.failed, step, err, time.Now())
	return err
}

// tell sends the commands of a step to the servers.
func (w *world) tell(ctx context.Context, s steps.ServerStep) error {
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
		p := planner.Next(w.observe(ctx))
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
func allSeeDead(s model.State, dead string) bool {
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
