package tls

import (
	"bytes"
	"crypto/x509"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTrustFollowsAnIssuer(t *testing.T) {
	a, b, c := newAuthority(t, now).Cert, newAuthority(t, now).Cert, newAuthority(t, now).Cert
	ab, at := slices.Concat(a, b), now.Add(-time.Hour)
	done := Facts{HandedOut: true, InForce: true, Hold: time.Minute, Now: now}
	tests := map[string]struct {
		from Trust
		seen []byte
		f    Facts
		want Trust
	}{
		"nothing new":                         {Trust{Proven: a}, a, done, Trust{Proven: a}},
		"another authority is introduced":     {Trust{Proven: a}, ab, done, Trust{Proven: a, Next: b}},
		"a third one joins it":                {Trust{Proven: a, Next: b, HandedOut: at}, c, done, Trust{Proven: a, Next: slices.Concat(b, c)}},
		"it is handed out":                    {Trust{Proven: a, Next: b}, b, done, Trust{Proven: a, Next: b, HandedOut: now}},
		"clients get time":                    {Trust{Proven: a, Next: b, HandedOut: now.Add(-30 * time.Second)}, b, done, Trust{Proven: a, Next: b, HandedOut: now.Add(-30 * time.Second)}},
		"a Secret is lost meanwhile":          {Trust{Proven: a, Next: b, HandedOut: at}, b, Facts{InForce: true, Now: now}, Trust{Proven: a, Next: b}},
		"servers do not know it yet":          {Trust{Proven: a, Next: b, HandedOut: at}, b, Facts{HandedOut: true, Now: now}, Trust{Proven: a, Next: b, HandedOut: at}},
		"it is proven, and the old one goes":  {Trust{Proven: a, Next: b, HandedOut: at}, b, done, Trust{Proven: b, Retired: a}},
		"it is proven, beside the old one":    {Trust{Proven: a, Next: b, HandedOut: at}, ab, done, Trust{Proven: slices.Concat(b, a)}},
		"the last leaf of the old one went":   {Trust{Proven: ab}, b, done, Trust{Proven: b, Retired: a}},
		"the old one is trusted no more":      {Trust{Proven: b, Retired: a, HandedOut: at}, b, done, Trust{Proven: b}},
		"the old one signs again":             {Trust{Proven: b, Retired: a, HandedOut: at}, ab, done, Trust{Proven: slices.Concat(b, a)}},
		"a third one while the old one goes":  {Trust{Proven: b, Retired: a, HandedOut: at}, c, done, Trust{Proven: slices.Concat(b, a), Next: c}},
		"one that is told twice counts once":  {Trust{Proven: a}, slices.Concat(a, b, b, a), done, Trust{Proven: a, Next: b}},
		"one that never signed goes, as well": {Trust{Proven: a, Next: b, HandedOut: at}, a, done, Trust{Proven: a, Retired: b}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.from.Advance(tc.seen, tc.f)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsInUseIsTakenForNewWhenNothingIsWrittenDown(t *testing.T) {
	a, b := newAuthority(t, now).Cert, newAuthority(t, now).Cert
	if got := NewTrust(a, nil); !reflect.DeepEqual(got, Trust{Proven: a}) {
		t.Errorf("a new cluster: %+v", got)
	}
	if got := NewTrust(b, a); !reflect.DeepEqual(got, Trust{Next: a}) {
		t.Errorf("one that runs: %+v", got)
	}
}

func TestALeafIsKeptUntilTheNextOneIsTrusted(t *testing.T) {
	ca, mine := pairs(t)
	other, theirs := pairs(t)
	tests := map[string]struct {
		proven        []byte
		issued, inUse Pair
		at            time.Time
		want          Pair
	}{
		"trusted":                    {ca.Cert, mine, theirs, now, mine},
		"not trusted":                {ca.Cert, theirs, mine, now, mine},
		"the first one":              {ca.Cert, theirs, Pair{}, now, theirs},
		"in the place of an expired": {ca.Cert, theirs, mine, now.Add(LeafValidity + time.Hour), theirs},
		"nothing issued":             {slices.Concat(ca.Cert, other.Cert), Pair{}, mine, now, mine},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := (Trust{Proven: tc.proven}).Hand(tc.issued, tc.inUse, tc.at); !bytes.Equal(got.Cert, tc.want.Cert) || !bytes.Equal(got.Key, tc.want.Key) {
				t.Error("another one is handed out")
			}
		})
	}
}

func TestFlawsAreNamed(t *testing.T) {
	ca, issued := pairs(t)
	other, theirs := pairs(t)
	client, err := Issue(ca, Leaf{CommonName: "client"}, now)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		ca   []byte
		have Pair
		want Leaf
		at   time.Time
		flaw string
	}{
		"as it was asked for":      {ca.Cert, issued, leaf, now, ""},
		"more names than needed":   {ca.Cert, issued, Leaf{CommonName: "server", DNSNames: []string{"a.example"}}, now, ""},
		"a client":                 {ca.Cert, client, Leaf{CommonName: "client"}, now, ""},
		"no authority":             {nil, issued, leaf, now, "without the certificate authority (ca.crt)"},
		"another authority":        {other.Cert, issued, leaf, now, "not signed by the certificate authority"},
		"another key":              {ca.Cert, Pair{Cert: issued.Cert, Key: theirs.Key}, leaf, now, "do not belong together"},
		"rubbish":                  {ca.Cert, Pair{Cert: []byte("x")}, leaf, now, "cannot be read"},
		"signed by itself":         {ca.Cert, ca, leaf, now, "signed by itself"},
		"expired":                  {ca.Cert, issued, leaf, now.Add(LeafValidity + time.Hour), "expired at 2027-05-01"},
		"another common name":      {ca.Cert, issued, Leaf{CommonName: "root"}, now, `"server" instead of "root"`},
		"a name less":              {ca.Cert, issued, Leaf{CommonName: "server", DNSNames: []string{"c.example"}}, now, "not for the name c.example"},
		"an address less":          {ca.Cert, issued, Leaf{CommonName: "server", IPs: Loopback}, now, "not for the address ::1"},
		"a client that has a name": {ca.Cert, issued, Leaf{CommonName: "server"}, now, "a certificate for clients must have none"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Flaw(tc.ca, tc.have, tc.want, tc.at)
			if (tc.flaw == "") != (got == "") || !strings.Contains(got, tc.flaw) {
				t.Errorf("Flaw = %q, want something with %q", got, tc.flaw)
			}
		})
	}
	cert := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if serves(cert, x509.ExtKeyUsageClientAuth) || !serves(cert, x509.ExtKeyUsageServerAuth) || !serves(&x509.Certificate{}, x509.ExtKeyUsageClientAuth) {
		t.Error("what a certificate may be used for is misread")
	}
}

func TestACertificateIsWaitedFor(t *testing.T) {
	ready := func(status metav1.ConditionStatus, generation int64) CertificateStatus {
		return CertificateStatus{Conditions: []metav1.Condition{
			{Type: "Issuing", Status: metav1.ConditionTrue, Message: "at work"},
			{Type: "Ready", Status: status, Message: "no such issuer", ObservedGeneration: generation},
		}}
	}
	for name, tc := range map[string]struct {
		status CertificateStatus
		want   string
	}{
		"new":                      {CertificateStatus{}, "cert-manager has not looked at it yet"},
		"of another generation":    {ready(metav1.ConditionTrue, 1), "cert-manager has not looked at it yet"},
		"failing":                  {ready(metav1.ConditionFalse, 2), "no such issuer"},
		"ready, and being renewed": {ready(metav1.ConditionTrue, 2), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.status.Waiting(2); got != tc.want {
				t.Errorf("Waiting = %q, want %q", got, tc.want)
			}
		})
	}
}

// trustSim is a cluster whose leafs are signed by an issuer that changes its authority, and renews leafs, as it likes.
type trustSim struct {
	*rotationSim
	issuer Pair
	trust  Trust
	issued map[string]simSecret
	// pairs remembers what is handed out of what is there, which takes long to work out.
	pairs map[[3]string]Pair
}

func newTrustSim(t *testing.T, seed uint64) *trustSim {
	t.Helper()
	s := &trustSim{rotationSim: newRotationSim(t, seed)}
	s.issuer, s.trust = s.stored.Signing, Trust{Proven: s.stored.Signing.Cert}
	s.issued, s.pairs = maps.Clone(s.secrets), map[[3]string]Pair{}
	delete(s.issued, "connection")
	return s
}

// issue lets something happen at the issuer.
func (s *trustSim) issue(t *testing.T) {
	t.Helper()
	if s.rng.IntN(100) == 0 {
		s.issuer = newAuthority(t, s.now)
	}
	for _, name := range slices.Sorted(maps.Keys(simLeafs)) {
		if s.rng.IntN(60) == 0 {
			s.sign(t, name)
		}
	}
}

func (s *trustSim) sign(t *testing.T, name string) {
	t.Helper()
	pair, err := Issue(s.issuer, simLeafs[name], s.now)
	if err != nil {
		t.Fatal(err)
	}
	s.issued[name] = simSecret{string(pair.Cert), string(pair.Key), string(s.issuer.Cert)}
}

func (s *trustSim) handed(name string) simSecret {
	key := [3]string{s.issued[name].cert, s.secrets[name].cert, string(s.trust.Proven)}
	pair, known := s.pairs[key]
	if !known {
		pair = s.trust.Hand(s.issued[name].pair(), s.secrets[name].pair(), s.now)
		s.pairs[key] = pair
	}
	return simSecret{string(pair.Cert), string(pair.Key), string(s.trust.Bundle())}
}

func (s *trustSim) facts() Facts {
	f := Facts{Hold: simHold, HandedOut: s.secrets["connection"] == s.secrets["client"], InForce: true, Now: s.now}
	for name := range simLeafs {
		f.HandedOut = f.HandedOut && s.secrets[name] == s.handed(name)
	}
	for _, m := range s.servers {
		f.InForce = f.InForce && s.ready(m) && m.fingerprint == s.fingerprint(string(s.trust.Bundle()))
		f.Calm = latest(f.Calm, m.readyAt)
	}
	return f
}

func (s *trustSim) pass(hasten func(*Facts)) {
	var seen []byte
	for _, name := range slices.Sorted(maps.Keys(s.issued)) {
		seen = append(seen, s.issued[name].bundle...)
	}
	f := s.facts()
	if hasten != nil {
		hasten(&f)
	}
	if next := s.trust.Advance(seen, f); !reflect.DeepEqual(next, s.trust) {
		s.trust = next
		if !s.wrote("trust " + string(next.Phase())) {
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(simLeafs)) {
		if !s.put(name, s.handed(name)) {
			return
		}
	}
	if sum := s.fingerprint(string(s.trust.Bundle())); sum != s.tmpl {
		s.tmpl = sum
		if !s.wrote("template") {
			return
		}
	}
	if s.put("connection", s.secrets["client"]) {
		s.restartOne()
	}
}

// Whatever an issuer does when, and whoever crashes, nobody ever meets a leaf that he does not trust, and in the end only
// the last authority is trusted.
func TestNobodyMeetsALeafOfAnIssuerThatHeDoesNotTrust(t *testing.T) {
	for seed := range uint64(20) {
		s := newTrustSim(t, seed)
		s.crash = true
		for range 720 { // Two hours.
			s.tick()
			s.issue(t)
			if s.rng.IntN(2) == 0 {
				s.pass(nil)
			}
			if flaw := s.misunderstanding(); flaw != "" {
				t.Fatalf("seed %d: at %s %s\n%v", seed, s.now.Format(time.TimeOnly), flaw, s.log)
			}
		}
		s.crash = false
		for name := range simLeafs {
			s.sign(t, name)
		}
		for range 720 {
			s.tick()
			s.pass(nil)
			if flaw := s.misunderstanding(); flaw != "" {
				t.Fatalf("seed %d: at %s %s\n%v", seed, s.now.Format(time.TimeOnly), flaw, s.log)
			}
		}
		if got := s.client.volume["connection"]; got.bundle != string(s.issuer.Cert) || s.trust.Phase() != Settled {
			t.Fatalf("seed %d: not finished, phase %s\n%v", seed, s.trust.Phase(), s.log)
		}
	}
}

// The simulation finds what the phases are for.
func TestTheSimulationOfAnIssuerNoticesHaste(t *testing.T) {
	for name, hasten := range map[string]func(*Facts){
		"nobody gets time":            func(f *Facts) { f.Hold = 0 },
		"servers are not waited for":  func(f *Facts) { f.InForce, f.Calm = true, time.Time{} },
		"nobody looks at what is out": func(f *Facts) { f.HandedOut = true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				s := newTrustSim(t, seed)
				s.crash = true
				for range 360 {
					s.tick()
					s.issue(t)
					if s.rng.IntN(5) == 0 {
						s.pass(hasten)
					}
					if s.misunderstanding() != "" {
						return
					}
				}
			}
			t.Error("nobody was left behind")
		})
	}
}
