package planner_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

// transported is a settled cluster whose record and member list say so, and whose pods listen for both or for what is told.
func transported(told, both, wanted bool, change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		s.Want.TLS, s.Want.CertificateIsRoot = wanted, told
		s.Want.Peers = model.Peers("orders", "default", "cluster.local", model.MaxSize, told)
		s.Record.Members, s.Record.TLSSwitch.Both = s.Want.Peers[:3], both
		for i := range s.Members {
			s.Members[i].PeerURL = s.Want.Peers[i].URL
			s.Pods[i].TLS, s.Pods[i].Plain = told || both, !told || both
		}
		if change != nil {
			change(s)
		}
	})
}

// other gives a member the URL of the other kind.
func other(s *model.State, i int) {
	s.Members[i].PeerURL = model.Peers("orders", "default", "cluster.local", 3, !s.Record.Secure())[i].URL
}

func toldAgo(d time.Duration) func(*model.State) {
	return func(s *model.State) { s.Record.TLSSwitch.Told = s.Now.Add(-d) }
}

func TestTLSIsSwitchedInOrder(t *testing.T) {
	plain0 := model.Peers("orders", "default", "cluster.local", 1, false)[0].URL
	rows.Run(t, map[string]planRow{
		"plain text as asked for is settled": {state: transported(false, false, false, nil)},
		"TLS is asked for: members listen for both first": {
			state: transported(false, false, true, nil), step: steps.SetTransport{Both: true},
			says: "TLS is switched on: members are made to listen for plain text and TLS",
		},
		"TLS is not asked for any more: members listen for both first": {
			state: transported(true, false, false, nil), step: steps.SetTransport{Secure: true, Both: true},
		},
		"a change waits for a member that is down": {
			state: transported(true, false, false, func(s *model.State) { s.Pods[2].Status, s.Pods[2].Ready = nil, false }), reason: planner.ReasonMembersNotReady,
		},
		"a change waits for another size": {
			state: transported(true, false, false, func(s *model.State) { s.Want.Size = 5 }), step: steps.Resize{From: 3, To: 4},
		},
		"a change comes before the snapshot of an upgrade": {
			state: transported(true, false, false, func(s *model.State) {
				s.Want.Version, s.Want.Snapshot, s.Want.SnapshotPlace, s.ClusterVersion = v37, true, true, model.Version{Major: 3, Minor: 6}
			}),
			step: steps.SetTransport{Secure: true, Both: true},
		},
		"a change waits for a quorum that is recovered": {
			state: transported(true, false, false, func(s *model.State) {
				s.Record.Recovery, s.Members = model.Recovery{Incident: "abc123", Phase: model.RecoveryStarted, Survivor: "orders-1"}, nil
			}),
			reason: steps.ReasonRecovering,
		},
		"a change waits for another version": {
			state: transported(true, false, false, func(s *model.State) {
				s.Want.Version, s.ClusterVersion = v37, model.Version{Major: 3, Minor: 6}
				s.Record.Flushed = true
			}),
			step: steps.SetVersion{From: v36, To: v37},
		},
		"another size waits for a change": {
			state: transported(true, true, false, func(s *model.State) { s.Want.Size = 5 }), step: steps.SetTransport{Both: true, Told: simNow},
		},
		"members restart with both listeners one at a time": {
			state: transported(true, true, false, func(s *model.State) {
				for i := range s.Pods[:2] {
					s.Pods[i].TemplateHash, s.Pods[i].Plain = "before", false
				}
			}),
			step: steps.DeletePod{Name: "orders-0", UID: "uid-orders-0", ResourceVersion: "7"},
		},
		"every member listens for both: clients are told": {
			state: transported(true, true, false, nil), step: steps.SetTransport{Both: true, Told: simNow}, says: "told to use plain text",
		},
		"after clients are told the member list follows, one at a time": {
			state: transported(false, true, false, func(s *model.State) { toldAgo(time.Second)(s); other(s, 0); other(s, 2) }),
			step:  steps.UpdatePeer{ID: 1, Name: "orders-0", URL: plain0, Via: "orders-1"},
		},
		"a learner's URL is not changed": {
			state: transported(false, true, false, func(s *model.State) {
				toldAgo(time.Second)(s)
				other(s, 2)
				s.Members[2].Learner = true
				s.Want.Size = 5
			}),
			step: steps.Promote{ID: 3, Name: "orders-2", Via: "orders-1"},
		},
		"clients have time to follow": {
			state:  transported(false, true, false, toldAgo(20*time.Second)),
			reason: steps.ReasonTransport, says: "clients have 40s more to follow the connection Secret to plain text",
		},
		"one listener is left when clients have had the time to follow": {
			state: transported(false, true, false, toldAgo(time.Minute)), step: steps.SetTransport{},
		},
		"one listener is not left before the last URL has changed": {
			state: transported(false, true, false, func(s *model.State) { toldAgo(time.Minute)(s); other(s, 0) }),
			step:  steps.UpdatePeer{ID: 1, Name: "orders-0", URL: plain0, Via: "orders-1"},
		},
	})
}

func TestTLSIsSwitchedBack(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a change of mind before clients were told ends immediately, whichever members are down": {
			state: transported(true, true, true, func(s *model.State) { s.Pods[2].Status, s.Pods[2].Ready = nil, false }),
			step:  steps.SetTransport{Secure: true}, says: "spec.tls.mode was set back",
		},
		"a change of mind after clients were told goes the way back": {
			state: transported(false, true, true, toldAgo(time.Second)), step: steps.SetTransport{Secure: true, Both: true, Told: simNow},
		},
		"a change of mind during the last restarts opens both again": {
			state: transported(false, false, true, func(s *model.State) { s.Pods[0].TLS, s.Pods[0].TemplateHash = true, "before"; s.Pods[1].Ready = false }),
			step:  steps.SetTransport{Both: true},
		},
		"a member that does not listen for what its peers use is told of before it is well": {
			state: transported(true, true, true, func(s *model.State) {
				toldAgo(time.Second)(s)
				other(s, 2)
				s.Pods[2].Plain, s.Pods[2].Ready = false, false
			}),
			step: steps.UpdatePeer{ID: 3, Name: "orders-2", URL: "https://orders-2.orders-peers.default.svc.cluster.local:2380", Via: "orders-1"},
		},
	})
}

func TestMembersOfRetainedVolumesFindEachOther(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"members of retained volumes that do not find each other listen for both": {
			state: transported(true, false, true, lonely), step: steps.SetTransport{Secure: true, Both: true, Told: simNow},
		},
		"members of retained volumes that do not find each other cannot listen for both without certificates": {
			state: transported(false, false, false, lonely), reason: planner.ReasonNoQuorum, says: "set spec.tls.mode to Managed until it is Ready",
		},
		"members that are known to have found each other do not listen for both": {
			state: transported(true, false, true, func(s *model.State) { lonely(s); s.Record.ClusterID = clusterID }), reason: planner.ReasonNoQuorum,
		},
	})
}

// lonely members run with the data of an earlier cluster, and have no leader.
func lonely(s *model.State) {
	s.Record.Bootstrap, s.Record.ClusterID, s.Members, s.Auth, s.Open = model.BootstrapRetained, 0, nil, nil, false
	for i := range s.Pods {
		s.Pods[i].Status.Leader, s.Pods[i].Ready = 0, false
	}
}

func TestWhatIsSaidWhileTLSIsSwitched(t *testing.T) {
	for name, tc := range map[string]struct {
		state model.State
		says  string
	}{
		"nothing at rest":        {transported(true, false, true, nil), ""},
		"to be switched on":      {transported(false, false, true, nil), "TLS is switched on: members serve plain text until then"},
		"being switched on":      {transported(false, true, true, nil), "TLS is switched on: members serve plain text too until that is over"},
		"clients follow":         {transported(true, true, true, nil), "TLS is switched on: members serve plain text too until that is over"},
		"being switched off":     {transported(true, true, false, nil), "TLS is switched off: members serve plain text too until that is over"},
		"nothing while unknown":  {model.State{}, ""},
		"to be switched off yet": {transported(true, false, false, nil), "TLS is switched off: members serve TLS alone until that has begun"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := planner.Switching(tc.state); got != tc.says {
				t.Errorf("%q instead of %q", got, tc.says)
			}
		})
	}
}

func TestCertificatesComeFromWhereMembersHaveThem(t *testing.T) {
	managed, disabled, provided, issued := v1alpha1.TLSManaged, v1alpha1.TLSDisabled, v1alpha1.TLSProvided, v1alpha1.TLSCertManager
	secret := "mine"
	spec := map[string]*v1alpha1.TLSSpec{
		"managed": {Mode: &managed}, "default": nil, "rotated": {Mode: &managed, Rotation: &v1alpha1.RotationSpec{}},
		"off": {Mode: &disabled}, "own": {Mode: &provided, SecretName: &secret},
		"issued":  {Mode: &issued, IssuerRef: &v1alpha1.IssuerReference{Name: "ours"}},
		"another": {Mode: &issued, IssuerRef: &v1alpha1.IssuerReference{Name: "theirs"}},
	}
	for name, tc := range map[string]struct {
		reach     model.Transport
		spec, use string
		wants     bool
	}{
		"plain, to stay so":            {model.Transport{}, "off", "off", false},
		"plain, to be secured":         {model.Transport{}, "own", "own", true},
		"managed, with new rotation":   {model.Transport{Secure: true, TLSSwitch: model.TLSSwitch{TLS: spec["default"]}}, "rotated", "rotated", true},
		"managed, spelled out":         {model.Transport{Secure: true, TLSSwitch: model.TLSSwitch{TLS: spec["managed"]}}, "default", "default", true},
		"own ones, to be switched off": {model.Transport{Secure: true, TLSSwitch: model.TLSSwitch{TLS: spec["own"]}}, "off", "own", false},
		"another issuer":               {model.Transport{Secure: true, TLSSwitch: model.TLSSwitch{TLS: spec["issued"]}}, "another", "another", true},
		"others are asked for":         {model.Transport{TLSSwitch: model.TLSSwitch{Both: true, TLS: spec["own"]}}, "managed", "own", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.reach.Certificates(spec[tc.spec]); got != spec[tc.use] {
				t.Errorf("certificates from %+v", got)
			}
			if got := tc.reach.WantsTLS(spec[tc.spec]); got != tc.wants {
				t.Errorf("TLS is wanted: %t", got)
			}
		})
	}
}

func TestHowMembersAreReachedIsReadBack(t *testing.T) {
	mode := v1alpha1.TLSProvided
	secret := "mine"
	want := model.Transport{Secure: true, TLSSwitch: model.TLSSwitch{Both: true, TLS: &v1alpha1.TLSSpec{Mode: &mode, SecretName: &secret}, Told: simNow}}
	got, err := model.ParseTransport(want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := model.ParseTransport("{"); err == nil {
		t.Error("half a text is read")
	}
	r := model.Record{Bootstrap: model.BootstrapNew, Version: v36, Members: model.Peers("orders", "default", "cluster.local", 3, true), TLSSwitch: want.TLSSwitch}
	back, err := model.ParseRecord(r.Data())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
