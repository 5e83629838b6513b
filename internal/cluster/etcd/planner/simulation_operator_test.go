package planner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
)

type simSet struct {
	made    simSettings
	members int
	uid     int
	born    int
	storage model.Storage
	quota   int64
	// budget of the disruption budget, which is written along with it.
	budget int
	reach  model.Transport
	// closed says that pods are made without clients.
	closed bool
}

// simView is a copy of what the API server held.
type simView struct {
	record  *model.Record
	set     *simSet
	open    bool
	claims  []model.Claim
	pods    []simPod
	backups []simBackup
}

func (s *sim) view() *simView {
	v := &simView{open: s.open}
	for _, i := range slices.Sorted(maps.Keys(s.claims)) {
		c := s.claims[i]
		o := model.Claim{Name: cluster.Claim("orders", i), UID: fmt.Sprint(c.uid), Ordinal: i, Leaving: c.leaving, Age: s.age(c.born)}
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
	plan := planner.Next(state)
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
func (s *sim) target(r model.Record) simSettings {
	if r.Rejected != "" && r.Rejected == s.asked().String() {
		return parseSettings(r.Proven)
	}
	return s.asked()
}

// made are the settings that pods are made with.
func (s *sim) made(r model.Record) simSettings {
	return simSettings{r.Version, s.target(r).template}
}

// age of what was made in a turn.
func (s *sim) age(turn int) time.Duration { return time.Duration(s.turns-turn) * time.Minute }

// ensure applies the StatefulSet.
func (s *sim) ensure(v *simView) bool {
	want := simSet{
		made: s.made(*v.record), members: v.record.Replicas(), budget: v.record.MinAvailable, storage: s.storage, uid: s.writes, born: s.turns,
		reach: v.record.Transport(), closed: v.record.RestoresInPlace(),
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

func (s *sim) observe(v *simView) model.State {
	st := model.State{
		Want: model.Want{
			Name: "orders", Size: s.size, Peers: s.members(model.MaxSize, s.reach(v.record).Secure), TLS: s.certs, Auth: s.auth, Persistent: s.persistent,
			CertificateIsRoot: s.reach(v.record).Secure,
			Version:           s.release, Asked: s.asked().String(), Hibernated: s.hibernated,
		},
		Record: v.record, Claims: v.claims, Open: v.open, Now: simNow,
	}
	st.Want.Maintenance = s.maintenance.policy
	st.Want.Storage, st.Want.StorageQuota = s.storage, s.storage.Size
	made := s.storage
	if v.set != nil {
		made = v.set.storage
		st.Set = &model.Set{UID: fmt.Sprint(v.set.uid), Age: s.age(v.set.born), Storage: made, KeepsClaims: true, Replicas: v.set.members, Version: v.set.made.release}
	}
	if v.record != nil {
		if s.approves {
			st.Want.Approved = v.record.Recovery.Incident
		}
		settings, r := s.made(*v.record), v.record.Transport()
		st.Want.Version, st.Want.Settings = s.target(*v.record).release, settings.String()
		st.Want.TemplateHash = settings.hash(v.quota(made, len(v.record.Members)), !r.Secure || r.Both, r.UsesTLS())
	}
	st.Want.RestoreInPlace = s.inPlace
	s.observeSnapshot(&st, v)
	for i := range v.pods {
		st.Pods = append(st.Pods, s.observePod(&v.pods[i], st.Record))
	}
	if st.Record == nil || st.Record.Hibernated {
		return st
	}
	if planner.VersionMoves(st) {
		st.ClusterVersion = s.agreedVersion(st.Pods, v)
	}
	for i := range st.Pods {
		if st.Pods[i].Status == nil || st.Pods[i].Status.Leader == 0 {
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
	if st.Members == nil && slices.ContainsFunc(st.Pods, func(p model.Pod) bool { return errors.Is(p.Unreachable, model.ErrPassword) }) {
		st.Auth = &model.Auth{Enabled: true}
	}
	return st
}

// agreedVersion is what a member with a leader says, and otherwise any.
func (s *sim) agreedVersion(pods []model.Pod, v *simView) (agreed model.Version) {
	i := slices.IndexFunc(pods, func(p model.Pod) bool { return p.Status != nil && p.Status.Leader != 0 })
	if i < 0 {
		i = slices.IndexFunc(pods, func(p model.Pod) bool { return p.Status != nil })
	}
	if i >= 0 {
		agreed, _ = s.client(v.pods[i].process).ClusterVersion(context.Background())
	}
	return agreed
}

func (s *sim) observePod(p *simPod, record *model.Record) model.Pod {
	out := model.Pod{
		Version: p.release, Name: p.name, UID: p.uid, ResourceVersion: p.version, Ordinal: p.ordinal, TemplateHash: p.hash(p.quota, p.plain, p.tls),
		Plain: p.plain, TLS: p.tls,
		Age: s.age(p.born), EverRan: p.everRan,
		Stuck: s.stuck(p), Gate: p.gate, Fatal: p.fatal, Full: p.full, Agreed: p.agreed,
		Drained: p.drained, Defragmentation: s.maintenance.begun[p.uid],
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
		out.Status = &view
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
