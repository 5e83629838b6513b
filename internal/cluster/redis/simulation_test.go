package redis_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
)

var (
	seeds    = flag.Int("seeds", 2000, "number of simulated runs")
	oneSeed  = flag.Uint64("seed", 0, "the one seed to run, with its full trace")
	giveUp   = 5 * time.Minute
	nodeTime = 5 * time.Second
)

// simulation is a cluster, the Kubernetes around it, an operator that may crash after every command, and clients that
// remember what was acknowledged to them.
type simulation struct {
	rnd   *rand.Rand
	net   *redisfake.Network
	spec  redis.Spec
	pods  []*simPod
	acked map[redis.Range]int
	// won is the epoch under which a range last changed hands. Who claims it under an older one has not heard of that.
	won map[redis.Range]uint64
	// struck are the ranges whose owner a fault has hit since they changed hands. Only those may lose what was acknowledged.
	struck map[redis.Range]bool
	// guarded are the shards that allow no evictions.
	guarded map[int]bool
	// assigned are the ranges that the operator has assigned at some time.
	assigned map[redis.Range]bool
	// bereft says that a fault took more than the cluster can be expected to get over without a human.
	bereft bool
	ips    int
	uids   int
	// freed are addresses of pods that are gone; another pod may get them.
	freed  []redis.Address
	crash  int // the number of commands after which the operator dies, counted over the whole run; 0: by chance
	calls  int
	trace  []string
	broken string
}

type simPod struct {
	name, uid      string
	shard, ordinal int
	exists         bool
	outdated       bool
	server         *redisfake.Server
	backAt         time.Time
	started        time.Time
	// restart says that only the process is down, so that it comes back at the same address.
	restart bool
	cutTill time.Time
	// linkSeen says that the server was in sync when it was observed last.
	linkSeen bool
	// emptied says that the server lost its data and kept its identity, while others have copies.
	emptied bool
}

func newSimulation(seed uint64, faults bool) *simulation {
	rnd := rand.New(rand.NewPCG(seed, 1))
	s := &simulation{rnd: rnd, net: redisfake.NewNetwork(nodeTime, rnd), acked: map[redis.Range]int{}, won: map[redis.Range]uint64{}, assigned: map[redis.Range]bool{}, struck: map[redis.Range]bool{}, guarded: map[int]bool{}}
	s.spec = redis.Spec{Name: "c", Shards: 1 + rnd.IntN(4), Replicas: rnd.IntN(3), Version: "8.0.2", NodeTimeout: nodeTime, Persistent: rnd.IntN(3) > 0}
	if !faults {
		s.spec = redis.Spec{Name: "c", Shards: 3, Replicas: 1, Version: "8.0.2", NodeTimeout: nodeTime, Persistent: true}
	}
	s.net.Promoted = s.promoted
	if rnd.IntN(4) == 0 { // Hashes take more time than all the rest.
		s.spec.Access = &redis.Access{Passwords: simPasswords}
		s.spec.HandedOut, s.spec.Hold = true, 20*time.Second
		s.net.Gate = s.users
	}
	for shard := range s.spec.Shards {
		for ordinal := range s.spec.Copies() {
			p := &simPod{name: cluster.Pod(cluster.ShardSet("c", shard), ordinal), shard: shard, ordinal: ordinal}
			s.pods = append(s.pods, p)
			p.backAt = s.soon(20)
		}
	}
	return s
}

var simPasswords = map[string]string{
	redis.PasswordDefault: "a", redis.PasswordOperator: "b", redis.PasswordReplication: "c", redis.PasswordMigration: "d",
}

// wantedUsers are those that the server of a pod is to have.
func (s *simulation) wantedUsers(w *redisfake.Server) []redis.User {
	name, _, _ := strings.Cut(w.Host, ".")
	users, err := s.spec.Access.Users(name, redis.Software{Engine: v1alpha1.EngineRedis, Version: "8.0.2"})
	if err != nil {
		s.fail("%v", err)
	}
	return users
}

// checkPasswords insists that every server takes the password that clients are given, and was started with it or got it.
func (s *simulation) checkPasswords() {
	if s.spec.Access == nil {
		return
	}
	want := redis.Hash(s.spec.Access.Passwords[redis.PasswordDefault])
	for _, p := range s.pods {
		if p.server == nil || !p.server.Up {
			continue
		}
		for _, u := range p.server.Users {
			if u.Name == redis.UserDefault && !slices.Contains(u.Passwords, want) {
				s.fail("%s does not take the password that clients are given", p.name)
			}
		}
	}
}

// wishPasswords is a user who wants other passwords. As long as they are being replaced, that waits.
func (s *simulation) wishPasswords() {
	if s.spec.Access == nil || s.spec.Access.Replacing() {
		return
	}
	s.log("other passwords are wanted")
	next := map[string]string{}
	for _, key := range redis.PasswordKeys {
		next[key] = fmt.Sprint(s.rnd.Uint64())
	}
	s.spec.Access = &redis.Access{Passwords: redis.Introduce(s.spec.Access.Passwords, next)}
}

// rotate carries out one phase of the replacement of passwords.
func (s *simulation) rotate(step redis.RotatePasswords) {
	if s.dies() {
		return
	}
	s.spec.Access = &redis.Access{Passwords: step.Apply(s.spec.Access.Passwords, s.net.Now())}
}

// users are those that a start gate writes: of this version of the operator, of one whose users could do less, or of one
// that could not even list them.
func (s *simulation) users(w *redisfake.Server) []redis.User {
	users := s.wantedUsers(w)
	switch s.rnd.IntN(3) {
	case 0:
		return nil
	case 1:
		users[1].Commands = users[1].Commands[:3]
		return users[:3]
	}
	return users
}

// soon is some time within the next so many ticks.
func (s *simulation) soon(ticks int) time.Time {
	return s.net.Now().Add(time.Duration(1+s.rnd.IntN(ticks)) * redisfake.Cron)
}

func (s *simulation) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%6.1fs ", s.net.Now().Sub(time.Unix(0, 0)).Seconds())+fmt.Sprintf(format, args...))
}

func (s *simulation) fail(format string, args ...any) {
	if s.broken == "" {
		s.broken = fmt.Sprintf(format, args...)
		s.log("BROKEN: %s", s.broken)
	}
}

func (s *simulation) unit(shard int) redis.Range { return redis.Share(shard, s.spec.Shards)[0] }

// promoted writes off what the winner of an unplanned election never received, and insists on everything otherwise.
func (s *simulation) promoted(w *redisfake.Server, r redis.Range, planned bool) {
	if planned && w.Data[r] < s.acked[r] {
		s.fail("planned failover lost %d acknowledged writes", s.acked[r]-w.Data[r])
	}
	if lost := s.acked[r] - w.Data[r]; lost > 0 && !s.struck[r] {
		s.fail("%d acknowledged writes are lost without a fault", lost)
	}
	s.struck[r] = false
	s.log("%s becomes owner of %s (planned %v), %d writes of %d", s.podOf(w), r, planned, w.Data[r], s.acked[r])
	s.acked[r], s.won[r] = w.Data[r], w.Epoch()
	s.fill(r)
}

// fill takes note that nobody has more of a range any more than its owner.
func (s *simulation) fill(r redis.Range) {
	for _, p := range s.pods {
		p.emptied = p.emptied && s.unit(p.shard) != r
	}
}

func (s *simulation) podOf(w *redisfake.Server) string {
	for _, p := range s.pods {
		if p.server == w {
			return p.name
		}
	}
	return "nobody"
}

// pass lets some time go by: servers gossip, pods come back, clients write.
func (s *simulation) pass() {
	for range 1 + s.rnd.IntN(4) {
		s.net.Tick()
		for _, p := range s.pods {
			s.revive(p)
		}
		for shard := range s.spec.Shards {
			s.write(s.unit(shard))
		}
	}
	s.checkData()
	s.checkPasswords()
}

func (s *simulation) revive(p *simPod) {
	now := s.net.Now()
	if p.server != nil && now.After(p.cutTill) {
		p.server.Cut = false
	}
	if p.backAt.IsZero() || now.Before(p.backAt) {
		return
	}
	p.backAt = time.Time{}
	p.started = now
	if p.restart {
		p.restart = false
		p.server.Restart()
		return
	}
	p.exists, p.outdated, p.emptied = true, false, false
	s.uids++
	p.uid = fmt.Sprint(s.uids)
	if addr := s.address(); p.server == nil {
		p.server = s.net.Add(addr, p.shard, p.name+".c-peers")
	} else {
		p.server.Start(addr)
	}
}

// address is one that no pod has: a new one or that of a pod that is gone.
func (s *simulation) address() redis.Address {
	if n := len(s.freed); n > 0 && s.rnd.IntN(2) == 0 {
		i := s.rnd.IntN(n)
		a := s.freed[i]
		s.freed = slices.Delete(s.freed, i, i+1)
		return a
	}
	s.ips++
	return redis.Address{IP: fmt.Sprintf("10.0.%d.%d", s.ips/250, s.ips%250), Port: 6379}
}

// write is a client's: it follows redirections to the owner with the highest epoch.
func (s *simulation) write(r redis.Range) {
	owner := s.owner(r)
	if owner != nil && s.emptied(owner) {
		return // What it takes is lost when it is deposed.
	}
	if owner != nil && owner.Up && owner.StateOK() && s.rnd.IntN(2) == 0 {
		owner.Data[r]++
		s.acked[r] = owner.Data[r]
	}
}

// checkData insists that the rightful owner of a range has every write that was acknowledged. An old primary that comes
// back at a time when all addresses have changed believes for a moment that it still is one; Redis has no cure for that.
func (s *simulation) checkData() {
	for shard := range s.spec.Shards {
		r := s.unit(shard)
		if o := s.owner(r); o != nil && !s.emptied(o) && o.Data[r] < s.acked[r] {
			s.fail("%s owns %s with %d of %d acknowledged writes", s.podOf(o), r, o.Data[r], s.acked[r])
		}
	}
	for _, p := range s.pods {
		for shard := range s.spec.Shards {
			if p.server != nil && shard != p.shard && p.server.Data[s.unit(shard)] > 0 {
				s.fail("%s has copied shard %d", p.name, shard)
			}
		}
	}
}

func (s *simulation) emptied(w *redisfake.Server) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.server == w && p.emptied })
}

// owner is who rightfully owns a range, running or not.
func (s *simulation) owner(r redis.Range) *redisfake.Server {
	var owner *redisfake.Server
	for _, p := range s.pods {
		if p.server == nil || !owns(p.server, r) || p.server.Epoch() < s.won[r] {
			continue
		}
		if owner != nil && owner.Epoch() == p.server.Epoch() {
			s.fail("%s and %s own %s under the same epoch", s.podOf(owner), p.name, r)
		}
		if owner == nil || p.server.Epoch() > owner.Epoch() {
			owner = p.server
		}
	}
	return owner
}

func (s *simulation) delete(p *simPod, loseDisk bool, ticks int) {
	if p.server != nil {
		p.server.Stop()
		if p.exists {
			s.freed = append(s.freed, p.server.Addr)
		}
		if loseDisk || p.emptied {
			s.mourn(p)
			s.net.Remove(p.server)
			p.server = nil
			if !slices.ContainsFunc(s.pods, func(o *simPod) bool { return o.server != nil }) {
				s.bury() // Nothing is left of the cluster: the next one is a new one.
			}
		}
	}
	p.exists, p.restart, p.backAt = false, false, s.soon(ticks)
}

// strike is what a fault does to a pod. What its server had not on disk is written off, which is for no step to do.
func (s *simulation) strike(p *simPod, loseDisk bool, ticks int) {
	s.hit(p)
	s.delete(p, loseDisk, ticks)
	s.crashed(p)
}

func (s *simulation) hit(p *simPod) {
	if r := s.unit(p.shard); p.server != nil && owns(p.server, r) {
		s.struck[r] = true
	}
}

func (s *simulation) crashed(p *simPod) {
	r := s.unit(p.shard)
	if !slices.ContainsFunc(s.pods, func(o *simPod) bool { return o.shard == p.shard && o.server != nil && o.server.Data[r] > 0 }) {
		s.acked[r] = 0
		s.fill(r)
	}
	if p.server != nil && owns(p.server, r) && p.server.Epoch() >= s.won[r] {
		s.acked[r] = min(s.acked[r], p.server.Data[r])
	}
}

// bury forgets a cluster of which nothing is left.
func (s *simulation) bury() {
	clear(s.assigned)
	clear(s.won)
}

// mourn judges whether a cluster can get over the loss of a disk, and writes off what nobody else has.
func (s *simulation) mourn(p *simPod) {
	r := s.unit(p.shard)
	copies, best := 0, 0
	for _, o := range s.others(p) {
		if o.shard != p.shard {
			continue
		}
		best = max(best, o.server.Data[r])
		if owns(o.server, r) || (o.server.Primary() != "" && o.server.HasCopy()) {
			copies++
		}
	}
	living := s.living(p)
	if s.acked[r] = min(s.acked[r], best); s.acked[r] == 0 {
		s.fill(r)
	}
	// A second primary lost before the first was replaced may leave an election without a majority.
	if copies == 0 || 2*living <= s.spec.Shards || living < s.spec.Shards-1 {
		s.bereft = true
	}
}

// others are the pods besides p that have a disk.
func (s *simulation) others(p *simPod) []*simPod {
	return slices.DeleteFunc(slices.Clone(s.pods), func(o *simPod) bool { return o == p || o.server == nil })
}

// living counts the shards with an owner, not counting p, nor one that has not heard of its successor.
func (s *simulation) living(p *simPod) int {
	n := 0
	for shard := range s.spec.Shards {
		r := s.unit(shard)
		if slices.ContainsFunc(s.others(p), func(o *simPod) bool { return owns(o.server, r) && o.server.Epoch() >= s.won[r] }) {
			n++
		}
	}
	return n
}

// owns tells whether a server, or its disk while it is down, owns a range.
func owns(v *redisfake.Server, r redis.Range) bool {
	up := v.Up
	v.Up = true
	defer func() { v.Up = up }()
	return v.Owns(r)
}

// fault does one random bad thing.
func (s *simulation) fault() {
	p := s.pods[s.rnd.IntN(len(s.pods))]
	ephemeral := !s.spec.Persistent
	switch s.rnd.IntN(10) {
	case 9:
		s.wishPasswords()
	case 0, 1:
		s.log("fault: pod %s is deleted", p.name)
		s.strike(p, ephemeral, 30)
	case 2:
		s.kill(p, 20)
	case 3:
		s.log("fault: the node of %s is lost for a while", p.name)
		if s.rnd.IntN(3) == 0 {
			s.kill(p, 1200) // Its pod stays.
		} else {
			s.strike(p, ephemeral, 400)
		}
	case 4:
		s.cutOff(p)
	case 5:
		if s.rnd.IntN(3) == 0 {
			s.log("fault: pod %s and its disk are lost", p.name)
			s.strike(p, true, 30)
		}
	case 6:
		if s.rnd.IntN(4) == 0 {
			s.log("fault: all pods are deleted at once")
			for _, p := range s.pods {
				s.strike(p, ephemeral, 30)
			}
		}
	case 7:
		s.log("the template changes")
		for _, p := range s.pods {
			p.outdated = true
		}
	case 8:
		s.meddle()
	}
}

func (s *simulation) kill(p *simPod, ticks int) {
	if p.server == nil || !p.exists {
		return
	}
	s.log("fault: the server of %s is killed", p.name)
	s.hit(p)
	p.server.Stop()
	s.crashed(p)
	p.restart, p.backAt = true, s.soon(ticks)
	if p.server.StartedEmpty() && s.rnd.IntN(4) == 0 {
		s.log("fault: so is its data")
		s.mourn(p)
		p.emptied = s.acked[s.unit(p.shard)] > 0
		clear(p.server.Data)
	}
}

func (s *simulation) cutOff(p *simPod) {
	if p.server == nil {
		return
	}
	s.log("fault: the operator cannot reach %s", p.name)
	p.server.Cut, p.cutTill = true, s.soon(100)
}

// meddle is a human who makes all servers forget a node that is gone, slots and all.
func (s *simulation) meddle() {
	if s.rnd.IntN(2) == 0 {
		s.changeUser()
		return
	}
	for _, g := range s.gone() {
		s.log("fault: a human forgets %s", g)
		s.bereft = true
		for _, p := range s.pods {
			if p.server != nil {
				_ = p.server.Forget(context.Background(), g)
			}
		}
	}
}

// changeUser is a human who takes a right from a user of some server, or a user from it.
func (s *simulation) changeUser() {
	p := s.pods[s.rnd.IntN(len(s.pods))]
	if p.server == nil || len(p.server.Users) == 0 {
		return
	}
	s.log("fault: a human changes a user of %s", p.name)
	i := s.rnd.IntN(len(p.server.Users))
	u := p.server.Users[i]
	u.Commands = u.Commands[:1]
	p.server.Users = slices.Delete(slices.Clone(p.server.Users), i, i+1)
	if s.rnd.IntN(2) == 0 {
		p.server.Users = append(p.server.Users, u)
	}
}

// gone are the nodes that some server knows and that exist no more.
func (s *simulation) gone() []string {
	var out []string
	for _, p := range s.pods {
		if p.server == nil || !p.server.Up || p.server.Cut {
			continue
		}
		node, err := p.server.Read(context.Background())
		if err != nil {
			continue
		}
		for _, peer := range node.Peers {
			exists := slices.ContainsFunc(s.pods, func(o *simPod) bool { return o.server != nil && o.server.ID == peer.ID })
			if !exists && !peer.Handshake && !slices.Contains(out, peer.ID) {
				out = append(out, peer.ID)
			}
		}
	}
	return out
}

func (s *simulation) observe() redis.State {
	state := redis.State{Spec: s.spec, Now: s.net.Now()}
	for shard := range s.spec.Shards {
		state.Sets = append(state.Sets, redis.Set{Shard: shard, Replicas: s.spec.Copies(), Guarded: s.guarded[shard]})
	}
	for _, p := range s.pods {
		if !p.exists {
			continue
		}
		if s.rnd.IntN(20) == 0 {
			s.net.Tick() // The answers of an observation are never all of the same moment.
		}
		pod := redis.Pod{
			Name: p.name, UID: p.uid, Shard: p.shard, Ordinal: p.ordinal, Addr: p.server.Addr,
			Ready: p.server.Up, Outdated: p.outdated, HasRun: true, Started: p.started,
		}
		pod.Node, _ = p.server.Read(context.Background())
		p.linkSeen = pod.Node != nil && pod.Node.LinkUp
		state.Pods = append(state.Pods, pod)
	}
	return state
}

func (s *simulation) pod(name string) *simPod {
	return s.pods[slices.IndexFunc(s.pods, func(p *simPod) bool { return p.name == name })]
}

// check judges a step by what the world knows and the planner cannot.
func (s *simulation) check(step cluster.Step) {
	switch st := step.(type) {
	case redis.SetConfigEpochs:
		if !slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.server != nil && len(p.server.Data) > 0 }) {
			s.bury() // Faults and humans have left nothing of the cluster: the next one is a new one.
		}
	case redis.AddSlots:
		for _, o := range st.Owners {
			s.checkAssignment(s.pod(o.Pod), o.Slots[0])
		}
	case redis.Forget:
		for _, p := range s.pods {
			if p.server != nil && p.server.ID == st.ID {
				s.fail("%s forgets the node of %s, which still exists", st, p.name)
			}
		}
	case redis.Replicate:
		for _, f := range st.Replicas {
			if p := s.pod(f.Pod); s.pod(f.Primary).shard != p.shard {
				s.fail("%s: that is another shard", st)
			}
		}
	case redis.Failover:
		to, from := s.pod(st.To), s.pod(st.From)
		if to.shard != from.shard {
			s.fail("%s: that is another shard", st)
		}
		if !to.server.OnDisk() {
			s.fail("%s: its copy is not on disk", st)
		}
	case redis.Elect:
		s.checkElect(st)
	case redis.Restart:
		s.checkRestart(st)
	}
}

func (s *simulation) checkAssignment(p *simPod, r redis.Range) {
	if r != s.unit(p.shard) {
		s.fail("slots %s are not those of %s", r, p.name)
	}
	for _, o := range s.pods {
		if o.server != nil && o.server.Remembers(r) {
			s.fail("slots %s are assigned to %s, but %s remembers an owner", r, p.name, o.name)
		}
		if o.server != nil && len(o.server.Data) > 0 && s.assigned[r] {
			s.fail("slots %s are assigned to %s as if they were new, but %s holds data from before", r, p.name, o.name)
		}
	}
}

// checkElect insists that the operator votes for nobody who has less than another replica that it can reach.
func (s *simulation) checkElect(st redis.Elect) {
	r, to := s.unit(st.Shard), s.pod(st.To)
	for _, o := range s.pods {
		if o.exists && o.shard == st.Shard && o.server.Up && !o.server.Cut && o.server.Primary() != "" && o.server.Data[r] > to.server.Data[r] {
			s.fail("%s: %s has %d writes, %s has %d", st, o.name, o.server.Data[r], to.name, to.server.Data[r])
		}
	}
}

func (s *simulation) checkRestart(st redis.Restart) {
	shards := map[int]bool{}
	for _, ref := range st.Pods {
		p := s.pod(ref.Name)
		if shards[p.shard] {
			s.fail("%s: two pods of one shard", st)
		}
		shards[p.shard] = true
		if !s.spec.Persistent && !s.copied(p) {
			s.fail("%s: %s has the last copy of its shard", st, p.name)
		}
		if !p.server.Up || (p.server.Primary() != "" && !p.linkSeen) {
			s.checkBroken(st, p)
			continue
		}
		for _, o := range s.pods {
			if o != p && o.shard == p.shard && o.server != nil && o.server.Primary() != "" && !o.server.LinkUp() {
				s.fail("%s: %s is not in sync", st, o.name)
			}
			if o != p && o.exists && o.shard == p.shard && !o.server.OnDisk() {
				s.fail("%s: the data of %s is not on disk", st, o.name)
			}
		}
		if p.server == nil || !p.server.Owns(s.unit(p.shard)) {
			continue
		}
		if s.spec.Replicas > 0 {
			s.fail("%s: %s is the primary", st, p.name)
		}
	}
}

// copied tells whether some other server that runs has all that a pod has and that was not written off.
func (s *simulation) copied(p *simPod) bool {
	r := s.unit(p.shard)
	return p.server.Data[r] == 0 || slices.ContainsFunc(s.others(p), func(o *simPod) bool {
		return o.shard == p.shard && o.server.Up && o.server.Data[r] >= min(p.server.Data[r], s.acked[r])
	})
}

// checkBroken insists that a pod which is not in sync is restarted only while its primary is well.
func (s *simulation) checkBroken(st redis.Restart, p *simPod) {
	if o := s.owner(s.unit(p.shard)); o == nil || !o.Up || !o.OnDisk() {
		s.fail("%s: %s has no primary that is well", st, p.name)
	}
}

// act carries a step out, and dies after some command now and then.
func (s *simulation) act(step cluster.Step) {
	s.check(step)
	s.log("step: %s", step)
	if st, ok := step.(redis.Restart); ok {
		for _, ref := range st.Pods {
			if s.dies() {
				return
			}
			if p := s.pod(ref.Name); p.exists && p.uid == ref.UID {
				s.delete(p, !s.spec.Persistent, 30)
			}
		}
		return
	}
	if st, ok := step.(redis.RotatePasswords); ok {
		s.rotate(st)
		return
	}
	if st, ok := step.(redis.Guard); ok {
		for _, shard := range st.Protect {
			s.guarded[shard] = true
		}
		for _, shard := range st.Release {
			delete(s.guarded, shard)
		}
		return
	}
	for _, call := range step.(redis.ServerStep).Calls() {
		if s.dies() {
			return
		}
		p := s.pod(call.Pod)
		if !p.exists || p.server == nil {
			continue
		}
		if err := call.Do(context.Background(), p.server); err != nil {
			s.log("%s: %v", call.Pod, err)
		} else if _, ok := step.(redis.AddSlots); ok {
			s.assigned[s.unit(p.shard)] = true
		}
	}
}

func (s *simulation) dies() bool {
	s.calls++
	dead := s.calls == s.crash
	if s.crash == 0 {
		dead = s.rnd.IntN(12) == 0
	}
	if dead {
		s.log("the operator dies after command %d", s.calls)
	}
	return dead
}

// turn is one pass of the operator.
func (s *simulation) turn() cluster.Plan {
	p := redis.Next(s.observe())
	if p.Step != nil {
		s.act(p.Step)
	}
	return p
}

// run has a time of faults, and then a time in which the cluster has to recover.
func (s *simulation) run(faults int) {
	for i := 0; i < faults && s.broken == ""; {
		s.pass()
		s.turn()
		if s.rnd.IntN(15) == 0 {
			s.fault()
			i++
		}
	}
	s.converge()
}

func (s *simulation) converge() {
	end := s.net.Now().Add(giveUp)
	settled, stalled := 0, 0
	var last cluster.Plan
	// Stalled for about 15 s: whatever the cluster can do by itself, it has done.
	for s.broken == "" && s.net.Now().Before(end) && stalled <= 60 {
		s.pass()
		p := s.turn()
		if p.Message != last.Message {
			s.log("%s: %s", p.Reason, p.Message)
		}
		if stalled++; !p.Stalled || slices.ContainsFunc(s.pods, func(p *simPod) bool { return !p.backAt.IsZero() }) {
			stalled = 0
		}
		last = p
		if settled++; !p.Settled() {
			settled = 0
		}
		if settled == 10 {
			s.checkSettled()
			return
		}
	}
	if s.broken == "" && !s.mayStall(last) {
		s.fail("does not converge (stalled %v): %s: %s", last.Stalled, last.Reason, last.Message)
	}
}

// mayStall tells whether a cluster has good reason to wait for a human.
func (s *simulation) mayStall(p cluster.Plan) bool {
	ephemeralSingles := s.spec.Replicas == 0 && !s.spec.Persistent
	return p.Stalled && (s.bereft || (p.Reason == redis.ReasonShardLost && s.unwritten()) ||
		(p.Reason == redis.ReasonUnsafeRestart && ephemeralSingles))
}

// unwritten tells whether some shard never took a write: a replica of it cannot be told from one without a copy.
func (s *simulation) unwritten() bool {
	for shard := range s.spec.Shards {
		if s.acked[s.unit(shard)] == 0 {
			return true
		}
	}
	return false
}

func (s *simulation) checkSettled() {
	if len(s.guarded) > 0 {
		s.fail("settled, but shards %v allow no evictions", s.guarded)
	}
	for _, p := range s.pods {
		r := s.unit(p.shard)
		s.checkUsers(p)
		if p.outdated {
			s.fail("settled with %s outdated", p.name)
		}
		if p.server.Owns(r) {
			if p.emptied {
				s.fail("settled with %s, which came back empty", p.name)
			}
			continue
		}
		primary := slices.IndexFunc(s.pods, func(o *simPod) bool { return o.server.ID == p.server.Primary() })
		if primary < 0 || !s.pods[primary].server.Owns(r) || !p.server.LinkUp() {
			s.fail("settled, but %s neither owns %s nor copies who does", p.name, r)
		}
	}
}

func (s *simulation) checkUsers(p *simPod) {
	if s.spec.Access == nil {
		return
	}
	for _, want := range s.wantedUsers(p.server) {
		if !slices.ContainsFunc(p.server.Users, func(u redis.User) bool { return u.Is(want) }) {
			s.fail("settled, but user %s of %s is not as it should be", want.Name, p.name)
		}
	}
}

// TestSimulation runs the planner against clusters that faults happen to.
func TestSimulation(t *testing.T) {
	if *oneSeed != 0 {
		s := newSimulation(*oneSeed, true)
		s.run(6)
		t.Logf("%+v\n%s", s.spec, strings.Join(s.trace, "\n"))
		if s.broken != "" {
			t.Fatal(s.broken)
		}
		return
	}
	first := rand.Uint64N(1 << 40)
	t.Logf("seeds %d to %d", first, first+uint64(*seeds))
	bereft := 0
	for seed := first; seed < first+uint64(*seeds); seed++ {
		s := newSimulation(seed, true)
		s.run(6)
		if s.broken != "" {
			t.Fatalf("seed %d (repeat with -run TestSimulation -seed %d): %s\n%+v\n%s", seed, seed, s.broken, s.spec, strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
		}
		if s.bereft {
			bereft++
		}
	}
	t.Logf("%d runs; in %d of them more was lost than a cluster can get over", *seeds, bereft)
}

// TestSimulationOfCrashes lets the operator die after each command of a bootstrap in turn.
func TestSimulationOfCrashes(t *testing.T) {
	whole := newSimulation(1, false)
	whole.crash = -1
	whole.converge()
	if whole.broken != "" {
		t.Fatalf("%s\n%s", whole.broken, strings.Join(whole.trace, "\n"))
	}
	for k := 1; k <= whole.calls; k++ {
		s := newSimulation(1, false)
		s.crash = k
		s.converge()
		if s.broken != "" {
			t.Fatalf("crash after command %d: %s\n%s", k, s.broken, strings.Join(s.trace, "\n"))
		}
	}
	t.Logf("%d crash points", whole.calls)
}
