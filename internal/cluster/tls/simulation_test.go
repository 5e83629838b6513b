package tls

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// How long a Secret takes to reach those who follow it, and what the specification gives them.
const (
	volumeLag = 90 * time.Second
	simHold   = 2 * time.Minute
	simTick   = 10 * time.Second
)

// simSecret is the Secret of a leaf, or the connection Secret.
type simSecret struct{ cert, key, bundle string }

func (c simSecret) pair() Pair { return Pair{Cert: []byte(c.cert), Key: []byte(c.key)} }

// follower has a volume with Secrets, which follows them late.
type follower struct {
	secrets []string
	volume  map[string]simSecret
	syncAt  map[string]time.Time
}

type simServer struct {
	follower
	// shows is the leafs that the process uses, by Secret.
	shows map[string]simSecret
	// trusts is what the process read at its start, by Secret; nil: it does not run.
	trusts map[string]string
	// fingerprint of the bundle in the template that the pod was made from.
	fingerprint string
	readyAt     time.Time
	// backAt is when the pod is made again; zero: there is one.
	backAt time.Time
}

// rotationSim is a cluster whose authority is replaced by an operator that may crash after each write.
type rotationSim struct {
	rng     *rand.Rand
	now     time.Time
	wish    time.Time
	stored  Authority
	secrets map[string]simSecret
	tmpl    string
	// atStart says that servers read leafs, too, only when they start, and that the template knows them.
	atStart bool
	servers []*simServer
	client  follower
	// known and sums remember what takes long to work out.
	known map[[2]string]bool
	sums  map[string]string
	crash bool
	log   []string
}

var simLeafs = map[string]Leaf{
	"peer": {CommonName: "peer"}, "server": {CommonName: "server"}, "client": {CommonName: "client"}, "operator": {CommonName: "root"},
}

func newRotationSim(t *testing.T, seed uint64) *rotationSim {
	t.Helper()
	s := &rotationSim{
		rng: rand.New(rand.NewPCG(seed, 1)), now: now, secrets: map[string]simSecret{}, known: map[[2]string]bool{}, sums: map[string]string{},
		client: follower{secrets: []string{"connection"}},
	}
	s.atStart = s.rng.IntN(3) == 0
	made := now.Add(-time.Hour)
	if s.rng.IntN(2) == 0 {
		made = now.Add(-CAValidity / 100 * 67)
	} else {
		s.wish = now.Add(10 * time.Minute)
	}
	s.stored = Authority{Signing: newAuthority(t, made)}
	s.handOut(t)
	for range []int{1, 3, 5}[s.rng.IntN(3)] {
		m := &simServer{follower: follower{secrets: []string{"peer", "server"}}}
		s.start(m)
		s.servers = append(s.servers, m)
	}
	s.client.mount(s.secrets)
	return s
}

func (f *follower) mount(secrets map[string]simSecret) {
	f.volume, f.syncAt = map[string]simSecret{}, map[string]time.Time{}
	for _, name := range f.secrets {
		f.volume[name] = secrets[name]
	}
}

// follow brings a Secret into the volume some time after it has changed.
func (s *rotationSim) follow(f *follower) {
	for _, name := range f.secrets {
		at, pending := f.syncAt[name]
		switch {
		case !pending && f.volume[name] != s.secrets[name]:
			f.syncAt[name] = s.now.Add(time.Duration(s.rng.Int64N(int64(volumeLag))))
		case pending && !s.now.Before(at):
			f.volume[name] = s.secrets[name]
			delete(f.syncAt, name)
		}
	}
}

// start makes a pod: its volume is fresh, and its process reads whom to trust.
func (s *rotationSim) start(m *simServer) {
	m.mount(s.secrets)
	m.fingerprint, m.backAt = s.tmpl, time.Time{}
	s.run(m)
}

// run starts the process in a pod.
func (s *rotationSim) run(m *simServer) {
	m.trusts = map[string]string{}
	for _, name := range m.secrets {
		m.trusts[name] = m.volume[name].bundle
	}
	m.shows = m.volume
	if s.atStart {
		m.shows = maps.Clone(m.volume)
	}
	m.readyAt = s.now.Add(time.Duration(s.rng.IntN(20)) * time.Second)
}

// wrote reports whether the operator lives on after a write.
func (s *rotationSim) wrote(what string) bool {
	s.log = append(s.log, fmt.Sprintf("%s %s", s.now.Format(time.TimeOnly), what))
	return !s.crash || s.rng.IntN(4) > 0
}

func (s *rotationSim) ready(m *simServer) bool {
	return m.backAt.IsZero() && !s.now.Before(m.readyAt)
}

func (s *rotationSim) facts() Facts {
	f := Facts{After: s.wish, Hold: simHold, HandedOut: true, InForce: true, Now: s.now}
	bundle := string(s.stored.Bundle())
	for name, leaf := range simLeafs {
		have := s.secrets[name]
		f.HandedOut = f.HandedOut && s.fine(have, leaf) && have.bundle == bundle
	}
	f.HandedOut = f.HandedOut && s.secrets["connection"] == s.secrets["client"]
	for _, m := range s.servers {
		f.InForce = f.InForce && s.ready(m) && m.fingerprint == s.fingerprint(bundle)
		f.Calm = latest(f.Calm, m.readyAt)
	}
	return f
}

// pass is one pass of the operator, in the order of the controllers.
func (s *rotationSim) pass(t *testing.T) {
	t.Helper()
	next, err := s.stored.Advance(s.facts())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(next, s.stored) {
		s.stored = next
		if !s.wrote("authority " + string(next.Phase())) {
			return
		}
	}
	if !s.handOut(t) {
		return
	}
	s.restartOne()
}

// handOut writes what does not fit the authority, and reports whether the operator has lived through it.
func (s *rotationSim) handOut(t *testing.T) bool {
	t.Helper()
	bundle := string(s.stored.Bundle())
	for _, name := range slices.Sorted(maps.Keys(simLeafs)) {
		have := s.secrets[name]
		if !s.fine(have, simLeafs[name]) {
			pair, err := Issue(s.stored.Signing, simLeafs[name], s.now)
			if err != nil {
				t.Fatal(err)
			}
			have.cert, have.key = string(pair.Cert), string(pair.Key)
		}
		have.bundle = bundle
		if !s.put(name, have) {
			return false
		}
	}
	if sum := s.fingerprint(bundle); sum != s.tmpl {
		s.tmpl = sum
		if !s.wrote("template") {
			return false
		}
	}
	return s.put("connection", s.secrets["client"])
}

func (s *rotationSim) put(name string, content simSecret) bool {
	if s.secrets[name] == content {
		return true
	}
	s.secrets[name] = content
	return s.wrote("Secret " + name)
}

// restartOne is the planner's rule: an outdated pod goes while all are ready.
func (s *rotationSim) restartOne() {
	for _, m := range s.servers {
		if !s.ready(m) {
			return
		}
	}
	for i, m := range s.servers {
		if m.fingerprint != s.tmpl {
			s.takeDown(i)
			return
		}
	}
}

func (s *rotationSim) takeDown(i int) {
	m := s.servers[i]
	m.trusts, m.backAt = nil, s.now.Add(time.Duration(1+s.rng.IntN(30))*time.Second)
	s.log = append(s.log, fmt.Sprintf("%s pod %d goes", s.now.Format(time.TimeOnly), i))
}

// tick lets time pass: pods come back, volumes follow, and now and then something happens that nobody asked for.
func (s *rotationSim) tick() {
	s.now = s.now.Add(simTick)
	for i, m := range s.servers {
		switch {
		case !m.backAt.IsZero() && !s.now.Before(m.backAt):
			s.start(m)
		case m.backAt.IsZero() && s.crash && s.rng.IntN(200) == 0:
			s.run(m)
		case m.backAt.IsZero() && s.crash && s.rng.IntN(200) == 0:
			s.takeDown(i)
		case m.backAt.IsZero():
			s.follow(&m.follower)
		}
	}
	s.follow(&s.client)
}

// fine reports whether a leaf need not be issued. The two hours of a simulation do not age it.
func (s *rotationSim) fine(have simSecret, leaf Leaf) bool {
	return s.recall([2]string{have.cert, string(s.stored.Signing.Cert) + leaf.CommonName}, func() bool {
		return NeedsIssue(s.stored.Signing, have.pair(), leaf, s.now) == ""
	})
}

// covers reports whether somebody with a bundle accepts a leaf.
func (s *rotationSim) covers(bundle string, leaf simSecret) bool {
	return s.recall([2]string{leaf.cert, bundle}, func() bool {
		cert, _, err := Parse(leaf.pair())
		return err == nil && rootOf([]byte(bundle), cert, nil) != nil
	})
}

// fingerprint of what a server has to be restarted for.
func (s *rotationSim) fingerprint(bundle string) string {
	if s.atStart {
		return s.sum(bundle + s.secrets["peer"].cert + s.secrets["server"].cert)
	}
	return s.sum(bundle)
}

func (s *rotationSim) sum(bundle string) string {
	if s.sums[bundle] == "" {
		s.sums[bundle] = Fingerprint([]byte(bundle))
	}
	return s.sums[bundle]
}

func (s *rotationSim) recall(key [2]string, ask func() bool) bool {
	answer, known := s.known[key]
	if !known {
		answer = ask()
		s.known[key] = answer
	}
	return answer
}

// misunderstanding looks for a running server, a client or the operator that meets a leaf which it does not trust.
func (s *rotationSim) misunderstanding() string {
	connection, operator := s.client.volume["connection"], s.secrets["operator"]
	for i, m := range s.servers {
		if m.trusts == nil {
			continue
		}
		for j, other := range s.servers {
			if other.trusts != nil && !s.covers(m.trusts["peer"], other.shows["peer"]) {
				return fmt.Sprintf("server %d rejects its peer %d", i, j)
			}
		}
		shown := m.shows["server"]
		switch {
		case !s.covers(m.trusts["server"], shown):
			return fmt.Sprintf("server %d rejects itself", i)
		case !s.covers(m.trusts["server"], connection):
			return fmt.Sprintf("server %d rejects a client", i)
		case !s.covers(m.trusts["server"], operator):
			return fmt.Sprintf("server %d rejects the operator", i)
		case !s.covers(connection.bundle, shown):
			return fmt.Sprintf("a client rejects server %d", i)
		case !s.covers(operator.bundle, shown):
			return fmt.Sprintf("the operator rejects server %d", i)
		}
	}
	return ""
}

// finished reports whether only the new authority is left, everywhere.
func (s *rotationSim) finished(old string) bool {
	want := string(s.stored.Signing.Cert)
	if s.stored.Phase() != Settled || want == old {
		return false
	}
	for _, m := range s.servers {
		if !s.ready(m) || m.trusts["peer"] != want || m.trusts["server"] != want {
			return false
		}
	}
	return s.client.volume["connection"].bundle == want
}

// Whatever crashes when, nobody ever meets a leaf that he does not trust, and in the end the old authority is gone.
func TestNobodyMeetsALeafThatHeDoesNotTrust(t *testing.T) {
	for seed := range uint64(60) {
		s := newRotationSim(t, seed)
		old := string(s.stored.Signing.Cert)
		s.crash = true
		for range 720 { // Two hours.
			s.tick()
			if s.rng.IntN(2) == 0 {
				s.pass(t)
			}
			if flaw := s.misunderstanding(); flaw != "" {
				t.Fatalf("seed %d: at %s %s\n%v", seed, s.now.Format(time.TimeOnly), flaw, s.log)
			}
		}
		s.crash = false
		for range 720 {
			s.tick()
			s.pass(t)
			if flaw := s.misunderstanding(); flaw != "" {
				t.Fatalf("seed %d: at %s %s\n%v", seed, s.now.Format(time.TimeOnly), flaw, s.log)
			}
		}
		if !s.finished(old) {
			t.Fatalf("seed %d: not finished, phase %s\n%v", seed, s.stored.Phase(), s.log)
		}
	}
}

// The simulation finds what the phases are for: without the time that they give somebody is left behind.
func TestTheSimulationNoticesHaste(t *testing.T) {
	for name, hasten := range map[string]func(*Facts){
		"nobody gets time":            func(f *Facts) { f.Hold = 0 },
		"servers are not waited for":  func(f *Facts) { f.InForce, f.Calm = true, time.Time{} },
		"nobody looks at what is out": func(f *Facts) { f.HandedOut = true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				if hasty(t, seed, hasten) {
					return
				}
			}
			t.Error("nobody was left behind")
		})
	}
}

func hasty(t *testing.T, seed uint64, hasten func(*Facts)) bool {
	t.Helper()
	s := newRotationSim(t, seed)
	s.crash = true
	for range 360 {
		s.tick()
		f := s.facts()
		hasten(&f)
		next, err := s.stored.Advance(f)
		if err != nil {
			t.Fatal(err)
		}
		s.stored = next
		// An operator that is interrupted for long between any two writes.
		if s.rng.IntN(10) == 0 && s.handOut(t) {
			s.restartOne()
		}
		if s.misunderstanding() != "" {
			return true
		}
	}
	return false
}
