package etcd_test

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

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
)

var (
	simulationSeed = flag.Uint64("simulation.seed", 0, "replay this one seed and say what happens")
	simulationRuns = flag.Int("simulation.runs", 3000, "number of seeds to run")
)

// simNow is the time of a simulation, which has no use for one that moves.
var simNow = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// sim is a world: a Kubernetes with one EtcdCluster in it, an etcd in memory, and the operator's loop in between.
type sim struct {
	rng   *rand.Rand
	tails int
	trace []string
	net   *etcdfake.Network

	// The specification.
	uid, template, size int
	release             etcd.Version
	storage             etcd.Storage
	persistent, auth    bool
	// certs is the TLS of the specification; its certificate makes the operator root.
	certs bool
	// approves says that somebody approves of every plan to recover a lost quorum.
	approves bool
	password string
	// bad are the templates whose pods cannot start, weak those whose members run and never get well.
	bad, weak map[int]bool

	// What the API server holds.
	record *etcd.Record
	set    *simSet
	open   bool
	claims map[int]*simClaim
	pods   map[string]*simPod
	// orphans are pods whose process lives on although the API server has forgotten them, by name.
	orphans map[string]*simPod
	// stale is what the operator's cache showed a while ago.
	stale *simView
	// seen is what it decided on last.
	seen *simView

	pods0     int
	budget    int // writes until the operator crashes; negative: it does not
	writes    int
	values    int
	diskLost  bool
	recorded  uint64
	authSeen  map[uint64]bool
	lineage   int // clusters that may have led when this life of the data began
	badPolicy string
	plan      cluster.Plan
	turns     int
	upkeep    simUpkeep
	snapshots simSnapshots

	hibernated bool
	// anew is the backup that the cluster is to begin anew with, nil for none, and backup what is in it.
	anew     *etcd.Anew
	backup   map[string][]string
	restores int
	// cordoned are the ordinals whose node is being emptied.
	cordoned map[int]bool
}

type simSet struct {
	made    simSettings
	members int
	uid     int
	born    int
	storage etcd.Storage
	quota   int64
	// budget of the disruption budget, which is written along with it.
	budget int
	reach  etcd.Reach
	// closed says that pods are made without clients.
	closed bool
}

// simSettings are what pods are made with.
type simSettings struct {
	release  etcd.Version
	template int
}

func (s simSettings) String() string { return fmt.Sprintf("%s/%d", s.release, s.template) }

// hash stands in for that of a pod template: settings, the quota, and what is listened for.
func (s simSettings) hash(quota int64, plain, tls bool) string {
	return fmt.Sprintf("%s/%d/%t/%t", s, quota, plain, tls)
}

func parseSettings(text string) (s simSettings) {
	release, template, _ := strings.Cut(text, "/")
	s.release, _ = etcd.ParseVersion(release)
	s.template, _ = strconv.Atoi(template)
	return s
}

type simClaim struct {
	disk *etcdfake.Disk
	uid  int
	born int

	request, capacity int64
	class             string
	// leaving: it goes when no pod uses it any more; lost: its node is gone; corrupt: etcd cannot start from it;
	// full: it has no room, which only another volume or a larger one has.
	leaving, lost, corrupt, full bool
	// epoch is the incident that the volume bears.
	epoch string
}

type simPod struct {
	name, uid string
	// starts counts the processes it has had; version is what a copy of it was, see sim.version.
	starts  int
	version string
	ordinal int
	simSettings
	quota int64
	// plain and tls say what it was made to listen for.
	plain, tls bool
	born       int
	disk       *etcdfake.Disk
	process    *etcdfake.Process
	everRan    bool
	drained    bool
	fatal      string
	full       bool
	gate       *etcd.GateReport
	// agreed is what the gate has told of the disk; refused says that etcd ended over its version.
	agreed  int
	refused bool
	// epoch is the incident that its own volume bears, where no claim outlives it.
	epoch string
}

// simView is a copy of what the API server held.
type simView struct {
	record  *etcd.Record
	set     *simSet
	open    bool
	claims  []etcd.Claim
	pods    []simPod
	backups []simBackup
}

func newSim(seed uint64) *sim {
	s := &sim{
		rng: rand.New(rand.NewPCG(seed, 2)), net: etcdfake.New(), bad: map[int]bool{}, weak: map[int]bool{},
		orphans: map[string]*simPod{}, claims: map[int]*simClaim{}, pods: map[string]*simPod{}, budget: -1, authSeen: map[uint64]bool{},
		cordoned: map[int]bool{}, backup: map[string][]string{},
	}
	s.size = []int{1, 3, 3, 3, 5, 7}[s.rng.IntN(6)]
	s.persistent = s.rng.IntN(5) > 0
	s.auth = s.rng.IntN(4) > 0
	s.approves = s.rng.IntN(3) > 0
	s.certs = s.rng.IntN(3) > 0
	s.uid, s.password = 1, "password-1"
	s.release = releases[s.rng.IntN(4)]
	if s.rng.IntN(6) == 0 {
		s.bad[0] = true
	}
	s.upkeep, s.snapshots = s.newUpkeep(), s.newSnapshots()
	if s.persistent {
		s.storage = s.anyStorage()
	}
	s.note("size %d, persistent %t, auth %t, TLS %t, first template bad %t",
		s.size, s.persistent, s.auth, s.certs, s.bad[0])
	return s
}

// releases are what is asked for; there is no image of those in absent.
var (
	releases = []etcd.Version{{Major: 3, Minor: 5, Patch: 20}, v35, v36, v37, absent[0], absent[1]}
	absent   = []etcd.Version{{Major: 3, Minor: 6, Patch: 99}, {Major: 3, Minor: 7, Patch: 99}}
)

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func (s *sim) members(n int, tls bool) []etcd.Peer {
	return etcd.Peers("orders", "default", "cluster.local", n, tls)
}

// reach is how members are reached by the record, and without one by the StatefulSet or the specification.
func (s *sim) reach(r *etcd.Record) etcd.Reach {
	switch {
	case r != nil:
		return r.Reach()
	case s.set != nil:
		return s.set.reach
	}
	return etcd.Reach{Secure: s.certs}
}

// write counts a write of the operator and reports whether it crashes right after it.
func (s *sim) write() (crash bool) {
	s.writes++
	s.budget--
	return s.budget == 0
}

// kubelet is one pass of Kubernetes: claims and pods are made, gates decide, processes start.
func (s *sim) kubelet() {
	for _, i := range slices.Sorted(maps.Keys(s.claims)) {
		if s.claims[i].leaving && s.pods[cluster.Pod("orders", i)] == nil {
			delete(s.claims, i)
		}
	}
	s.growVolumes()
	if s.set == nil {
		s.net.Settle()
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[name]
		if p.ordinal >= s.set.members {
			s.deletePod(p)
		} else if p.process != nil && !s.net.Running(p.process) {
			p.process = nil // It ended by itself.
		}
	}
	for i := range s.set.members {
		name := cluster.Pod("orders", i)
		p := s.pods[name]
		if o := s.orphans[name]; o != nil {
			if s.rng.IntN(3) > 0 {
				continue // Nothing else may have its disk.
			}
			s.stop(o)
			delete(s.orphans, name)
		}
		if p == nil {
			p = s.createPod(name, i)
		}
		if p.process == nil && !s.bad[p.template] && !s.lostClaim(p) && s.rng.IntN(3) > 0 {
			s.runGate(p)
		}
	}
	s.net.Settle()
}

func (s *sim) createPod(name string, ordinal int) *simPod {
	s.pods0++
	p := &simPod{name: name, uid: fmt.Sprint(s.pods0), ordinal: ordinal, simSettings: s.set.made, quota: s.set.quota, born: s.turns}
	p.drained = s.set.closed
	p.plain, p.tls = !s.set.reach.Secure || s.set.reach.Both, s.set.reach.UsesTLS()
	if s.persistent {
		if s.claims[ordinal] == nil {
			s.claims[ordinal] = s.newClaim(s.pods0)
			s.claims[ordinal].disk = &etcdfake.Disk{}
		}
		p.disk = s.claims[ordinal].disk
	} else {
		p.disk = &etcdfake.Disk{}
	}
	s.pods[name] = p
	return p
}

func (s *sim) lostClaim(p *simPod) bool {
	c := s.claims[p.ordinal]
	return s.persistent && c != nil && c.lost
}

func (s *sim) runGate(p *simPod) {
	if s.record == nil || p.ordinal >= len(s.record.Members) {
		return // The kubelet waits for the ConfigMap that it is to mount, and the gate for its name in it.
	}
	record := *s.record
	in := etcd.GateInput{Self: record.Members[p.ordinal], Record: record}
	s.inspectVolume(p, &in)
	if p.disk.HasLog {
		in.Disk = etcd.DiskReady
	} else if s.rng.IntN(8) == 0 {
		in.Disk = etcd.DiskPartial
	}
	in.Answers = s.net.Answers(in.Self, record.Members)
	d := etcd.DecideStart(in)
	if d.SetAside {
		s.note("%s has its data set aside", p.name)
		p.disk = &etcdfake.Disk{}
		s.claims[p.ordinal].disk, s.claims[p.ordinal].corrupt = p.disk, false
		return
	}
	if !d.Start {
		if p.gate == nil || *p.gate != d.Report {
			s.note("gate holds %s: %s", p.name, d.Report.Reason)
		}
		p.gate = &d.Report
		return
	}
	if !s.prepare(p, d, record.Recovery) {
		p.everRan, p.gate, p.fatal = true, nil, "wal: crc mismatch"
		return
	}
	if p.full = s.persistent && s.claims[p.ordinal].full; p.full {
		p.everRan, p.gate, p.fatal = true, nil, ""
		return
	}
	if p.agreed = p.disk.Agreed().Minor; slices.Contains(absent, p.release) {
		p.gate = nil
		return
	}
	members := record.Members
	if d.Members != nil {
		members = d.Members
	}
	token, restored := s.begins(&record, d)
	process, err := s.net.Start(etcdfake.Config{
		Self: in.Self, Token: token, Restored: restored, State: d.State, Members: members, Version: p.release.String(), Plain: p.plain, TLS: p.tls,
		Behind: s.rng.IntN(4),
	}, p.disk)
	if errors.Is(err, etcdfake.ErrRemoved) {
		p.fatal = err.Error()
	}
	if err != nil {
		p.everRan, p.refused = true, errors.Is(err, etcdfake.ErrVersion)
		return // It ends and is started again.
	}
	p.process, p.everRan, p.refused, p.gate, p.fatal = process, true, false, nil, ""
	if _, known := s.net.Acked[p.disk.ClusterID]; d.Restore && !known {
		s.net.Acked[p.disk.ClusterID] = slices.Clone(restored)
	}
	p.starts++
	process.Cut = s.weak[p.template]
	s.note("%s runs (%s)", p.name, d.State)
}

// begins is the token of the cluster that a member founds, and what it finds on its disk.
func (s *sim) begins(r *etcd.Record, d etcd.GateDecision) (token string, restored []string) {
	if r.Restore == nil {
		return fmt.Sprint(s.uid), nil
	}
	if d.Restore {
		restored = s.backup[r.Restore.Token]
	}
	return r.Restore.Token, restored
}

// inspectVolume is what the gate learns from the volume beside the disk.
func (s *sim) inspectVolume(p *simPod, in *etcd.GateInput) {
	if !s.persistent {
		in.Epoch = p.epoch
		return
	}
	c := s.claims[p.ordinal]
	in.Epoch = c.epoch
	end := p.disk.End()
	in.Log = &end
	if c.corrupt {
		in.LogError = errors.New("wal: crc mismatch")
	}
}

// prepare does with a volume what the gate decided, and reports whether etcd can start from it.
func (s *sim) prepare(p *simPod, d etcd.GateDecision, r etcd.Recovery) bool {
	if !s.persistent {
		if d.Epoch != "" {
			p.epoch = d.Epoch
		}
		return true
	}
	c := s.claims[p.ordinal]
	if d.Alone {
		s.judgeSurvivor(p, r)
		s.note("%s goes on alone", p.name)
		p.disk.GoOnAlone()
		s.net.Acked[p.disk.ClusterID] = p.disk.Writes()
		delete(s.authSeen, p.disk.ClusterID) // Its data may be from before.
	}
	if d.Epoch != "" {
		c.epoch = d.Epoch
	}
	return !c.corrupt
}

// judgeSurvivor wants what any candidate has to be in the log that goes on.
func (s *sim) judgeSurvivor(p *simPod, r etcd.Recovery) {
	kept := p.disk.Writes()
	for i, c := range s.claims {
		if !slices.Contains(r.Candidates, cluster.Pod("orders", i)) || c.lost || c.corrupt || c.disk.ClusterID != p.disk.ClusterID {
			continue
		}
		for _, v := range c.disk.Writes() {
			if !slices.Contains(kept, v) && slices.Contains(s.net.Acked[p.disk.ClusterID], v) {
				s.badPolicy = fmt.Sprintf("%s goes on without %s, which member %d has", p.name, v, i)
			}
		}
	}
}

func (s *sim) view() *simView {
	v := &simView{open: s.open}
	for _, i := range slices.Sorted(maps.Keys(s.claims)) {
		c := s.claims[i]
		o := etcd.Claim{Name: cluster.Claim("orders", i), UID: fmt.Sprint(c.uid), Ordinal: i, Leaving: c.leaving, Age: s.age(c.born)}
		c.fill(&o)
		if c.lost {
			o.Lost = "its node is gone"
		}
		v.claims = append(v.claims, o)
	}
	if s.record != nil {
		r := *s.record
		v.record = &r
	}
	if s.set != nil {
		set := *s.set
		v.set = &set
	}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		p := *s.pods[name]
		p.version = s.version(&p)
		v.pods = append(v.pods, p)
	}
	v.backups = slices.Clone(s.snapshots.backups)
	return v
}

// version stands in for the resource version of a pod: whatever the kubelet reports changes it.
func (s *sim) version(p *simPod) string {
	return fmt.Sprint(p.uid, p.starts, p.process != nil, p.process != nil && s.net.Voting(p.process))
}

// operator is one pass of the controller, with the semantics of controllers/etcdcluster*.go. It returns the plan, and
// false when the operator crashed on the way.
func (s *sim) operator() (cluster.Plan, bool) {
	v := s.stale
	if v == nil {
		v = s.view()
	}
	if v.record != nil && !s.ensure(v) {
		return cluster.Plan{}, false
	}
	if v.set != nil && s.set != nil && v.set.storage != s.set.storage {
		return cluster.Plan{}, true // The API server refuses to change the claim template, and the pass ends there.
	}
	s.seen = v
	state := s.observe(v)
	plan := etcd.Next(state)
	if plan.Step == nil {
		return plan, true
	}
	s.note("step: %s (%s)", plan.Step, plan.Message)
	s.judge(plan.Step)
	return plan, s.act(plan.Step)
}

// asked are the settings of the specification.
func (s *sim) asked() simSettings { return simSettings{s.release, s.template} }

// target are the settings that are to be reached: those of the specification, unless they were rejected.
func (s *sim) target(r etcd.Record) simSettings {
	if r.Rejected != "" && r.Rejected == s.asked().String() {
		return parseSettings(r.Proven)
	}
	return s.asked()
}

// made are the settings that pods are made with.
func (s *sim) made(r etcd.Record) simSettings {
	return simSettings{r.Version, s.target(r).template}
}

// age of what was made in a turn.
func (s *sim) age(turn int) time.Duration { return time.Duration(s.turns-turn) * time.Minute }

// ensure applies the StatefulSet.
func (s *sim) ensure(v *simView) bool {
	want := simSet{
		made: s.made(*v.record), members: v.record.Replicas(), budget: v.record.MinAvailable, storage: s.storage, uid: s.writes, born: s.turns,
		reach: v.record.Reach(), closed: v.record.BeginsAnew(),
	}
	if v.set != nil {
		want.storage = v.set.storage
	}
	if s.set != nil {
		want.uid, want.born = s.set.uid, s.set.born
	}
	want.quota = v.quota(want.storage, len(v.record.Members))
	if s.record == nil || (s.set != nil && (*s.set == want || s.set.storage != want.storage)) {
		return true
	}
	s.set = &want
	return !s.write()
}

func (s *sim) observe(v *simView) etcd.State {
	st := etcd.State{
		Want: etcd.Want{
			Name: "orders", Size: s.size, Peers: s.members(etcd.MaxSize, s.reach(v.record).Secure), TLS: s.certs, Auth: s.auth, Persistent: s.persistent,
			CertificateIsRoot: s.reach(v.record).Secure,
			Version:           s.release, Asked: s.asked().String(), Hibernated: s.hibernated,
		},
		Record: v.record, Claims: v.claims, Open: v.open, Now: simNow,
	}
	st.Want.Maintenance = s.upkeep.policy
	st.Want.Storage, st.Want.StorageQuota = s.storage, s.storage.Size
	made := s.storage
	if v.set != nil {
		made = v.set.storage
		st.Set = &etcd.Set{UID: fmt.Sprint(v.set.uid), Age: s.age(v.set.born), Storage: made, KeepsClaims: true, Replicas: v.set.members, Version: v.set.made.release}
	}
	if v.record != nil {
		if s.approves {
			st.Want.Approved = v.record.Recovery.Incident
		}
		settings, r := s.made(*v.record), v.record.Reach()
		st.Want.Version, st.Want.Settings = s.target(*v.record).release, settings.String()
		st.Want.TemplateHash = settings.hash(v.quota(made, len(v.record.Members)), !r.Secure || r.Both, r.UsesTLS())
	}
	st.Want.Anew = s.anew
	s.observeSnapshot(&st, v)
	for i := range v.pods {
		st.Pods = append(st.Pods, s.observePod(&v.pods[i], st.Record))
	}
	if st.Record == nil || st.Record.Hibernated {
		return st
	}
	if st.VersionMoves() {
		st.ClusterVersion = s.agreedVersion(st.Pods, v)
	}
	for i := range st.Pods {
		if st.Pods[i].View == nil || st.Pods[i].View.Leader == 0 {
			continue
		}
		c := s.client(v.pods[i].process)
		members, err := c.Members(context.Background())
		if err != nil {
			continue
		}
		st.Members = members
		if a, err := c.Auth(context.Background(), s.password); err == nil {
			st.Auth = &a
		}
		s.examine(&st, v, c)
		break
	}
	if st.Members == nil && slices.ContainsFunc(st.Pods, func(p etcd.Pod) bool { return errors.Is(p.Unreachable, etcd.ErrPassword) }) {
		st.Auth = &etcd.Auth{Enabled: true}
	}
	return st
}

// agreedVersion is what a member with a leader says, and otherwise any.
func (s *sim) agreedVersion(pods []etcd.Pod, v *simView) (agreed etcd.Version) {
	i := slices.IndexFunc(pods, func(p etcd.Pod) bool { return p.View != nil && p.View.Leader != 0 })
	if i < 0 {
		i = slices.IndexFunc(pods, func(p etcd.Pod) bool { return p.View != nil })
	}
	if i >= 0 {
		agreed, _ = s.client(v.pods[i].process).ClusterVersion(context.Background())
	}
	return agreed
}

func (s *sim) observePod(p *simPod, record *etcd.Record) etcd.Pod {
	out := etcd.Pod{
		Version: p.release, Name: p.name, UID: p.uid, ResourceVersion: p.version, Ordinal: p.ordinal, TemplateHash: p.hash(p.quota, p.plain, p.tls),
		Plain: p.plain, TLS: p.tls,
		Age: s.age(p.born), EverRan: p.everRan,
		Stuck: s.stuck(p), Gate: p.gate, Fatal: p.fatal, Full: p.full, Agreed: p.agreed,
		Drained: p.drained, Defragmentation: s.upkeep.begun[p.uid],
	}
	if out.Stuck {
		out.Problem = "cannot be scheduled"
	}
	if s.cordoned[p.ordinal] {
		out.Cordoned = "is on a cordoned node"
	}
	if p.process == nil || (record != nil && record.Hibernated) {
		return out
	}
	view, err := s.client(p.process).Status(context.Background())
	if err != nil {
		out.Unreachable = err
	} else {
		out.View = &view
	}
	out.Ready = s.net.Voting(p.process)
	return out
}

// stuck reports whether a pod does not run and will not by itself.
func (s *sim) stuck(p *simPod) bool {
	return p.process == nil && (s.bad[p.template] || s.lostClaim(p) || p.refused || slices.Contains(absent, p.release))
}

func (s *sim) client(p *etcdfake.Process) *etcdfake.Client {
	tls := s.reach(s.record).Secure
	return &etcdfake.Client{Network: s.net, Process: p, TLS: tls, Root: tls, Password: s.password, Signs: true, Crash: s.write}
}

// act carries out a step against the API server or etcd, and reports whether the operator survived it.
func (s *sim) act(step cluster.Step) bool {
	switch step := step.(type) {
	case etcd.WriteBootstrap:
		return s.writeBootstrap(step)
	case etcd.Resize:
		return s.change(func(r *etcd.Record) { r.Members = s.members(step.To, r.Secure()) })
	case etcd.SetTransport:
		return s.change(func(r *etcd.Record) {
			r.Transport = r.Reach().With(step, nil).Transport
			r.Members = s.members(len(r.Members), step.Secure)
		})
	case etcd.UpdatePeer:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.UpdatePeer(context.Background(), step.ID, step.URL) })
	case etcd.SetVersion:
		return s.setVersion(step)
	case etcd.TakeSnapshot, etcd.RecordSnapshot, etcd.DropBackup:
		return s.save(step)
	case etcd.Edit:
		return s.change(step.Edit)
	case etcd.Downgrade:
		return s.call(step.Via, func(c *etcdfake.Client) error { return c.Downgrade(context.Background(), step.To) })
	case etcd.CancelDowngrade:
		return s.call(step.Via, func(c *etcdfake.Client) error { return c.CancelDowngrade(context.Background()) })
	case etcd.AddLearner:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.AddLearner(context.Background(), step.URL) })
	case etcd.Promote:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.Promote(context.Background(), step.ID) })
	case etcd.RemoveMember:
		return s.reconfigure(step.Via, func(c *etcdfake.Client) error { return c.RemoveMember(context.Background(), step.ID) })
	case etcd.DeleteClaim:
		return s.deleteClaim(step)
	case etcd.RemakeSet:
		return s.remakeSet(step)
	case etcd.ExpandClaim:
		return s.expandClaim(step)
	case etcd.RecordClusterID:
		if s.record == nil || s.record.ClusterID != 0 {
			return true
		}
		r := *s.record
		r.ClusterID = step.ClusterID
		s.record = &r
		return !s.write()
	case etcd.LetClientsIn:
		s.open = true
		return !s.write()
	case etcd.EnableAuth:
		return s.call(step.Pod, func(c *etcdfake.Client) error { return c.EnableAuth(context.Background(), s.password) })
	case etcd.SetRootPassword:
		return s.call(step.Pod, func(c *etcdfake.Client) error { return c.SetRootPassword(context.Background(), s.password) })
	case etcd.MoveLeader:
		return s.call(step.From, func(c *etcdfake.Client) error { return c.MoveLeader(context.Background(), step.To) })
	case etcd.DeletePod:
		if p := s.pods[step.Name]; p != nil && s.version(p) == step.ResourceVersion {
			s.deletePod(p)
			return !s.write()
		}
		return true
	}
	return s.maintain(step)
}

func (s *sim) writeBootstrap(step etcd.WriteBootstrap) bool {
	b := step.Bootstrap
	if s.record != nil {
		if s.record.Bootstrap == b || s.record.ClusterID != 0 || b != etcd.BootstrapNew {
			return true
		}
		r := *s.record
		r.Bootstrap = b
		s.record = &r
		return !s.write()
	}
	if b == etcd.BootstrapNew && len(s.claims) > 0 {
		return true
	}
	reach := s.reach(nil)
	s.record = &etcd.Record{
		UID: fmt.Sprint(s.writes), Bootstrap: b, Members: s.members(step.Size, reach.Secure), Version: step.Version, MinAvailable: etcd.Quorum(step.Size),
		Transport: reach.Transport,
	}
	return !s.write()
}

// moved reports whether what a step was decided on is not so any more.
func (s *sim) moved() bool {
	return s.record == nil || s.seen.record == nil || !cmp.Equal(*s.seen.record, *s.record)
}

// change changes the record.
func (s *sim) change(edit func(*etcd.Record)) bool {
	if s.moved() {
		return true
	}
	r := *s.record
	edit(&r)
	if r.ClusterID == 0 && s.record.ClusterID != 0 { // It begins anew.
		s.forget()
		s.recorded, s.diskLost = 0, false
	}
	s.record = &r
	if s.anew != nil && r.BeganWith(s.anew.Restore.Token) {
		s.anew = nil // It is complete.
	}
	return !s.write()
}

func (s *sim) reconfigure(via string, change func(*etcdfake.Client) error) bool {
	if s.moved() {
		return true
	}
	return s.call(via, change)
}

func (s *sim) deleteClaim(step etcd.DeleteClaim) bool {
	if s.moved() {
		return true
	}
	for i, c := range s.claims {
		if cluster.Claim("orders", i) != step.Name || c.version() != step.ResourceVersion {
			continue
		}
		c.leaving = true
	}
	return !s.write()
}

func (s *sim) call(pod string, do func(*etcdfake.Client) error) bool {
	if p := s.pods[pod]; p != nil && p.process != nil {
		if err := do(s.client(p.process)); errors.Is(err, context.Canceled) {
			return false
		}
	}
	return !s.write()
}

// stopPod ends the process of a pod.
func (s *sim) stop(p *simPod) {
	if p.process != nil {
		p.process.Busy = false
		s.net.Stop(p.process)
		p.process = nil
	}
}

func (s *sim) deletePod(p *simPod) {
	s.stop(p)
	if !s.persistent && p.disk.HasLog && !s.ending() {
		s.diskLost = true
	}
	delete(s.pods, p.name)
}

// judge checks what a step is about to do against the true state of the world.
func (s *sim) judge(step cluster.Step) {
	if _, opens := step.(etcd.LetClientsIn); opens && s.recorded == 0 {
		s.badPolicy = "clients are let in before the identity of the cluster is recorded"
	}
	s.judgeUpkeep(step)
	switch step := step.(type) {
	case etcd.SetRecovery:
		if step.To.Phase == etcd.RecoveryHeld && step.To.Anew == nil && !s.hopeless() {
			s.badPolicy = "a quorum is given up although its disks are there"
		}
	case etcd.StartAnew:
		s.judgeAnew()
	case etcd.Hibernate:
		if !s.persistent {
			s.badPolicy = "the pods are to end, and the data with them"
		}
	case etcd.DeletePod:
		s.judgePod(step)
	case etcd.DeleteClaim:
		s.judgeClaim(step)
	case etcd.RemoveMember:
		s.judgeRemoval(step)
	case etcd.SetVersion:
		s.judgeUpgrade(step)
	}
}

// judgeAnew wants no member to run when the cluster gives its identity up.
func (s *sim) judgeAnew() {
	for _, p := range slices.Concat(slices.Collect(maps.Values(s.pods)), slices.Collect(maps.Values(s.orphans))) {
		if p.process != nil && !s.moved() {
			s.badPolicy = fmt.Sprintf("the cluster begins anew while %s runs", p.name)
		}
	}
}

// ending reports whether all members are to end, because the cluster begins anew.
func (s *sim) ending() bool {
	return s.record != nil && s.record.Recovery.Anew != nil && s.record.Recovery.Phase == etcd.RecoveryHeld
}

func (s *sim) judgePod(step etcd.DeletePod) {
	victim := s.pods[step.Name]
	if victim == nil || s.version(victim) != step.ResourceVersion || s.ending() {
		return
	}
	known, listed, _ := s.net.Members(victim.disk)
	if !s.persistent && victim.disk.HasLog && s.recorded != 0 && (!known || listed) {
		s.badPolicy = fmt.Sprintf("deleting %s loses its data", step.Name)
	}
	if victim.process == nil || !s.net.Voting(victim.process) {
		return
	}
	if voters := len(victim.disk.Voters()); voters > 1 && s.voting(victim)-1 < etcd.Quorum(voters) {
		s.badPolicy = fmt.Sprintf("deleting %s leaves %d of %d voters", step.Name, s.voting(victim)-1, voters)
	}
}

// voting counts the voters of a pod's cluster that follow its leader.
func (s *sim) voting(of *simPod) int {
	n := 0
	for _, p := range slices.Concat(slices.Collect(maps.Values(s.pods)), slices.Collect(maps.Values(s.orphans))) {
		if p.process != nil && s.net.Voting(p.process) && p.disk.ClusterID == of.disk.ClusterID {
			n++
		}
	}
	return n
}

// judgeClaim wants no data to be deleted that a member of the quorum still has.
func (s *sim) judgeClaim(step etcd.DeleteClaim) {
	for i, c := range s.claims {
		former := slices.Contains(s.net.Led[:s.lineage], c.disk.ClusterID) // The cluster has begun anew since.
		if cluster.Claim("orders", i) != step.Name || fmt.Sprint(c.uid) != step.UID || s.moved() || !c.disk.HasLog || former || (c.lost && s.ending()) {
			continue
		}
		if known, listed, _ := s.net.Members(c.disk); !known || listed {
			s.badPolicy = fmt.Sprintf("deleting %s loses the data of a member", step.Name)
		}
	}
}

// judgeRemoval wants the members that stay to be a quorum, and one with its data to leave only because of the size.
func (s *sim) judgeRemoval(step etcd.RemoveMember) {
	p := s.pods[step.Name]
	if p == nil || p.process == nil || !s.net.Voting(p.process) || s.moved() {
		return
	}
	if c := s.claims[p.ordinal]; p.ordinal < s.size && s.persistent && !s.misfits(p.ordinal) && !c.leaving {
		s.badPolicy = fmt.Sprintf("%s is removed although it is well and wanted", step.Name)
	}
	if voters := len(p.disk.Voters()); s.voting(p)-1 < etcd.Quorum(voters-1) {
		s.badPolicy = fmt.Sprintf("removing %s leaves %d of %d voters", step.Name, s.voting(p)-1, voters-1)
	}
}

// user writes through the client Service.
func (s *sim) user() string {
	if !s.open || s.rng.IntN(3) > 0 {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[name]
		if p.process == nil || p.drained || !s.net.Voting(p.process) {
			continue
		}
		if s.upkeep.calm && p.disk.Size() >= s.net.Quota {
			return "" // It would be full again.
		}
		s.values++
		if s.auth && s.net.Put(p.process, "", fmt.Sprint("open-", s.values)) == nil {
			return "a client without a password was let in"
		}
		_ = s.net.Put(p.process, s.password, fmt.Sprint("value-", s.values))
		s.disturb(p)
		return ""
	}
	return ""
}

// fault breaks something at random.
func (s *sim) fault() {
	pods := slices.Sorted(maps.Keys(s.pods))
	pick := func() *simPod {
		if len(pods) == 0 {
			return nil
		}
		return s.pods[pods[s.rng.IntN(len(pods))]]
	}
	p := pick()
	switch kind := s.rng.IntN(24); {
	case kind == 23 && s.rng.IntN(3) > 0:
	case kind == 23:
		s.restore()
	case kind == 0:
		s.budget = 1 + s.rng.IntN(3)
	case kind == 1:
		s.changeTemplate()
	case kind == 2:
		s.stale = s.view()
	case kind == 3 && s.rng.IntN(6) == 0:
		s.recreate()
	case kind == 4 && s.record != nil && s.record.BeginsAnew():
		// Without the record nobody knows any more that clients have to wait.
	case kind == 4 && s.record != nil && s.set == nil && s.reach(s.record).UsesTLS() != s.certs:
		// Nor how the members are reached, while neither the set nor the specification says it.
	case kind == 4 && s.rng.IntN(10) == 0 && s.record != nil:
		s.note("fault: the record is deleted")
		s.record = nil
		// A member that had not started yet cannot be told from one that lost its disk any more.
		s.diskLost = s.diskLost || s.started() < s.size
	case kind == 14:
		s.size = []int{1, 3, 5, 7}[s.rng.IntN(4)]
		s.note("spec.size changes to %d", s.size)
	case kind == 17:
		s.snapshots.required = s.rng.IntN(4) > 0
		s.snapshots.elsewhere = s.rng.IntN(3)
		s.note("upgrades need a snapshot: %t, at destination %d", s.snapshots.required, s.snapshots.elsewhere)
		s.changeStorage()
	case kind == 22 && s.certs && s.record == nil && s.set == nil && s.started() > 0:
		// Whoever brings old data back gives it the certificates that it needs: see recreate.
	case kind == 22:
		s.certs = !s.certs
		s.note("TLS is asked for: %t", s.certs)
	case kind >= 18 && s.disrupt(kind-18, p):
	case p == nil:
	case kind == 15 && s.rng.IntN(3) == 0:
		s.breakDisk(p)
	case kind == 15:
	case kind == 16 && s.recorded == 0 && s.record != nil:
		// Whoever brings old data back knows its version, and an older one may come too late for what is just being founded.
	case kind == 16:
		s.release = releases[s.rng.IntN(len(releases))]
		s.note("spec.version changes to %s", s.release)
	case kind == 5 && s.rng.IntN(4) == 0:
		s.loseDisk(p)
	case kind == 5 && p.process != nil && s.persistent:
		s.note("fault: pod %s is forgotten, its process lives on", p.name)
		s.orphans[p.name] = p
		delete(s.pods, p.name)
	case kind <= 7:
		s.note("fault: pod %s deleted", p.name)
		s.deletePod(p)
	case kind <= 9:
		s.note("fault: %s killed", p.name)
		s.propose(p)
		s.stop(p)
	case p.process == nil:
	case kind <= 11:
		p.process.Deaf = !p.process.Deaf
		s.note("fault: %s deaf to the operator: %t", p.name, p.process.Deaf)
	case s.weak[p.template]:
	default:
		s.propose(p)
		p.process.Cut = !p.process.Cut
		s.note("fault: %s cut off: %t", p.name, p.process.Cut)
		s.net.Settle()
	}
}

// propose has a leader that is about to end write what it does not commit, so that logs diverge.
func (s *sim) propose(p *simPod) {
	if p.process == nil || !s.net.Leads(p.process) || s.rng.IntN(2) == 0 {
		return
	}
	var reached []*etcdfake.Process
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		if q := s.pods[name].process; q != nil && q != p.process && s.net.Voting(q) && s.rng.IntN(3) == 0 {
			reached = append(reached, q)
		}
	}
	var values []string
	for range 1 + s.rng.IntN(5) {
		s.tails++
		values = append(values, fmt.Sprint("tail-", s.tails))
	}
	if s.net.Propose(p.process, reached, values...) == nil {
		s.note("%s proposes %v to %d others", p.name, values, len(reached))
	}
}

// restore asks for what the cluster has to come back, or does not any more.
func (s *sim) restore() {
	if s.anew != nil || s.record == nil || s.record.ClusterID == 0 {
		s.note("what is to be restored is gone")
		s.anew = nil
		return
	}
	s.restores++
	token := fmt.Sprint("restore-", s.restores)
	s.backup[token] = slices.Clone(s.net.Acked[s.record.ClusterID])
	s.note("%s is confirmed: %d values", token, len(s.backup[token]))
	s.anew = &etcd.Anew{Noun: token, Plan: token, Restore: etcd.Restore{Directory: token, Token: token}}
}

func (s *sim) changeTemplate() {
	s.template++
	switch s.rng.IntN(8) {
	case 0, 1:
		s.bad[s.template] = true
	case 2:
		s.weak[s.template] = true
	}
	s.note("the template changes to %d, bad: %t, weak: %t", s.template, s.bad[s.template], s.weak[s.template])
}

// breakDisk makes the data of a member unreadable, or takes its node away.
func (s *sim) breakDisk(p *simPod) {
	c := s.claims[p.ordinal]
	if !s.persistent || c == nil {
		return
	}
	switch s.rng.IntN(3) {
	case 0:
		s.note("fault: the node of %s is gone", p.name)
		s.deletePod(p)
		c.lost = true
	case 1:
		s.note("fault: the disk of %s is full", p.name)
		s.stop(p)
		c.full = true
		return
	default:
		s.breakData(p, c)
	}
	s.diskLost = s.diskLost || s.recorded == 0
}

// breakData makes the data on a disk unreadable.
func (s *sim) breakData(p *simPod, c *simClaim) {
	if c.disk.HasLog {
		s.note("fault: the data of %s is corrupt", p.name)
		s.stop(p)
		c.corrupt = true
	}
}

func (s *sim) loseDisk(p *simPod) {
	s.note("fault: %s loses pod and disk", p.name)
	lost := p.disk.HasLog
	s.deletePod(p)
	delete(s.claims, p.ordinal)
	s.diskLost = s.diskLost || lost
	// Volumes deleted by hand before the cluster has come back to life were not wanted: a new one may take its place.
	if s.record != nil && s.record.ClusterID == 0 && s.record.Bootstrap != etcd.BootstrapRecovered && s.started() == 0 {
		s.forget()
	}
}

// started counts the volumes with data.
func (s *sim) started() int {
	n := 0
	for _, c := range s.claims {
		if c.disk.HasLog {
			n++
		}
	}
	return n
}

// forget begins another life: with the data, all claims on it are gone.
func (s *sim) forget() {
	s.lineage, s.net.Acked = len(s.net.Led), map[uint64][]string{}
}

// recreate deletes the resource with all that belongs to it but the claims, and creates it again.
func (s *sim) recreate() {
	s.note("fault: the resource is deleted and created again")
	for _, name := range slices.Sorted(maps.Keys(s.orphans)) {
		s.stop(s.orphans[name])
	}
	clear(s.orphans)
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		s.deletePod(s.pods[name])
	}
	switch { // Whoever brings old data back knows its version.
	case s.record != nil:
		s.release = s.record.Version
	case s.set != nil:
		s.release = s.set.made.release
	}
	// Whoever brings old data back knows whether it was encrypted, too.
	s.certs = s.reach(s.record).UsesTLS()
	s.record, s.set, s.stale, s.recorded, s.open = nil, nil, nil, 0, false
	s.snapshots.backups = nil
	s.uid++
	if s.anew != nil { // For another cluster it is another plan, and makes another one.
		token := fmt.Sprintf("%s-%d", s.anew.Noun, s.uid)
		s.backup[token] = s.backup[s.anew.Restore.Token]
		s.anew = &etcd.Anew{Noun: s.anew.Noun, Plan: token, Restore: etcd.Restore{Directory: s.anew.Noun, Token: token}}
	}
	if s.rng.IntN(3) == 0 {
		s.size = []int{1, 3, 5, 7}[s.rng.IntN(4)]
	}
	if s.rng.IntN(2) == 0 {
		s.password = fmt.Sprint("password-", s.uid)
	}
	// Members that were to found the cluster and did not get to it cannot be told from members without their disk.
	s.diskLost = s.diskLost || s.started() < s.size
	if s.started() == 0 {
		s.diskLost = false
		s.forget()
	}
}

// broken names the invariant that does not hold, empty when all do.
func (s *sim) broken() string {
	if s.badPolicy != "" {
		return s.badPolicy
	}
	if led := s.net.Led[s.lineage:]; len(led) > 1 {
		return fmt.Sprintf("two clusters have led: %x", led)
	}
	if v := s.net.Lost(); v != "" {
		return "an acknowledged write is lost: " + v
	}
	if s.record != nil && s.recorded != 0 && s.record.ClusterID != 0 && s.record.ClusterID != s.recorded {
		return fmt.Sprintf("the cluster id changed from %x to %x", s.recorded, s.record.ClusterID)
	}
	if s.record != nil && s.record.ClusterID != 0 {
		s.recorded = s.record.ClusterID
	}
	if bad := s.deafToClients(); bad != "" {
		return bad
	}
	return s.authOff()
}

// deafToClients notices a member that does not listen for what the record tells peers and clients to use.
func (s *sim) deafToClients() string {
	if s.record == nil {
		return ""
	}
	for _, p := range s.pods {
		if p.process == nil {
			continue
		}
		_, listed, _ := s.net.Members(p.disk)
		if tls := s.record.Secure(); listed && ((tls && !p.tls) || (!tls && !p.plain)) {
			return fmt.Sprintf("TLS is told: %t, and %s does not listen for that", tls, p.name)
		}
	}
	return ""
}

// authOff notices a member that lets in everybody after it did not.
func (s *sim) authOff() string {
	for _, p := range s.pods {
		if p.process == nil || !s.net.Voting(p.process) {
			continue
		}
		id := p.disk.ClusterID
		if s.authSeen[id] && !p.process.AuthOn() {
			return "authentication was switched off"
		}
		// Before the id is recorded nobody is let in, and a lost disk may still found the cluster again.
		s.authSeen[id] = s.authSeen[id] || (s.recorded != 0 && p.process.AuthOn())
	}
	return ""
}

// run drives one world and returns what went wrong.
func (s *sim) run() string {
	for range 40 {
		if s.rng.IntN(3) == 0 {
			s.fault()
		}
		if bad := s.turn(); bad != "" {
			return bad
		}
	}
	return s.quiet()
}

// turn lets everybody act once. An operator that crashed starts over with a fresh cache.
func (s *sim) turn() string {
	s.turns++
	plan, alive := s.operator()
	s.plan = plan
	if !alive {
		s.note("the operator crashed")
		s.budget, s.stale, s.upkeep.begun = -1, nil, map[string]*etcd.Defragmentation{}
	}
	if s.rng.IntN(4) == 0 {
		s.stale = nil
	}
	if bad := s.broken(); bad != "" {
		return bad
	}
	s.kubelet()
	s.finishDefragmentations()
	s.runBackups()
	if bad := s.user(); bad != "" {
		return bad
	}
	return s.broken()
}

// quiet ends all faults and expects the world to come to rest as specified, or with a reason why not.
func (s *sim) quiet() string {
	s.note("all faults end")
	s.budget, s.stale, s.upkeep.calm = -1, nil, true
	s.template++ // A good template: whatever was bad has been repaired.
	if slices.Contains(absent, s.release) || (s.record != nil && slices.Contains(absent, s.record.Version)) {
		s.release = s.remedy()
		s.note("spec.version changes to %s, which can be had", s.release)
	}
	for _, p := range s.pods {
		if p.process != nil {
			p.process.Cut, p.process.Deaf = s.weak[p.template], false
		}
	}
	for _, p := range s.orphans {
		p.process.Cut, p.process.Deaf = s.weak[p.template], false
	}
	s.net.Settle()
	s.makeRoom()
	if bad := s.night(); bad != "" {
		return bad
	}
	for rest := 0; rest < 10 && s.turns < 600; {
		if bad := s.turn(); bad != "" {
			return bad
		}
		rest++
		if (!s.plan.Settled() && !s.plan.Stalled) || s.moves() {
			rest = 0
		}
	}
	before := s.writes
	plan, _ := s.operator()
	switch {
	case s.writes != before:
		return "it does not come to rest: " + plan.Message
	case plan.Settled():
		return s.unfit()
	case plan.Reason == "" || plan.Message == "":
		return "it waits without a reason"
	case s.approves && s.rescuable() && (plan.Reason == etcd.ReasonQuorumLost || plan.Reason == etcd.ReasonRecovering):
		return "a survivor is there, and it does not go on: " + plan.Message
	case plan.Reason == etcd.ReasonStorage && plan.Stalled && s.size == 1:
	case plan.Reason == etcd.ReasonAlarm && !s.curable():
	case plan.Reason == etcd.ReasonVersion && plan.Stalled && s.release.Minor < s.record.Version.Minor-1:
	case !s.persistent && len(s.record.Members) == 1 && plan.Reason == etcd.ReasonRollout:
	case !s.diskLost && !s.hopeless() && plan.Reason != etcd.ReasonAuth:
		return "it gave up although a quorum of disks is there: " + plan.Message
	}
	return ""
}

// remedy is what a user sets spec.version to instead of one that cannot be had: of the minor version that the members have agreed on.
func (s *sim) remedy() etcd.Version {
	var agreed etcd.Version
	for _, d := range s.disks() {
		if v := d.Agreed(); agreed.Less(v) {
			agreed = v
		}
	}
	for _, v := range []etcd.Version{v35, v36, v37} {
		if v.Minor == agreed.Minor || (agreed.Minor == 0 && v.Minor == s.release.Minor) {
			return v
		}
	}
	return s.release
}

// makeRoom frees space on full disks, as an administrator does, unless a quorum goes on without them.
func (s *sim) makeRoom() {
	for i, c := range s.claims {
		if c.full && !s.hasQuorum() {
			s.note("space on the disk of ordinal %d is freed", i)
			c.full = false
		}
	}
}

// hasQuorum reports whether a quorum of the recorded members votes.
func (s *sim) hasQuorum() bool {
	if s.record == nil {
		return false
	}
	n := 0
	for _, p := range s.pods {
		if p.process != nil && s.net.Voting(p.process) {
			n++
		}
	}
	return n >= etcd.Quorum(len(s.record.Members))
}

// moves reports whether the world goes on by itself: a process that the API server has forgotten is in the way of a pod, or a volume
// grows.
func (s *sim) moves() bool {
	for _, c := range s.claims {
		if c.capacity > 0 && c.capacity < c.request {
			return true
		}
	}
	for _, o := range s.orphans {
		if s.set != nil && o.ordinal < s.set.members {
			return true
		}
	}
	return false
}

// disks are those that members can start from.
func (s *sim) disks() []*etcdfake.Disk {
	var out []*etcdfake.Disk
	for _, c := range s.claims {
		if !c.lost && !c.corrupt {
			out = append(out, c.disk)
		}
	}
	for _, p := range s.pods {
		if !s.persistent {
			out = append(out, p.disk)
		}
	}
	return out
}

// hopeless reports whether fewer than a quorum of the voters, by the longest log, have their data.
func (s *sim) hopeless() bool {
	disks := s.disks()
	var best *etcdfake.Disk
	for _, d := range disks {
		if d.HasLog && (best == nil || best.Behind(d)) {
			best = d
		}
	}
	if best == nil {
		return true
	}
	have := 0
	for _, id := range best.Voters() {
		if slices.ContainsFunc(disks, func(d *etcdfake.Disk) bool { return d.HasLog && d.MemberID == id }) {
			have++
		}
	}
	return have < etcd.Quorum(len(best.Voters()))
}

// rescuable reports whether a member with a vote has its data.
func (s *sim) rescuable() bool {
	for i, c := range s.claims {
		if s.persistent && i < len(s.record.Members) && !c.lost && !c.corrupt && c.disk.HasLog && slices.Contains(c.disk.Voters(), c.disk.MemberID) {
			return true
		}
	}
	return false
}

// unfit says how a world that the planner calls settled is not as specified.
func (s *sim) unfit() string {
	if s.record.ClusterID == 0 || !s.open {
		return "settled without a recorded cluster id, or closed"
	}
	if p := s.record.Recovery.Phase; p != "" && p != etcd.RecoveryOver {
		return "settled within a recovery"
	}
	if len(s.pods) != s.size {
		return "settled with missing pods"
	}
	if s.record.MinAvailable != etcd.Quorum(s.size) || s.set.budget != s.record.MinAvailable {
		return fmt.Sprintf("settled with a disruption budget of %d", s.set.budget)
	}
	for _, p := range s.pods {
		if s.net.Leads(p.process) && s.cordoned[p.ordinal] && !s.cordoned[s.bestPlace()] {
			return "settled with a leader on a cordoned node"
		}
		switch {
		case p.process == nil || !s.net.Voting(p.process):
			return "settled with a member that does not vote"
		case p.simSettings != s.asked() || p.tls != s.certs || p.plain == s.certs:
			return "settled with an outdated pod"
		case s.auth != p.process.AuthOn():
			return "settled with the wrong authentication"
		case p.drained:
			return "settled with a member that gets no clients"
		case len(p.process.Alarms()) > 0:
			return "settled with an alarm"
		case s.persistent && p.quota != s.storage.Size:
			return "settled with another quota than that of the volumes"
		}
	}
	return s.otherVolume()
}

func TestSimulation(t *testing.T) {
	if *simulationSeed != 0 {
		s := newSim(*simulationSeed)
		bad := s.run()
		t.Log(strings.Join(s.trace, "\n"))
		if bad != "" {
			t.Fatal(bad)
		}
		return
	}
	base, runs := uint64(1), *simulationRuns
	if testing.Short() { // The race detector makes them ten times as long and has nothing to find in them.
		runs = max(1, runs/20)
	}
	t.Logf("seeds %d to %d", base, base+uint64(runs)-1)
	settled := map[string]int{}
	for seed := base; seed < base+uint64(runs); seed++ {
		s := newSim(seed)
		if bad := s.run(); bad != "" {
			tail := s.trace[max(0, len(s.trace)-40):]
			t.Fatalf("seed %d: %s\nreplay: go test ./internal/cluster/etcd -run Simulation -simulation.seed=%d\n%s",
				seed, bad, seed, strings.Join(tail, "\n"))
		}
		plan, _ := s.operator()
		settled[plan.Reason]++
	}
	t.Logf("ends (empty: settled): %v", settled)
	if settled[""] < runs/2 {
		t.Errorf("only %d of %d worlds settled: the faults drown what is to be seen", settled[""], runs)
	}
}
