package planner

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// TLS is switched on and off while the cluster serves. Both kinds of listener are open until the
// switch is complete:
//
//	members listen for    URLs in the record, and in the member list          next
//	---------------------------------------------------------------------------------------------------------------
//	plain text            http                                                every member restarts with both
//	both                  http                                                the record turns to https: clients are told
//	both                  https, the list follows member by member            clients have time to follow their Secret
//	both                  https                                               every member restarts with TLS alone
//	TLS                   https
//
// The way back is the same, from wherever it is when the specification changes again. At any time
// every member listens for the URLs of the record and of the member list, so that peers, clients
// and the operator can use either.
//
// The client port takes both (etcd tells them apart by their first bytes, see serve.go in
// server/embed). A peer port does not, so there are two.

// revertTransport follows a change of mind as long as nothing but listeners has changed: before anybody was told of other URLs, or after
// everybody has followed. It comes before anything waits for members, because what is not well may be so for the change.
func revertTransport(s model.State) (cluster.Plan, bool) {
	r := s.Record
	mixed := slices.ContainsFunc(s.Pods, func(p model.Pod) bool { return p.Plain && p.TLS })
	switch wanted := r.Secure() == s.Want.TLS; {
	case wanted && r.TLSSwitch.Both && r.TLSSwitch.Told.IsZero():
		return cluster.Do(steps.SetTransport{Secure: r.Secure()}, "spec.tls.mode was set back: members go on with %s alone", steps.WordFor(r.Secure()))
	case !wanted && !r.TLSSwitch.Both && mixed:
		return openBoth(s)
	}
	return cluster.Pass()
}

// openBoth makes members listen for plain text and TLS, whichever of the two they go without.
func openBoth(s model.State) (cluster.Plan, bool) {
	if s.Record.TLSSwitch.Both || s.Record.Secure() == s.Want.TLS {
		return cluster.Pass()
	}
	return cluster.Do(steps.SetTransport{Secure: s.Record.Secure(), Both: true}, "%s: members are made to listen for plain text and TLS", switching(s))
}

// switchTransport begins a change when everything else is done.
func switchTransport(s model.State) (cluster.Plan, bool) {
	if anyOutdated(s) || len(s.Members) != len(s.Record.Members) {
		return cluster.Pass()
	}
	return openBoth(s)
}

// listenForBothTransports lets members find each other that an earlier cluster of this name has left, or that lost their record while TLS was
// being switched: what their disks say of their peers may be what nobody listens for. Once the identity of the cluster is
// recorded, they have found each other.
func listenForBothTransports(s model.State) (cluster.Plan, bool) {
	r, lonely := s.Record, 0
	for _, p := range s.Pods {
		if p.Status != nil && p.Status.Leader == 0 {
			lonely++
		}
	}
	if s.Members != nil || s.Known() || r.Bootstrap == model.BootstrapNew || r.TLSSwitch.Both || anyYoung(s) || lonely < model.Quorum(len(r.Members)) {
		return cluster.Pass()
	}
	if !r.Secure() && !s.Want.TLS {
		return cluster.Wait(ReasonNoQuorum, whileWaiting, "the members do not find each other%s: where their volumes are of a cluster with TLS, "+
			"set spec.tls.mode to Managed until it is Ready", troubles(s))
	}
	return cluster.Do(steps.SetTransport{Secure: r.Secure(), Both: true, Told: s.Now},
		"the members do not find each other: they are made to listen for plain text and TLS, because their volumes may know either")
}

// correctPeerURL brings the URL of a member into line that does not listen for what its peers use any more.
func correctPeerURL(s model.State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		if p := s.Pod(m); p != nil && !p.Terminating && p.Status != nil && !m.Learner && !p.Listens(model.Secure(m.PeerURL)) && p.Listens(s.Record.Secure()) {
			return tell(s, m)
		}
	}
	return cluster.Pass()
}

// tell tells the quorum the URL of a member that the record has.
func tell(s model.State, m model.Member) (cluster.Plan, bool) {
	p, peer := s.Pod(m), s.Want.Peers[s.Ordinal(m)]
	return cluster.Do(steps.UpdatePeer{ID: m.ID, Name: p.Name, URL: peer.URL, Via: via(s, model.Member{})},
		"%s: %s listens for %s, and its peers are told to use that", switching(s), p.Name, steps.WordFor(model.Secure(peer.URL)))
}

// updatePeerURLs brings the URLs in the member list into line with the record, one at a time. It waits for a learner: an update of
// one would give it a vote before it has the data (etcd issue 21694).
func updatePeerURLs(s model.State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		p, peer := s.Pod(m), s.Want.Peers[s.Ordinal(m)]
		tls := model.Secure(peer.URL)
		switch {
		case m.PeerURL == peer.URL:
		case m.Learner:
			return cluster.Wait(steps.ReasonTransport, whileWaiting, "%s: %s has no vote yet", switching(s), p.Name)
		case !p.Listens(tls):
			return cluster.Wait(steps.ReasonTransport, whileWaiting, "%s: %s does not listen for %s", switching(s), p.Name, steps.WordFor(tls))
		default:
			return tell(s, m)
		}
	}
	return cluster.Pass()
}

// closeOldListeners ends a change: what nobody is told to use any more is not listened for any more.
func closeOldListeners(s model.State) (cluster.Plan, bool) {
	r := s.Record
	if !r.TLSSwitch.Both || r.Secure() != s.Want.TLS || grace(s) > 0 {
		return cluster.Pass()
	}
	return cluster.Do(steps.SetTransport{Secure: r.Secure()}, "%s: peers and clients use %s, and members listen for nothing else from now on",
		switching(s), steps.WordFor(r.Secure()))
}

// switchClients makes members and clients use other URLs, once every member listens for both, and lets clients follow. The rules
// below it wait until the change is over, because members listen for plain text as long as it takes.
func switchClients(s model.State) (cluster.Plan, bool) {
	r := s.Record
	switch {
	case !r.TLSSwitch.Both:
		return cluster.Pass()
	case r.Secure() == s.Want.TLS:
		left := grace(s)
		return cluster.Wait(steps.ReasonTransport, left, "%s: clients have %s more to follow the connection Secret to %s; until then members "+
			"serve plain text and TLS", switching(s), left.Round(time.Second), steps.WordFor(r.Secure()))
	}
	for _, m := range s.Members {
		if p := s.Pod(m); !p.Plain || !p.TLS {
			return cluster.Pass() // It cannot be spared, see rollOut, before the cluster has another size.
		}
	}
	return cluster.Do(steps.SetTransport{Secure: s.Want.TLS, Both: true, Told: s.Now}, "%s: every member listens for both, so peers and clients are told to use %s",
		switching(s), steps.WordFor(s.Want.TLS))
}

// grace is how much longer clients may take to follow.
func grace(s model.State) time.Duration {
	t := s.Record.TLSSwitch.Told
	if t.IsZero() || !s.Open {
		return 0
	}
	return max(0, s.Want.Hold-s.Now.Sub(t))
}

// switching says what is going on.
func switching(s model.State) string {
	if s.Want.TLS {
		return "TLS is switched on"
	}
	return "TLS is switched off"
}

// Switching says in words that TLS is being switched, empty when it is not.
func Switching(s model.State) string {
	if s.Record == nil || (!s.Record.TLSSwitch.Both && s.Record.Secure() == s.Want.TLS) {
		return ""
	}
	plain := "members serve plain text too until that is over"
	switch {
	case !s.Record.TLSSwitch.Both && !s.Record.Secure():
		plain = "members serve plain text until then"
	case !s.Record.TLSSwitch.Both:
		plain = "members serve TLS alone until that has begun"
	}
	return switching(s) + ": " + plain
}
