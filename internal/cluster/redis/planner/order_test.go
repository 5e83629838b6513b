package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/redistest"
)

// TestEachRuleDecidesInItsOwnPlace has rules that share facts with rules of other places.
func TestEachRuleDecidesInItsOwnPlace(t *testing.T) {
	lost := model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner}
	unowned := func(f *fixture) { f.views(id("c-1-0"), func(p *model.Peer) { p.Slots = nil }) }
	confirmed := func(f *fixture) {
		f.Confirmed = asked(true)
		f.Confirmed.Loss, _, _ = Refilling(f.State)
	}
	replaced := func(name, replica string) func(*fixture) { // A server without the data has the pod of a primary.
		return func(f *fixture) {
			f.replaceDisk(name)
			f.join(name)
			f.pod(replica).Node.LinkUp = false
		}
	}
	shardLost := func(f *fixture) { f.loseShard("1") }
	for want, f := range map[string]*fixture{
		"recoverSlotsWithoutOwner":   changed(formed(), replaced("c-1-0", "c-1-1")),
		"beginRefill":                changed(formed(), shardLost, confirmed),
		"refill":                     changed(formed(), shardLost, func(f *fixture) { f.Restore = begun(lost, nil) }),
		"assignLostSlots":            changed(formed(), shardLost),
		"beginUnownedRefill":         changed(formed(), unowned, confirmed),
		"loseUnowned":                changed(formed(), unowned),
		"settleClaimsBeforeTakeOver": changed(single(), replaced("c-0-0", "c-0-1"), leftClaim),
		"takeOver":                   changed(single(), replaced("c-0-0", "c-0-1")),
	} {
		if got := Explain(f.State); got.Rule != want {
			t.Errorf("%s decides, want %s: %s", got.Rule, want, Next(f.State).Message)
		}
	}
}

// leftClaim is a claim that the cluster has no pod for.
func leftClaim(f *fixture) {
	f.Spec.Persistent, f.Claims = true, []model.Claim{{Name: "data-c-0-7", Ordinal: 7}}
}

// TestEachRuleOfTheModeReplicatedDecidesInItsOwnPlace has the rules about who is the primary.
func TestEachRuleOfTheModeReplicatedDecidesInItsOwnPlace(t *testing.T) {
	unappointed := func(f *fixture) {
		f.Appointed = model.Appointment{}
		for i := range f.Pods {
			f.starts(f.Pods[i].Name, int64(i))
		}
	}
	dead := func(f *fixture) { f.die("c-0-0"); f.lose(0, "c-0-1", "c-0-2") }
	for want, changes := range map[string][]func(*fixture){
		"waitForFirstServers":         {unappointed, func(f *fixture) { f.hang("c-0-2") }},
		"settleFirstClaims":           {unappointed, leftClaim},
		"appointFirstPrimary":         {unappointed},
		"finishHandOver":              {func(f *fixture) { f.hang("c-0-0"); f.Candidate = model.FailoverCandidate{Pod: "c-0-1"} }},
		"waitForFence":                {func(f *fixture) { f.hang("c-0-0"); f.lose(8*time.Second, "c-0-1", "c-0-2") }},
		"waitForUnreachableCandidate": {dead, func(f *fixture) { f.hang("c-0-2") }},
		"reinstateWithMore":           {(*fixture).alone, func(f *fixture) { f.starts("c-0-0", 10) }},
		"redirectReplicas":            {func(f *fixture) { f.hang("c-0-0"); f.lose(9*time.Second, "c-0-1", "c-0-2") }},
		"promoteFurthest":             {dead},
		"endFormerPrimary":            {func(f *fixture) { f.replacedAfter(time.Hour); f.pod("c-0-1").Role = model.RolePrimary }},
		"reinstate": {func(f *fixture) {
			for _, name := range []string{"c-0-0", "c-0-1", "c-0-2"} {
				f.starts(name, 0)
			}
		}},
	} {
		f := changed(replicated(), changes...)
		if got := Explain(f.State); got.Rule != want {
			t.Errorf("%s decides, want %s: %s", got.Rule, want, Next(f.State).Message)
		}
	}
}

// TestCertificatesAndPasswordsAreRenewedWhileRulesHoldUpOthers has what would expire while rules
// hold up those below.
func TestCertificatesAndPasswordsAreRenewedWhileRulesHoldUpOthers(t *testing.T) {
	expiring := func(f *fixture) { f.pod("c-1-1").Node.Certificate = "old" }
	former := func(f *fixture) {
		f.Spec.HandedOut, f.Spec.Access.Passwords[acl.FormerPrefix+"password"] = true, "before"
		f.Spec.Access.Passwords[acl.HandedOutKey] = now.Add(-time.Hour).Format(time.RFC3339)
		f.takeUsers()
	}
	refused := func(f *fixture) { f.Spec.Version = "8.2.0" }
	unready := func(f *fixture) { f.pod("c-2-1").Ready = false }
	for want, changes := range map[string][]func(*fixture){
		"reloadWhileCanaryFails":   {expiring, func(f *fixture) { f.upgraded("c-0-1"); f.neverAnswers(time.Hour) }},
		"reloadWhileIncomplete":    {expiring, func(f *fixture) { f.pod("c-0-1").Node = nil }},
		"reloadWhileRefused":       {expiring, former, refused},
		"retireWhileRefused":       {former, refused},
		"refuseVersion":            {former, refused, unready},
		"reloadWhileUnsynced":      {expiring, func(f *fixture) { f.unlink("c-2-1"); f.pod("c-2-1").Node.LinkDown = time.Hour }},
		"reloadWhileMemoryRefused": {expiring, former, (*fixture).starve},
		"retireWhileMemoryRefused": {former, (*fixture).starve},
		"refuseLessMemory":         {(*fixture).starve},
		"reloadWhileUnready":       {expiring, former, unready},
		"waitForReady":             {former, unready},
		"reloadCertificates":       {expiring, former},
		"retirePasswords":          {former},
	} {
		f := guarded()
		f.Spec.Access, f.Spec.Certificate = &acl.Access{Passwords: redistest.Passwords()}, "new"
		for i := range f.Pods {
			f.Pods[i].Node.Certificate = "new"
		}
		f.takeUsers()
		if got := Explain(changed(f, changes...).State); got.Rule != want {
			t.Errorf("%s decides, want %s: %s", got.Rule, want, Next(f.State).Message)
		}
	}
}

func changed(f *fixture, changes ...func(*fixture)) *fixture {
	for _, change := range changes {
		change(f)
	}
	return f
}
