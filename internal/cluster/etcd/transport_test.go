package etcd_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// transported is a settled cluster whose record and member list say so, and whose pods listen for both or for what is told.
func transported(told, both, wanted bool, change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		s.Want.TLS, s.Want.CertificateIsRoot = wanted, told
		s.Want.Peers = etcd.Peers("orders", "default", "cluster.local", etcd.MaxSize, told)
		s.Record.Members, s.Record.Transport.Both = s.Want.Peers[:3], both
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
func other(s *etcd.State, i int) {
	s.Members[i].PeerURL = etcd.Peers("orders", "default", "cluster.local", 3, !s.Record.Secure())[i].URL
}

func toldAgo(d time.Duration) func(*etcd.State) {
	return func(s *etcd.State) { s.Record.Transport.Told = s.Now.Add(-d) }
}

func TestTLSIsSwitchedInOrder(t *testing.T) {
	plain0 := etcd.Peers("orders", "default", "cluster.local", 1, false)[0].URL
	runRows(t, map[string]planRow{
		"plain text as asked for is settled": {state: transported(false, false, false, nil)},
		"TLS is asked for: members listen for both first": {
			state: transported(false, false, true, nil), step: etcd.SetTransport{Both: true},
			says: "TLS is switched on: members are made to listen for plain text and TLS",
		},
		"TLS is not asked for any more: members listen for both first": {
			state: transported(true, false, false, nil), step: etcd.SetTransport{Secure: true, Both: true},
		},
		"a change waits for a member that is down": {
			state: transported(true, false, false, func(s *etcd.State) { s.Pods[2].View, s.Pods[2].Ready = nil, false }), reason: etcd.ReasonMembersNotReady,
		},
		"a change waits for another size": {
			state: transported(true, false, false, func(s *etcd.State) { s.Want.Size = 5 }), step: etcd.Resize{From: 3, To: 4},
		},
		"a change comes before the snapshot of an upgrade": {
			state: transported(true, false, false, func(s *etcd.State) {
				s.Want.Version, s.Want.Snapshot, s.Want.SnapshotPlace, s.ClusterVersion = v37, true, true, etcd.Version{Major: 3, Minor: 6}
			}),
			step: etcd.SetTransport{Secure: true, Both: true},
		},
		"a change waits for a quorum that is recovered": {
			state: transported(true, false, false, func(s *etcd.State) {
				s.Record.Recovery, s.Members = etcd.Recovery{Incident: "abc123", Phase: etcd.RecoveryStarted, Survivor: "orders-1"}, nil
			}),
			reason: etcd.ReasonRecovering,
		},
		"a change waits for another version": {
			state: transported(true, false, false, func(s *etcd.State) {
				s.Want.Version, s.ClusterVersion = v37, etcd.Version{Major: 3, Minor: 6}
				s.Record.Flushed = true
			}),
			step: etcd.SetVersion{From: v36, To: v37},
		},
		"another size waits for a change": {
			state: transported(true, true, false, func(s *etcd.State) { s.Want.Size = 5 }), step: etcd.SetTransport{Both: true, Told: simNow},
		},
		"members restart with both listeners one at a time": {
			state: transported(true, true, false, func(s *etcd.State) {
				for i := range s.Pods[:2] {
					s.Pods[i].TemplateHash, s.Pods[i].Plain = "before", false
				}
			}),
			step: etcd.DeletePod{Name: "orders-0", UID: "uid-orders-0", ResourceVersion: "7"},
		},
		"every member listens for both: clients are told": {
			state: transported(true, true, false, nil), step: etcd.SetTransport{Both: true, Told: simNow}, says: "told to use plain text",
		},
		"after clients are told the member list follows, one at a time": {
			state: transported(false, true, false, func(s *etcd.State) { toldAgo(time.Second)(s); other(s, 0); other(s, 2) }),
			step:  etcd.UpdatePeer{ID: 1, Name: "orders-0", URL: plain0, Via: "orders-1"},
		},
		"a learner's URL is not changed": {
			state: transported(false, true, false, func(s *etcd.State) {
				toldAgo(time.Second)(s)
				other(s, 2)
				s.Members[2].Learner = true
				s.Want.Size = 5
			}),
			step: etcd.Promote{ID: 3, Name: "orders-2", Via: "orders-1"},
		},
		"clients have time to follow": {
			state:  transported(false, true, false, toldAgo(20*time.Second)),
			reason: etcd.ReasonTransport, says: "clients have 40s more to follow the connection Secret to plain text",
		},
		"one listener is left when clients have had the time to follow": {
			state: transported(false, true, false, toldAgo(time.Minute)), step: etcd.SetTransport{},
		},
		"one listener is not left before the last URL has changed": {
			state: transported(false, true, false, func(s *etcd.State) { toldAgo(time.Minute)(s); other(s, 0) }),
			step:  etcd.UpdatePeer{ID: 1, Name: "orders-0", URL: plain0, Via: "orders-1"},
		},
	})
}

func TestTLSIsSwitchedBack(t *testing.T) {
	runRows(t, map[string]planRow{
		"a change of mind before clients were told ends immediately, whichever members are down": {
			state: transported(true, true, true, func(s *etcd.State) { s.Pods[2].View, s.Pods[2].Ready = nil, false }),
			step:  etcd.SetTransport{Secure: true}, says: "spec.tls.mode was set back",
		},
		"a change of mind after clients were told goes the way back": {
			state: transported(false, true, true, toldAgo(time.Second)), step: etcd.SetTransport{Secure: true, Both: true, Told: simNow},
		},
		"a change of mind during the last restarts opens both again": {
			state: transported(false, false, true, func(s *etcd.State) { s.Pods[0].TLS, s.Pods[0].TemplateHash = true, "before"; s.Pods[1].Ready = false }),
			step:  etcd.SetTransport{Both: true},
		},
		"a member that does not listen for what its peers use is told of before it is well": {
			state: transported(true, true, true, func(s *etcd.State) {
				toldAgo(time.Second)(s)
				other(s, 2)
				s.Pods[2].Plain, s.Pods[2].Ready = false, false
			}),
			step: etcd.UpdatePeer{ID: 3, Name: "orders-2", URL: "https://orders-2.orders-peers.default.svc.cluster.local:2380", Via: "orders-1"},
		},
	})
}

func TestMembersOfRetainedVolumesFindEachOther(t *testing.T) {
	runRows(t, map[string]planRow{
		"members of retained volumes that do not find each other listen for both": {
			state: transported(true, false, true, lonely), step: etcd.SetTransport{Secure: true, Both: true, Told: simNow},
		},
		"members of retained volumes that do not find each other cannot listen for both without certificates": {
			state: transported(false, false, false, lonely), reason: etcd.ReasonNoQuorum, says: "set spec.tls.mode to Managed until it is Ready",
		},
		"members that are known to have found each other do not listen for both": {
			state: transported(true, false, true, func(s *etcd.State) { lonely(s); s.Record.ClusterID = clusterID }), reason: etcd.ReasonNoQuorum,
		},
	})
}

// lonely members run with the data of an earlier cluster, and have no leader.
func lonely(s *etcd.State) {
	s.Record.Bootstrap, s.Record.ClusterID, s.Members, s.Auth, s.Open = etcd.BootstrapRetained, 0, nil, nil, false
	for i := range s.Pods {
		s.Pods[i].View.Leader, s.Pods[i].Ready = 0, false
	}
}

func TestWhatIsSaidWhileTLSIsSwitched(t *testing.T) {
	for name, tc := range map[string]struct {
		state etcd.State
		says  string
	}{
		"nothing at rest":        {transported(true, false, true, nil), ""},
		"to be switched on":      {transported(false, false, true, nil), "TLS is switched on: members serve plain text until then"},
		"being switched on":      {transported(false, true, true, nil), "TLS is switched on: members serve plain text too until that is over"},
		"clients follow":         {transported(true, true, true, nil), "TLS is switched on: members serve plain text too until that is over"},
		"being switched off":     {transported(true, true, false, nil), "TLS is switched off: members serve plain text too until that is over"},
		"nothing while unknown":  {etcd.State{}, ""},
		"to be switched off yet": {transported(true, false, false, nil), "TLS is switched off: members serve TLS alone until that has begun"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := etcd.Switching(tc.state); got != tc.says {
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
		reach     etcd.Reach
		spec, use string
		wants     bool
	}{
		"plain, to stay so":            {etcd.Reach{}, "off", "off", false},
		"plain, to be secured":         {etcd.Reach{}, "own", "own", true},
		"managed, with new rotation":   {etcd.Reach{Secure: true, Transport: etcd.Transport{TLS: spec["default"]}}, "rotated", "rotated", true},
		"managed, spelled out":         {etcd.Reach{Secure: true, Transport: etcd.Transport{TLS: spec["managed"]}}, "default", "default", true},
		"own ones, to be switched off": {etcd.Reach{Secure: true, Transport: etcd.Transport{TLS: spec["own"]}}, "off", "own", false},
		"another issuer":               {etcd.Reach{Secure: true, Transport: etcd.Transport{TLS: spec["issued"]}}, "another", "another", true},
		"others are asked for":         {etcd.Reach{Transport: etcd.Transport{Both: true, TLS: spec["own"]}}, "managed", "own", false},
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
	want := etcd.Reach{Secure: true, Transport: etcd.Transport{Both: true, TLS: &v1alpha1.TLSSpec{Mode: &mode, SecretName: &secret}, Told: simNow}}
	got, err := etcd.ParseReach(want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := etcd.ParseReach("{"); err == nil {
		t.Error("half a text is read")
	}
	r := etcd.Record{Bootstrap: etcd.BootstrapNew, Version: v36, Members: etcd.Peers("orders", "default", "cluster.local", 3, true), Transport: want.Transport}
	back, err := etcd.ParseRecord(r.Data())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
