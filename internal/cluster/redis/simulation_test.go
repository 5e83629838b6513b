package redis_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
)

var (
	seeds    = flag.Int("seeds", 1000, "number of simulated runs")
	first    = flag.Uint64("first", 1, "the first seed; 0: by chance")
	oneSeed  = flag.Uint64("seed", 0, "the one seed to run, with its full trace")
	giveUp   = 5 * time.Minute
	nodeTime = 5 * time.Second
)

// sample is how many of so many runs there is time for: a few with -short, because the race detector makes them ten times as long and has
// nothing to find in them.
func sample(n int) int {
	if testing.Short() {
		return max(1, n/20)
	}
	return n
}

// simulation is a cluster, the Kubernetes around it, an operator that may crash after every command, and clients that
// remember what was acknowledged to them.
type simulation struct {
	rnd *rand.Rand
	// more is the source of the faults that came later: the runs in which none of them happens stay as they were.
	more *rand.Rand
	net  *redisfake.Network
	spec redis.Spec
	pods []*simPod
	// sets are the StatefulSets that exist, by shard.
	sets map[int]redis.Set
	// idle is what the operator remembers of shards that are to go.
	idle redis.Idle
	// hangs are since when servers hang.
	processes redis.Processes
	// changes counts the changes of the template that are none of the version.
	changes int
	// acked is what was last written to each key and acknowledged, and version what is written next: every write is larger than
	// all before.
	acked   map[redisfake.Key]int
	version int
	// home is the shard that each slot with keys was last seen to belong to.
	home map[int]int
	// won is how a slot last changed hands by an election. Who claims it under an older epoch has not heard of that.
	won map[int]victory
	// struck are the slots of which a fault has hit a server that holds them since they changed hands. Only those may lose what was
	// acknowledged.
	struck map[int]bool
	// cordoned is the node that is being emptied; empty: none.
	cordoned string
	// guarded are the shards that allow no evictions.
	guarded map[int]bool
	// assigned are the slots that the operator has assigned at some time.
	assigned redis.Slots
	// proposal is what would make shards weigh alike.
	proposal *redis.Proposal
	// resharded says that the number of shards has changed, so that a shard may hold what belongs to another one.
	resharded bool
	// bereft says that a fault took more than the cluster can be expected to get over without a human.
	bereft bool
	// takeovers counts those, ended the servers that hung, voids the lost shards that were served empty, and hastened the primaries that were replaced before any server
	// had noticed.
	takeovers, ended, voids, hastened int
	ips                               int
	uids                              int
	// freed are addresses of pods that are gone; another pod may get them.
	freed []redis.Address
	// external says that clients outside are to reach the servers, and services are those that lead to pods for that, by name.
	external bool
	services map[string]redis.Announcement
	// restore is a backup that is put into the cluster, nil in most runs.
	restore *simRestore
	crash   int // the number of commands after which the operator dies, counted over the whole run; 0: by chance
	calls   int
	trace   []string
	broken  string
	// stalls says that the operator waits for a human.
	stalls bool
	// partition keeps servers from reaching each other, or did a moment ago; nil: none does. parted
	// counts them, and lapses the writes that were lost to them.
	partition      *simPartition
	parted, lapses int
	// podsStay says that no fault ends a pod, and claimsGone counts the volumes that went with a pod.
	podsStay   bool
	claimsGone int
	// claimsStay says that no fault deletes a claim: a shard is to be lost where the play says so alone.
	claimsStay bool
}

// victory is an epoch, and the id of the server that won under it.
type victory struct {
	epoch uint64
	id    string
}

type simPod struct {
	name, uid      string
	shard, ordinal int
	exists         bool
	// template that the pod was made from, and why it cannot start.
	template, stuck string
	// config is what the server was started with.
	config map[string]string
	// announces is where the server said that it is reached when it was started.
	announces map[string]string
	server    *redisfake.Server
	backAt    time.Time
	started   time.Time
	// ends is when the pod ends if its server owns slots until then; zero: it was not asked to.
	ends time.Time
	// homeless says that its volume cannot come back.
	homeless bool
	// damaged says that its server cannot read what is on its volume.
	damaged bool
	// claimDeleted says that its claim has a deletion timestamp: the volume goes when the pod ends.
	claimDeleted bool
	// restart says that only the process is down, so that it comes back at the same address, and loops that it has been often enough for
	// Kubernetes to wait before it starts it again.
	restart, loops bool
	cutTill        time.Time
	// hangs says that the server's process stands still until then.
	hangs    bool
	hangTill time.Time
	// linkSeen says that the server was in sync when it was observed last.
	linkSeen bool
	// nodeLost says that the node of the pod does not report, and killed is when its process was last killed.
	nodeLost bool
	killed   time.Time
	// emptied says that the server lost its data and kept its identity, while others have copies.
	emptied bool
}

// samples are the slots that have keys, and keys of each.
const samples, keysOfSlot = 12, 2

// sampleSlots yields the slots that have keys.
func sampleSlots(yield func(int) bool) {
	for i := range samples {
		if !yield(i * redis.SlotCount / samples) {
			return
		}
	}
}

// sampleKeys yields all keys.
func sampleKeys(yield func(redisfake.Key) bool) {
	for slot := range sampleSlots {
		for n := range keysOfSlot {
			if !yield(redisfake.Key{Slot: slot, N: n}) {
				return
			}
		}
	}
}

func newSimulation(seed uint64, faults bool) *simulation {
	rnd := rand.New(rand.NewPCG(seed, 1))
	s := &simulation{
		rnd: rnd, more: rand.New(rand.NewPCG(seed, 2)), net: redisfake.NewNetwork(nodeTime, rnd), sets: map[int]redis.Set{}, idle: redis.Idle{}, processes: redis.Processes{}, acked: map[redisfake.Key]int{}, home: map[int]int{},
		won: map[int]victory{}, struck: map[int]bool{}, guarded: map[int]bool{}, services: map[string]redis.Announcement{},
		external: rnd.IntN(4) == 0,
	}
	s.spec = redis.Spec{Name: "c", Shards: 1 + rnd.IntN(4), Replicas: rnd.IntN(3), Version: "8.0.2", NodeTimeout: nodeTime, Persistent: rnd.IntN(3) > 0}
	if !faults {
		s.spec = redis.Spec{Name: "c", Shards: 3, Replicas: 1, Version: "8.0.2", NodeTimeout: nodeTime, Persistent: true}
	}
	s.spec.Live = simLive("10")
	if seed%4 == 1 { // It takes steps of its own, which leave less of a run for the others.
		s.spec.MinReplicas = s.spec.Replicas
	}
	s.spec.DiscardClaims = faults && rnd.IntN(2) == 0
	s.spec.AssignEmpty = faults && rnd.IntN(2) == 0
	s.spec.ReplaceDead = faults && seed%3 > 0
	s.net.Promoted = s.promoted
	if rnd.IntN(4) == 0 { // Hashes take more time than all the rest.
		s.spec.Access = &redis.Access{Passwords: simPasswords}
		s.spec.HandedOut, s.spec.Hold = true, 20*time.Second
		s.net.Gate = s.users
		s.net.Migrates, s.net.Pulls = seed%4 > 0, seed%8 > 4
	}
	if seed%5 == 0 {
		s.spec.Rebalance = redis.Rebalance{By: v1alpha1.RebalanceByMemory, Threshold: 10 + int(seed%40), CoolDown: time.Minute}
	}
	s.ensure()
	return s
}

var simPasswords = map[string]string{
	redis.PasswordDefault: "a", redis.PasswordOperator: "b", redis.PasswordReplication: "c", redis.PasswordMigration: "d",
}

// wantedUsers are those that the server of a pod is to have.
func (s *simulation) wantedUsers(w *redisfake.Server) []redis.User {
	name, _, _ := strings.Cut(w.Host, ".")
	users, err := s.spec.Access.Users(name, redis.Software{Engine: v1alpha1.EngineRedis, Version: w.Version})
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
		if p.server == nil || !p.server.Up || p.ordinal >= s.sets[p.shard].Replicas {
			continue // No Service leads to a pod that leaves.
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
		for _, p := range s.present() {
			if p.server != nil {
				s.log("%s: %s", p.name, p.server.Table())
			}
		}
	}
}

// promoted writes off what the winner of an unplanned election never received, and insists on everything otherwise.
func (s *simulation) promoted(w *redisfake.Server, slots redis.Slots, planned bool) {
	for k := range sampleKeys {
		if slots.Has(k.Slot) {
			s.won[k.Slot] = victory{w.Epoch(), w.ID}
		}
	}
	s.log("%s becomes owner of %s (planned %v)", s.podOf(w), slots, planned)
	for k := range sampleKeys {
		if !slots.Has(k.Slot) && !s.imported(w.Shard, k.Slot) {
			continue
		}
		lost := s.acked[k] - s.visible(k)
		switch {
		case lost > 0 && planned:
			s.fail("a planned failover lost %v", k)
		case lost > 0 && s.struck[k.Slot]:
		case lost > 0 && s.partition.mayLose(s.formerOwner(k.Slot, w), w, k, s.visible(k)):
			s.lapses++
		case lost > 0:
			s.fail("%v is lost without a fault", k)
		}
		s.acked[k] = s.visible(k)
	}
	for slot := range sampleSlots {
		if slots.Has(slot) {
			s.struck[slot] = false
		}
	}
	s.fill()
}

// imported tells whether a slot is on its way to a shard.
func (s *simulation) imported(shard, slot int) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool {
		return p.server != nil && p.shard == shard && p.server.ImportingFrom(slot) != ""
	})
}

// visible is what clients will read of a key when no slot is on its way any more: what its owner has, and what is left elsewhere of
// a slot that is on its way.
func (s *simulation) visible(k redisfake.Key) int {
	owner := s.owner(k.Slot)
	if owner != nil && owner.Data[k] > 0 {
		return owner.Data[k]
	}
	best := 0
	yields := s.yields(k.Slot, owner)
	for _, p := range s.pods {
		if p.server == nil || p.server == yields {
			continue
		}
		if of := p.server.Primary(); of != "" && s.exists(of) && (yields == nil || of != yields.ID) {
			continue // A replica's word counts when its primary is gone for good, or about to be replaced.
		}
		if len(p.server.Slots()) == 0 || s.ownsAny(p) { // Who has been replaced will throw away what it has.
			best = max(best, p.server.Data[k])
		}
	}
	return best
}

// exists tells whether a node is there, running or not.
func (s *simulation) exists(id string) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.server != nil && p.server.ID == id })
}

// fill takes note of who has as much again of what it owns as anybody else.
func (s *simulation) fill() {
	for _, p := range s.pods {
		p.emptied = p.emptied && p.server != nil && slices.ContainsFunc(slices.Collect(sampleKeys), func(k redisfake.Key) bool {
			return s.owner(k.Slot) == p.server && p.server.Data[k] < s.acked[k]
		})
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
		s.part()
		for _, p := range s.pods {
			s.revive(p)
		}
		s.leave()
		for k := range sampleKeys {
			if s.rnd.IntN(2) == 0 {
				s.write(k)
			}
		}
	}
	s.restore.work(s)
	s.checkData()
	s.checkPasswords()
}

func (s *simulation) revive(p *simPod) {
	now := s.net.Now()
	if p.server != nil && now.After(p.cutTill) {
		p.server.Cut = false
	}
	if p.hangs && now.After(p.hangTill) {
		s.log("the server of %s goes on", p.name)
		p.server.GoOn()
		p.hangs = false
	}
	if !p.ends.IsZero() && (p.server == nil || !p.server.Up || !p.exists || len(p.server.Slots()) == 0 || now.After(p.ends)) {
		s.strike(p, !s.spec.Persistent, 30)
	}
	if p.stuck == lostVolume && s.unhoused(p) == "" {
		s.log("a human gives %s another volume", p.name)
		s.delete(p, true, 30)
	}
	if p.damaged && !now.Before(p.backAt) {
		// Stalled: nobody can tell who has led the only shard last, or it may be the new settings that cannot read it.
		if p.backAt = now.Add(10 * time.Second); (!s.owned(p) || s.stalls) && now.Sub(p.killed) > time.Minute {
			s.log("a human repairs the data of %s", p.name)
			p.damaged = false
		}
	}
	if p.backAt.IsZero() || now.Before(p.backAt) || (!p.exists && p.ordinal >= s.sets[p.shard].Replicas) {
		return
	}
	p.backAt, p.nodeLost = time.Time{}, false
	p.started = now
	if p.restart {
		p.restart, p.loops = false, false
		p.server.Restart()
		p.server.Config, p.server.Announces = p.config, p.announces
		return
	}
	p.exists, p.emptied = true, false
	s.uids++
	p.uid = fmt.Sprint(s.uids)
	p.template = s.template()
	if p.stuck = s.hold(p); p.stuck != "" {
		return
	}
	if p.stuck = s.unhoused(p); p.stuck != "" {
		return
	}
	if addr := s.address(); p.server == nil {
		p.server = s.net.Add(addr, p.shard, p.name+".c-peers")
	} else {
		p.server.Start(addr)
	}
	p.server.Version = s.spec.Version
	p.config = maps.Clone(s.spec.Live)
	p.config["min-replicas-to-write"] = fmt.Sprint(s.spec.MinReplicas)
	p.server.Config = p.config
	p.announces = s.announcement(p).Parameters(p.server.Host, p.server.Addr.IP)
	p.server.Announces = p.announces
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

// write is a client's: it follows redirections to the owner with the highest epoch, and from there to where the slot goes.
func (s *simulation) write(k redisfake.Key) {
	owner := s.owner(k.Slot)
	if owner == nil || s.emptied(owner) || s.collides(k.Slot, owner) || !owner.Up || !owner.StateOK() || owner.Acknowledging(nodeTime) < guard(owner) {
		return // What an emptied one takes is lost when it is deposed.
	}
	taker := owner
	if to := owner.MigratingTo(k.Slot); to != "" && owner.Data[k] == 0 {
		i := slices.IndexFunc(s.pods, func(p *simPod) bool { return p.server != nil && p.server.ID == to })
		if i < 0 || !s.pods[i].server.Up || !s.pods[i].server.StateOK() || s.pods[i].server.Primary() != "" || s.pods[i].server.ImportingFrom(k.Slot) == "" {
			return
		}
		taker = s.pods[i].server
	}
	s.version++
	taker.Data[k] = s.version
	s.acked[k] = s.version
}

// checkData insists that every write that was acknowledged is there. An old primary that comes back at a time when all addresses
// have changed believes for a moment that it still is one; Redis has no cure for that.
func (s *simulation) checkData() {
	for slot := range sampleSlots {
		o := s.owner(slot)
		if o == nil || s.emptied(o) {
			continue
		}
		s.home[slot] = o.Shard
		for n := range keysOfSlot {
			if k := (redisfake.Key{Slot: slot, N: n}); s.visible(k) < s.acked[k] {
				s.fail("%s owns slot %d, and %v is %d where %d was acknowledged", s.podOf(o), slot, k, s.visible(k), s.acked[k])
			}
		}
	}
	for _, p := range s.pods {
		for k := range sampleKeys {
			if home, known := s.home[k.Slot]; known && !s.resharded && p.server != nil && home != p.shard && p.server.Data[k] > 0 {
				s.fail("%s has copied shard %d", p.name, home)
			}
		}
	}
}

func (s *simulation) emptied(w *redisfake.Server) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.server == w && p.emptied })
}

// owner is who rightfully owns a slot, running or not.
func (s *simulation) owner(slot int) *redisfake.Server {
	var owner *redisfake.Server
	for _, p := range s.pods {
		if p.server == nil || !p.server.Slots().Has(slot) || p.server.Epoch() < s.won[slot].epoch {
			continue
		}
		switch {
		case owner == nil || p.server.Epoch() > owner.Epoch():
			owner = p.server
		case p.server.Epoch() < owner.Epoch():
		case !s.partition.parts(owner, p.server):
			s.fail("%s and %s own slot %d under the same epoch", s.podOf(owner), p.name, slot)
		case p.server.ID == s.won[slot].id:
			owner = p.server
		}
	}
	return owner
}

func (s *simulation) delete(p *simPod, loseDisk bool, ticks int) {
	if p.server != nil {
		p.server.Stop()
		if p.exists && p.stuck == "" {
			s.freed = append(s.freed, p.server.Addr)
		}
		if p.claimDeleted {
			s.claimsGone++
		}
		if loseDisk || p.emptied || p.claimDeleted {
			s.mourn(p)
			s.net.Remove(p.server)
			p.server = nil
			if !slices.ContainsFunc(s.present(), func(o *simPod) bool { return o.server != nil }) {
				s.bury() // Nothing is left of the cluster: the next one is a new one.
			}
		}
	}
	p.exists, p.restart, p.loops, p.damaged, p.hangs, p.stuck, p.ends, p.backAt = false, false, false, false, false, "", time.Time{}, s.soon(ticks)
	p.claimDeleted = false
}

// owned tells whether another pod of the shard owns its slots.
func (s *simulation) owned(p *simPod) bool {
	return slices.ContainsFunc(s.present(), func(o *simPod) bool {
		return o != p && o.shard == p.shard && o.server != nil && len(o.server.Slots()) > 0
	})
}

// unhoused says why a pod whose volume cannot come back does not start. A human gives it another one where nobody owns the slots of
// its shard for long.
func (s *simulation) unhoused(p *simPod) string {
	if p.homeless = p.homeless && (s.owned(p) || s.net.Now().Sub(p.started) < time.Minute); !p.homeless {
		return ""
	}
	return lostVolume
}

// lostVolume is why a pod cannot start whose volume cannot come back.
const lostVolume = "the volume is on a node that is gone"

// strike is what a fault does to a pod. What its server had not on disk is written off, which is for no step to do.
func (s *simulation) strike(p *simPod, loseDisk bool, ticks int) {
	s.hit(p)
	imported := map[int]bool{}
	for slot := range sampleSlots {
		imported[slot] = p.server != nil && p.server.ImportingFrom(slot) != ""
	}
	s.delete(p, loseDisk, ticks)
	s.crashed(p)
	for k := range sampleKeys {
		if imported[k.Slot] { // What had come so far is where it came from no more, and perhaps nowhere else yet.
			s.acked[k] = min(s.acked[k], s.visible(k))
		}
	}
}

// hit takes note that a fault hits the slots that a pod owns or imports.
func (s *simulation) hit(p *simPod) {
	for slot := range sampleSlots {
		if p.server != nil && (p.server.Slots().Has(slot) || p.server.ImportingFrom(slot) != "") {
			s.struck[slot] = true
		}
	}
}

// crashed writes off what nobody has any more.
func (s *simulation) crashed(p *simPod) {
	for k := range sampleKeys {
		held := slices.ContainsFunc(s.present(), func(o *simPod) bool { return o.server != nil && o.server.Data[k] > 0 })
		if !held {
			s.acked[k] = 0
		}
		if p.server != nil && (s.owner(k.Slot) == p.server || p.server.ImportingFrom(k.Slot) != "") {
			s.acked[k] = min(s.acked[k], s.visible(k))
		}
	}
	s.fill()
}

// toDrop tells whether a replica has a key that its primary has given away, and will hear of that.
func (s *simulation) toDrop(p *simPod, k redisfake.Key) bool {
	return slices.ContainsFunc(s.others(p), func(o *simPod) bool {
		return o.server.ID == p.server.Primary() && o.server.Up && !o.emptied && o.server.Data[k] == 0
	})
}

// bury forgets a cluster of which nothing is left.
func (s *simulation) bury() {
	s.assigned = nil
	clear(s.won)
	clear(s.home)
}

// mourn judges whether a cluster can get over the loss of a disk, and writes off what nobody else has.
func (s *simulation) mourn(p *simPod) {
	if s.podsStay {
		s.checkNoLoss(p)
	}
	copies := 0
	owned := s.ownsAny(p)
	for _, o := range s.others(p) {
		if o.shard == p.shard && (s.ownsAny(o) || (o.server.Primary() != "" && o.server.HasCopy())) {
			copies++
		}
	}
	for k := range sampleKeys {
		best := 0
		for _, o := range s.others(p) {
			if !s.toDrop(o, k) {
				best = max(best, o.server.Data[k])
			}
		}
		s.acked[k] = min(s.acked[k], best)
	}
	s.fill()
	maps.DeleteFunc(s.won, func(slot int, by victory) bool { return !s.heardOf(p, slot, by.id) })
	if copies == 0 && (!s.spec.AssignEmpty || !s.remembered(p)) && (owned || s.isHome(p.shard) || s.assigned.Count() < redis.SlotCount) {
		s.bereft = true
	}
}

// heardOf tells whether anybody but p knows that a slot belongs to a server.
func (s *simulation) heardOf(p *simPod, slot int, id string) bool {
	return slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.server.OwnerOf(slot) == id })
}

// remembered tells whether some other server knows what the server of a pod owns: a shard that nobody has heard of cannot be missed.
func (s *simulation) remembered(p *simPod) bool {
	return p.server != nil && slices.ContainsFunc(s.others(p), func(o *simPod) bool {
		return len(p.server.Slots().Minus(o.server.Remembers())) == 0
	})
}

// isHome tells whether a shard was last seen to own slots.
func (s *simulation) isHome(shard int) bool {
	for slot := range sampleSlots {
		if home, known := s.home[slot]; known && home == shard {
			return true
		}
	}
	return false
}

// ownsAny tells whether a pod's server owns slots by right: nobody claims them under a higher epoch.
func (s *simulation) ownsAny(p *simPod) bool {
	if p.server == nil {
		return false
	}
	slots := p.server.Slots()
	for _, o := range s.others(p) {
		if o.server.Epoch() > p.server.Epoch() {
			slots = slots.Minus(o.server.Slots())
		}
	}
	return len(slots) > 0
}

// others are the pods besides p that have a disk.
func (s *simulation) others(p *simPod) []*simPod {
	return slices.DeleteFunc(s.present(), func(o *simPod) bool { return o == p || o.server == nil })
}

// fault does one random bad thing.
func (s *simulation) fault() {
	present := s.present()
	p := present[s.rnd.IntN(len(present))]
	ephemeral := !s.spec.Persistent
	if s.more.IntN(20) == 0 && !s.claimsStay {
		s.deleteClaim(present[s.more.IntN(len(present))])
	}
	if s.more.IntN(8) == 0 {
		s.divide()
	}
	switch s.rnd.IntN(22) {
	case 21:
		s.hang(p)
	case 16:
		s.wishPasswords()
	case 17:
		s.cordoned = ""
		if s.rnd.IntN(2) == 0 {
			s.cordoned = p.node()
		}
		s.log("node %q is cordoned, and no other", s.cordoned)
	case 0, 1:
		if s.rnd.IntN(2) == 0 && p.server != nil {
			s.log("fault: pod %s is asked to go", p.name)
			p.ends = s.soon(100)
			return
		}
		s.log("fault: pod %s is deleted", p.name)
		s.strike(p, ephemeral, 30)
	case 2:
		s.kill(p, 20)
	case 3:
		s.log("fault: the node of %s is lost for a while", p.name)
		if s.rnd.IntN(3) == 0 {
			s.kill(p, 1200) // Its pod stays.
			p.nodeLost = p.restart
		} else {
			s.strike(p, ephemeral, 400)
		}
	case 4:
		s.cutOff(p)
	case 5:
		if s.rnd.IntN(3) == 0 {
			s.log("fault: pod %s and its disk are lost", p.name)
			p.homeless = s.spec.Persistent && s.rnd.IntN(2) == 0
			s.strike(p, true, 30)
		}
	case 6:
		if s.rnd.IntN(4) == 0 {
			s.log("fault: all pods are deleted at once")
			for _, p := range present {
				s.strike(p, ephemeral, 30)
			}
		}
	case 7:
		s.log("the template changes")
		s.changes++
		s.spec.Live = simLive(fmt.Sprint(10 + s.rnd.IntN(3)))
	case 8:
		s.meddle()
	case 9, 10:
		s.spec.Replicas = s.rnd.IntN(3)
		s.spec.MinReplicas = min(s.spec.MinReplicas, s.spec.Replicas)
		s.log("%d replicas are asked for, of which %d are to acknowledge", s.spec.Replicas, s.spec.MinReplicas)
	case 11, 12, 13:
		s.spec.Version = simVersions[s.rnd.IntN(len(simVersions))]
		s.log("version %s is asked for", s.spec.Version)
	case 14, 15:
		s.spec.Shards = 1 + s.rnd.IntN(5)
		s.resharded = true
		s.log("spec.shards is %d now", s.spec.Shards)
	case 18, 19:
		s.external = !s.external
		s.log("external access: %v", s.external)
	case 20:
		s.loseService(p)
	}
}

func (s *simulation) kill(p *simPod, ticks int) {
	if p.server == nil || !p.exists || p.stuck != "" {
		return
	}
	s.log("fault: the server of %s is killed", p.name)
	s.hit(p)
	p.server.Stop()
	s.crashed(p)
	p.hangs = false
	p.restart, p.backAt, p.killed = true, s.soon(ticks), s.net.Now()
	if p.loops = ticks < 100 && s.rnd.IntN(2) == 0; p.loops {
		p.backAt = s.net.Now().Add(10 * time.Second)
		s.log("fault: and will not be back for 10 s")
		if p.damaged = s.spec.Persistent && s.rnd.IntN(2) == 0; p.damaged {
			s.log("fault: nor then, because its data cannot be read")
		}
	}
	if !s.podsStay && p.server.StartedEmpty() && s.rnd.IntN(4) == 0 {
		s.log("fault: so is its data")
		s.mourn(p)
		clear(p.server.Data)
		for k := range sampleKeys {
			p.emptied = p.emptied || (s.owner(k.Slot) == p.server && s.visible(k) < s.acked[k])
			if p.server.ImportingFrom(k.Slot) != "" { // Its replicas may have it, and be elected, or not.
				s.acked[k] = min(s.acked[k], s.visible(k))
			}
		}
	}
}

// hang has a process stand still: nobody hears from it, and all that it has is still there.
func (s *simulation) hang(p *simPod) {
	if p.server == nil || !p.exists || p.stuck != "" || !p.server.Up {
		return
	}
	s.log("fault: the server of %s hangs", p.name)
	s.hit(p)
	p.server.StandStill()
	p.hangs, p.hangTill = true, s.soon(2000)
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
	switch s.rnd.IntN(4) {
	case 0:
		s.changeUser()
		return
	case 1, 2:
		s.changeParameter()
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
// simLive is what servers are to have set.
func simLive(hz string) map[string]string {
	return map[string]string{"hz": hz, "appendonly": "yes", "replica-read-only": "yes"}
}

// changeParameter is a client that sends CONFIG SET. With appendonly no the disk keeps what it has, and a server that crashes comes back with that.
func (s *simulation) changeParameter() {
	p := s.pods[s.rnd.IntN(len(s.pods))]
	if p.server == nil || !p.server.Up || p.stuck != "" {
		return
	}
	values := []map[string]string{{"appendonly": "no"}, {"replica-read-only": "no"}, {"hz": "500"}}[s.rnd.IntN(3)]
	s.log("fault: a client changes a parameter of %s: %v", p.name, values)
	_ = p.server.Configure(context.Background(), values) // Cut off is from the operator.
}

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
	s.observeServices(&state)
	for _, shard := range slices.Sorted(maps.Keys(s.sets)) {
		set := s.sets[shard]
		set.Guarded = s.guarded[shard]
		state.Sets = append(state.Sets, set)
	}
	for _, p := range s.pods {
		if p.server != nil && s.spec.Persistent {
			state.Claims = append(state.Claims, redis.Claim{Name: "data-" + p.name, UID: p.server.ID, Shard: p.shard, Ordinal: p.ordinal, Leaving: p.claimDeleted})
		}
		if p.homeless {
			state.Claims = append(state.Claims, redis.Claim{Name: "data-" + p.name, UID: p.uid, Shard: p.shard, Ordinal: p.ordinal, Lost: lostVolume})
		}
		if !p.exists {
			continue
		}
		if s.rnd.IntN(20) == 0 {
			s.net.Tick() // The answers of an observation are never all of the same moment.
		}
		if p.stuck != "" {
			state.Pods = append(state.Pods, redis.Pod{
				Name: p.name, UID: p.uid, Shard: p.shard, Ordinal: p.ordinal, Outdated: s.outdated(p), Stuck: p.stuck, Unready: p.started,
			})
			continue
		}
		pod := redis.Pod{
			Name: p.name, UID: p.uid, Shard: p.shard, Ordinal: p.ordinal, Addr: p.server.Addr,
			Ready: p.server.Up, Outdated: s.outdated(p), HasRun: true, NodeLost: p.nodeLost, Deleting: !p.ends.IsZero(),
		}
		if p.server.Up || p.nodeLost {
			pod.Started = p.started
		}
		pod.NodeName = p.node()
		pod.Since = p.started.Add(-50 * time.Second) // So that what waits for a calm minute is not for quiet times alone.
		if pod.NodeName == s.cordoned {
			pod.Cordoned = "is on a node that is cordoned"
		}
		if p.hangs {
			pod.Ready, pod.Started = true, p.started
		}
		if !pod.Ready {
			pod.Unready = p.killed
		}
		if p.loops {
			pod.Stuck, pod.HeldUntil = "CrashLoopBackOff", p.backAt
			if p.damaged {
				pod.Fatal = "Wrong RDB checksum"
			}
		}
		// What Kubernetes says of a container that has been started again is late now and then.
		if s.net.Now().Sub(p.started) < time.Second && !p.killed.IsZero() && s.rnd.IntN(2) == 0 {
			pod.Started = time.Time{}
		}
		pod.Announce = s.announcement(p).Parameters(p.server.Host, p.server.Addr.IP)
		var err error
		pod.Node, err = p.server.Read(context.Background())
		pod.Hangs = errors.Is(err, redis.ErrHangs)
		p.linkSeen = pod.Node != nil && pod.Node.LinkUp
		state.Pods = append(state.Pods, pod)
	}
	s.restore.observe(&state)
	s.weigh(&state)
	s.idle.Watch(&state)
	s.processes.Watch(&state)
	return state
}

// node is where a pod runs: the copies of a shard are on different nodes.
func (p *simPod) node() string { return fmt.Sprintf("node-%d", (p.shard+p.ordinal)%3) }

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
			s.checkAssignment(s.pod(o.Pod), o.Slots)
		}
	case redis.Forget:
		for _, p := range s.pods {
			if p.server != nil && p.server.ID == st.ID && !s.left(p) {
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
		if guard(to.server) > 0 {
			s.fail("%s: it would take no write before others copy it", st)
		}
		s.checkWritable(st, func(p *simPod) bool { return p == to })
		s.checkLeftBehind(st, to)
	case redis.ScaleShards:
		for _, size := range st.Sets {
			s.checkScale(size)
			s.checkWritable(st, func(p *simPod) bool { return p.shard == size.Shard && p.ordinal >= size.To })
		}
	case redis.Elect:
		s.checkElect(st)
		s.checkEnded(st)
	case redis.TakeOver:
		s.takeovers++
		s.checkElect(redis.Elect(st))
		s.checkEnded(redis.Elect(st))
		s.checkFence(st)
	case redis.AssignEmpty:
		s.voids++
		s.checkVoid(st)
	case redis.End:
		s.checkEnd(st)
	case redis.Restart:
		s.checkRestart(st)
		s.checkWritable(st, func(p *simPod) bool {
			return slices.ContainsFunc(st.Pods, func(r redis.PodRef) bool { return r.Name == p.name })
		})
	case redis.DropShard:
		s.checkDrop(st)
	}
}

// guard is how many replicas have to acknowledge what a server writes.
func guard(w *redisfake.Server) int {
	n, _ := strconv.Atoi(w.Config["min-replicas-to-write"])
	return n
}

// checkWritable insists that no primary stops taking writes because of a step.
func (s *simulation) checkWritable(step cluster.Step, leaves func(p *simPod) bool) {
	for _, p := range s.pods {
		if p.server == nil || !p.server.Up || p.server.Cut || len(p.server.Slots()) == 0 || leaves(p) {
			continue
		}
		before, after := 0, 0
		for _, o := range s.pods {
			if o.server != nil && o.server.Primary() == p.server.ID && o.server.LinkUp() {
				before++
				if !leaves(o) {
					after++
				}
			}
		}
		if n := guard(p.server); before >= n && after < n {
			s.fail("%s: %s asks for %d replicas, has %d and is left with %d", step, p.name, n, before, after)
		}
	}
}

func (s *simulation) checkAssignment(p *simPod, slots redis.Slots) {
	for _, o := range s.present() {
		if o.server != nil && o.server.Remembers().Overlaps(slots) {
			s.fail("slots %s are assigned to %s, but %s remembers an owner", slots, p.name, o.name)
		}
		if o.server == nil || !s.assigned.Overlaps(slots) {
			continue
		}
		if len(o.server.Data) > 0 && !s.spec.AssignEmpty && !s.restore.serves(slots) {
			s.fail("slots %s are assigned to %s as if they were new, but %s holds data from before", slots, p.name, o.name)
		}
		for k := range o.server.Data {
			if o != p && slots.Has(k.Slot) {
				s.fail("slots %s are assigned to %s, but %s holds keys of slot %d", slots, p.name, o.name, k.Slot)
			}
		}
	}
}

// checkDrop insists that a shard which goes has nothing that anybody could miss.
func (s *simulation) checkDrop(st redis.DropShard) {
	onDeletedClaim := func(p *simPod) bool { return p.shard == st.Shard && p.claimDeleted } // It is made again, on another one.
	if st.Shard < s.spec.Shards && !slices.ContainsFunc(s.pods, onDeletedClaim) {
		s.fail("%s: it is wanted", st)
	}
	for k := range sampleKeys {
		if o := s.owner(k.Slot); o != nil && (o.Shard == st.Shard || o.Data[k] < s.acked[k]) {
			s.fail("%s: %s owns slot %d and has %d of %v, of which %d was acknowledged", st, s.podOf(o), k.Slot, o.Data[k], k, s.acked[k])
		}
	}
}

// checkElect insists that the operator votes for nobody who has less than another replica that it can reach.
func (s *simulation) checkElect(st redis.Elect) {
	to := s.pod(st.To)
	for k := range sampleKeys {
		for _, o := range s.pods {
			if s.home[k.Slot] == st.Shard && o.exists && o.shard == st.Shard && o.server != nil && o.server.Up && !o.server.Cut && o.server.Primary() != "" && newer(o.server, to.server) {
				s.fail("%s: %s has more than %s", st, o.name, to.name)
				return
			}
		}
	}
}

// checkEnded insists that a primary which the servers do not miss is replaced only when it has ended, by a replica that has all that was
// copied to any other one which runs or is about to.
func (s *simulation) checkEnded(st redis.Elect) {
	i := slices.IndexFunc(s.pods, func(p *simPod) bool { return p.server != nil && p.server.ID == st.PrimaryID })
	if i < 0 || s.pods[i].emptied || s.pod(st.To).server.Misses(st.PrimaryID) {
		return
	}
	dead := s.pods[i]
	s.hastened++
	s.log("%s has ended, and is replaced before it is missed", dead.name)
	if dead.server.Up && dead.server.StateOK() {
		s.fail("%s: %s runs", st, dead.name)
	}
	if dead.restart && !dead.loops && !s.spec.ReplaceDead && !dead.nodeLost {
		s.fail("%s: %s is about to be back", st, dead.name)
	}
	for _, o := range s.others(dead) {
		returns := o.server.Up || (o.restart && !o.loops && !o.nodeLost)
		if o.shard == st.Shard && o.exists && returns && o.server.Primary() == st.PrimaryID && newer(o.server, s.pod(st.To).server) {
			s.fail("%s: %s has what %s has not", st, o.name, st.To)
		}
	}
}

// checkVoid insists that nothing is given to a server without it that anybody has, or may have.
func (s *simulation) checkVoid(st redis.AssignEmpty) {
	to := s.pod(st.Pod).server
	for k := range sampleKeys {
		if !st.Slots.Has(k.Slot) {
			continue
		}
		if o := s.owner(k.Slot); o != nil {
			s.fail("%s: %s owns slot %d", st, s.podOf(o), k.Slot)
		}
		if home, known := s.home[k.Slot]; known && home != to.Shard { // No server tells whose they were, and they move back.
			s.resharded = true
		}
		if to.Data[k] < s.acked[k] {
			s.fail("%s: %d of %v was acknowledged, and it has %d", st, s.acked[k], k, to.Data[k])
		}
	}
}

// checkFence insists that nobody takes over from a server that runs, unless it came back empty.
func (s *simulation) checkFence(st redis.TakeOver) {
	for _, p := range s.pods {
		if p.server != nil && p.server.ID == st.PrimaryID && p.server.Up && !p.emptied {
			s.fail("%s: %s runs", st, p.name)
		}
	}
}

// newer tells whether one server has a later write than any of another.
func newer(a, b *redisfake.Server) bool {
	last := func(v *redisfake.Server) int {
		if len(v.Data) == 0 {
			return 0
		}
		return slices.Max(slices.Collect(maps.Values(v.Data)))
	}
	return last(a) > last(b)
}

// checkEnd insists that a server which hangs is ended only when its data stays, and never when it may have more than those that would go on without it.
func (s *simulation) checkEnd(st redis.End) {
	for _, ref := range st.Pods {
		p := s.pod(ref.Name)
		s.checkEndsPod(st, p)
		owner := slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.shard == p.shard && o.server.Up && len(o.server.Slots()) > 0 })
		copied := slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.shard == p.shard && o.server.Up && o.server.HasCopy() })
		switch {
		case p.uid == ref.UID && !p.hangs && p.server != nil && p.server.Up:
			s.fail("%s: %s does not hang", st, p.name)
		case !s.isHome(p.shard):
		case !s.spec.Persistent && !owner && !copied:
			s.fail("%s: %s has the only copy of its shard", st, p.name)
		case p.server != nil && p.server.Primary() != "" && !owner:
			s.fail("%s: %s is a replica, and its shard has no primary", st, p.name)
		}
	}
}

func (s *simulation) checkRestart(st redis.Restart) {
	shards := map[int]bool{}
	for _, ref := range st.Pods {
		p := s.pod(ref.Name)
		s.checkEndsPod(st, p)
		if p.stuck != "" || !s.isHome(p.shard) {
			continue // A shard without slots has nothing to lose.
		}
		if p.loops { // What it had acknowledged last goes with it where there is no volume, and all that others have stays.
			if !s.spec.Persistent && !slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.shard == p.shard && o.server.Up && o.server.HasCopy() }) {
				s.fail("%s: %s has the only copy of its shard", st, p.name)
			}
			continue
		}
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
		for _, o := range s.staff() {
			if o != p && o.shard == p.shard && o.server != nil && o.server.Primary() != "" && !o.server.LinkUp() {
				s.fail("%s: %s is not in sync", st, o.name)
			}
			if o != p && o.exists && o.shard == p.shard && o.server != nil && !o.server.OnDisk() {
				s.fail("%s: the data of %s is not on disk", st, o.name)
			}
		}
		if p.server == nil || len(p.server.Slots()) == 0 {
			continue
		}
		s.fail("%s: %s is the primary", st, p.name)
	}
}

// copied tells whether other servers that run have all that a pod has and that was not written off.
func (s *simulation) copied(p *simPod) bool {
	for k, value := range p.server.Data {
		if !slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.server.Up && o.server.Data[k] >= min(value, s.acked[k]) }) {
			return false
		}
	}
	return true
}

// checkBroken insists that a pod which is not in sync is restarted only while its primary is well.
func (s *simulation) checkBroken(st redis.Restart, p *simPod) {
	for slot := range sampleSlots {
		home, known := s.home[slot]
		if o := s.owner(slot); known && home == p.shard && (o == nil || !o.Up || !o.OnDisk()) {
			s.fail("%s: %s has no primary that is well", st, p.name)
			return
		}
	}
}

// act carries a step out, and dies after some command now and then.
func (s *simulation) act(step cluster.Step) {
	s.log("step: %s", step)
	s.check(step)
	s.processes.Stand(step, s.net.Now())
	if s.restore.act(s, step) {
		return
	}
	switch st := step.(type) {
	case redis.MoveSlots:
		s.move(st)
		return
	case redis.DropShard:
		s.drop(st)
		return
	case redis.ScaleShards:
		for _, size := range st.Sets {
			if s.dies() {
				return
			}
			set := s.sets[size.Shard]
			set.Replicas = size.To
			s.sets[size.Shard] = set
		}
		return
	case redis.DeleteClaim:
		s.discard(st)
		return
	case redis.ReplaceDisk:
		p := s.pod(st.Pod.Name)
		s.checkEndsPod(st, p)
		switch {
		case p.damaged && !s.owned(p):
			s.fail("%s: nobody else has its data", st)
		case !p.damaged && (p.server != nil || !p.homeless):
			s.fail("%s: it has one", st)
		}
		p.homeless = false
		s.delete(p, true, 30)
		return
	case redis.MoverStep:
		pod, _ := st.Server()
		s.logError(st.Run(context.Background(), &mortal{s, s.pod(pod).server}))
		return
	case redis.Restart:
		for _, ref := range st.Pods {
			if s.dies() {
				return
			}
			if p := s.pod(ref.Name); p.exists && p.uid == ref.UID {
				s.delete(p, !s.spec.Persistent, 30)
			}
		}
		return
	case redis.End:
		for _, ref := range st.Pods {
			if p := s.pod(ref.Name); p.exists && p.uid == ref.UID && !s.dies() {
				s.ended++
				s.strike(p, !s.spec.Persistent, 30)
			}
		}
		return
	case redis.RotatePasswords:
		s.rotate(st)
		return
	case redis.Withdraw:
		s.withdraw(st)
		return
	case redis.Guard:
		for _, shard := range st.Protect {
			s.guarded[shard] = true
		}
		for _, shard := range st.Release {
			delete(s.guarded, shard)
		}
		return
	case redis.Failover:
		if from, to := s.pod(st.From).server, s.pod(st.To).server; !s.dies() && from != nil && to != nil {
			s.logError(st.Run(context.Background(), from, to))
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
		} else if add, ok := step.(redis.AddSlots); ok {
			for _, o := range add.Owners {
				if o.Pod == call.Pod {
					s.assigned = redis.Union(s.assigned, o.Slots)
				}
			}
		}
	}
}

func (s *simulation) logError(err error) {
	if err != nil {
		s.log("%v", err)
	}
}

// move moves slots, with time and faults between the commands.
func (s *simulation) move(st redis.MoveSlots) {
	for _, m := range st.Moves {
		from, to := s.pod(m.From), s.pod(m.To)
		if !from.exists || !to.exists || from.server == nil || to.server == nil {
			continue
		}
		rounds := 1 + s.rnd.IntN(200)
		done, err := m.Run(context.Background(), &mortal{s, from.server}, &mortal{s, to.server}, func() bool { rounds--; return rounds >= 0 })
		s.log("%s to %s: %+v, %v", m.From, m.To, done, err)
		if errors.Is(err, errDies) {
			return
		}
	}
}

// mortal is a connection of an operator that may die before and after each command.
type mortal struct {
	s *simulation
	*redisfake.Server
}

var errDies = errors.New("the operator dies")

// around has time pass, clients write and the operator die around a command.
func (m *mortal) around(do func() error) error {
	if m.s.rnd.IntN(20) == 0 {
		m.s.pass()
	}
	if !m.s.podsStay && m.s.rnd.IntN(300) == 0 {
		m.s.fault()
	}
	if m.s.crash == 0 && m.s.rnd.IntN(200) == 0 || m.s.crash != 0 && m.s.dies() {
		return errDies
	}
	return do()
}

func (m *mortal) SetSlots(ctx context.Context, slots redis.Slots, state redis.SlotState, id string) error {
	return m.around(func() error { return m.Server.SetSlots(ctx, slots, state, id) }) //nolint:contextcheck // Faults need none.
}

func (m *mortal) Keys(ctx context.Context, slots redis.Slots, limit int) (out map[int][]redis.Key, err error) {
	err = m.around(func() error { out, err = m.Server.Keys(ctx, slots, limit); return err }) //nolint:contextcheck // Faults need none.
	return out, err
}

func (m *mortal) Process(ctx context.Context) (out string, err error) {
	err = m.around(func() error { out, err = m.Server.Process(ctx); return err }) //nolint:contextcheck // Faults need none.
	return out, err
}

func (m *mortal) Sees(ctx context.Context, id string) (out redis.Peer, err error) {
	err = m.around(func() error { out, err = m.Server.Sees(ctx, id); return err }) //nolint:contextcheck // Faults need none.
	return out, err
}

func (m *mortal) Large(ctx context.Context, slots redis.Slots, bytes int64) (out map[int]redis.Key, err error) {
	err = m.around(func() error { out, err = m.Server.Large(ctx, slots, bytes); return err }) //nolint:contextcheck // Faults need none.
	return out, err
}

func (m *mortal) Send(ctx context.Context, to redis.Address, batches [][]redis.Key, replace bool, patience time.Duration) (busy [][]redis.Key, err error) {
	err = m.around(func() error { busy, err = m.Server.Send(ctx, to, batches, replace, patience); return err }) //nolint:contextcheck // Faults need none.
	return busy, err
}

func (s *simulation) dies() (dead bool) {
	s.calls++
	dead = s.calls == s.crash
	if s.crash == 0 {
		dead = s.rnd.IntN(12) == 0
	}
	if dead {
		s.log("the operator dies after command %d", s.calls)
		clear(s.idle)
		clear(s.processes)
	}
	return dead
}

// turn is one pass of the operator.
func (s *simulation) turn() cluster.Plan {
	s.ensure()
	p := redis.Next(s.observe())
	s.stalls = p.Stalled
	if s.podsStay && p.Step == nil && !s.namesClaim(p) {
		s.fail("%s: %s: the claims that are being deleted are not named", p.Reason, p.Message)
	}
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

// converge runs the cluster without faults until it is settled or waits for a human, and returns its last plan.
func (s *simulation) converge() cluster.Plan {
	end, never := s.net.Now().Add(giveUp), s.net.Now().Add(10*giveUp)
	settled, stalled := 0, 0
	var last cluster.Plan
	// Stalled for about 15 s: whatever the cluster can do by itself, it has done.
	for s.broken == "" && s.net.Now().Before(end) && s.net.Now().Before(never) && stalled <= 60 {
		s.pass()
		p := s.turn()
		s.correctVersion(p)
		s.releaseClaims(p)
		s.dropStray(p)
		if p.Message != last.Message {
			s.log("%s: %s", p.Reason, p.Message)
		}
		// A pod that comes back, and a human who is about to give one another volume, may change that.
		if stalled++; !p.Stalled || s.divided() || slices.ContainsFunc(s.pods, func(p *simPod) bool { return !p.backAt.IsZero() || p.homeless || p.hangs }) {
			stalled = 0
		}
		if s.anyComesBack() { // Faults happen while slots move, too.
			end = s.net.Now().Add(giveUp)
		}
		last = p
		if settled++; !p.Settled() || s.partition != nil {
			settled = 0
		}
		if settled == 10 {
			s.checkSettled()
			return last
		}
	}
	if s.broken == "" && !s.mayStall(last) {
		s.fail("does not converge (stalled %v): %s: %s", last.Stalled, last.Reason, last.Message)
	}
	return last
}

// anyComesBack tells whether a server is away that will be back.
func (s *simulation) anyComesBack() bool {
	return s.divided() || slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.backAt.After(s.net.Now()) || p.hangs })
}

// mayStall tells whether a cluster has good reason to wait for a human.
func (s *simulation) mayStall(p cluster.Plan) bool {
	if s.podsStay {
		return p.Stalled && p.Reason == redis.ReasonTerminatingClaims
	}
	ephemeralSingles := s.spec.Replicas == 0 && !s.spec.Persistent
	leftBehind := slices.ContainsFunc(s.pods, func(p *simPod) bool { return s.left(p) && p.server != nil })
	return p.Stalled && (s.bereft || (p.Reason == redis.ReasonShardLost && s.unwritten()) || (p.Reason == redis.ReasonRetained && leftBehind) ||
		(p.Reason == redis.ReasonUnsafeRestart && ephemeralSingles))
}

// unwritten tells whether nothing that was acknowledged is in slots whose owner is gone: a replica of it cannot be told from one
// without a copy.
func (s *simulation) unwritten() bool {
	for k := range sampleKeys {
		if s.acked[k] > 0 && s.owner(k.Slot) == nil {
			return false
		}
	}
	return true
}

func (s *simulation) checkSettled() {
	if len(s.guarded) > 0 {
		s.fail("settled, but shards %v allow no evictions", s.guarded)
	}
	if len(s.sets) != s.spec.Shards {
		s.fail("settled with %d shards, not %d", len(s.sets), s.spec.Shards)
	}
	for slot := range sampleSlots {
		o := s.owner(slot)
		if o == nil || !o.Owns(slot) || o.MigratingTo(slot) != "" {
			s.fail("settled, but slot %d has no owner, or goes elsewhere", slot)
			return
		}
		for n := range keysOfSlot {
			if k := (redisfake.Key{Slot: slot, N: n}); o.Data[k] < s.acked[k] {
				s.fail("settled, but %v is %d at its owner %s and %d was acknowledged", k, o.Data[k], s.podOf(o), s.acked[k])
			}
		}
	}
	s.checkSizes()
	for _, p := range s.present() {
		if p.claimDeleted {
			s.fail("settled, but the claim of %s is being deleted", p.name)
		}
		s.checkUsers(p)
		if s.outdated(p) || p.server.Version != s.spec.Version {
			s.fail("settled with %s outdated", p.name)
		}
		for name, want := range s.spec.Live {
			if have := p.server.Config[name]; have != want {
				s.fail("settled, but %s of %s is %s instead of %s", name, p.name, have, want)
			}
		}
		if guard(p.server) != s.spec.MinReplicas {
			s.fail("settled, but %s asks for %d replicas and not for %d", p.name, guard(p.server), s.spec.MinReplicas)
		}
		if n := p.server.Slots().Count(); n > 0 {
			if p.emptied {
				s.fail("settled with %s, which came back empty", p.name)
			}
			even := redis.SlotCount / s.spec.Shards
			if weighed := s.spec.Rebalance.On() && n >= even/4; n != even && n != even+1 && !weighed {
				s.fail("settled, but %s has %d slots", p.name, n)
			}
			continue
		}
		primary := slices.IndexFunc(s.pods, func(o *simPod) bool { return o.server != nil && o.server.ID == p.server.Primary() })
		if primary < 0 || s.pods[primary].shard != p.shard || len(s.pods[primary].server.Slots()) == 0 || !p.server.LinkUp() {
			s.fail("settled, but %s neither owns slots nor copies who does", p.name)
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
	from := *first
	if from == 0 {
		from = rand.Uint64N(1 << 40)
	}
	n := sample(*seeds)
	t.Logf("seeds %d to %d", from, from+uint64(n))
	bereft, takeovers, ended, voids, hastened, parted, lapses := 0, 0, 0, 0, 0, 0, 0
	for seed := from; seed < from+uint64(n); seed++ {
		s := newSimulation(seed, true)
		s.run(6)
		if s.broken != "" {
			t.Fatalf("seed %d (repeat with -run TestSimulation -seed %d): %s\n%+v\n%s", seed, seed, s.broken, s.spec, strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
		}
		if s.bereft {
			bereft++
		}
		takeovers += s.takeovers
		voids += s.voids
		ended += s.ended
		hastened += s.hastened
		parted += s.parted
		lapses += s.lapses
	}
	t.Logf("%d runs; in %d of them more was lost than a cluster can get over; %d replicas took over without a vote, %d servers that hung were ended, and %d lost shards are served empty; %d primaries were replaced before they were missed; %d partitions cost %d writes",
		n, bereft, takeovers, ended, voids, hastened, parted, lapses)
	if hastened == 0 {
		t.Error("no primary was replaced before it was missed")
	}
	if parted > 100 && lapses == 0 {
		t.Error("no write was lost to a partition")
	}
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
