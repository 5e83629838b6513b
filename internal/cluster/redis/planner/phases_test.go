package planner

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/phasetest"
	"github.com/quorate/quorate/test/redistest"
)

func TestMain(m *testing.M) {
	os.Exit(phasetest.Watch(shardedPhases(), replicatedPhases()).Main(m))
}

func TestEveryRuleSaysWhyItStandsWhereItDoes(t *testing.T) {
	phasetest.Check(t, Outline(false))
	phasetest.Check(t, Outline(true))
}

func TestNoRuleUsesAnotherOne(t *testing.T) { phasetest.CheckCalls(t) }

// takeUsers gives the servers the users that they are to have.
func (f *fixture) takeUsers() {
	for i := range f.Pods {
		var err error
		if f.Pods[i].Node.Users, err = f.Spec.Access.Users(f.Pods[i].Name, f.Pods[i].Node.Software()); err != nil {
			panic(err)
		}
	}
}

// TestAReplicatedClusterIsCaredForLikeAShardedOne has what rules do that both modes list.
func TestAReplicatedClusterIsCaredForLikeAShardedOne(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(f *fixture)
		rule  string
		// want is the step, or a part of the message of a plan without one.
		want string
	}{
		"a server lacks an account": {func(f *fixture) {
			f.Accounts = map[string]model.AccountClaim{"carts-app": {Username: "app", Wanted: true}}
			app := acl.Account(redistest.User(), "secret")
			for _, name := range []string{"c-0-0", "c-0-1"} {
				f.pod(name).Node.Users = append(f.pod(name).Node.Users, app)
			}
		}, "syncAccounts", "set users app of c-0-2"},
		"a parameter differs": {func(f *fixture) {
			f.Spec.Live = map[string]string{"maxmemory-policy": "allkeys-lru"}
			for i := range f.Pods {
				f.Pods[i].Node.Config["maxmemory-policy"] = "noeviction"
			}
		}, "configure", "maxmemory-policy"},
		"a server shows an old certificate": {func(f *fixture) {
			f.Spec.Certificate = "new"
			for i := range f.Pods {
				f.Pods[i].Node.Certificate = "new"
			}
			f.pod("c-0-1").Node.Certificate = "old"
		}, "reloadCertificates", "reload the certificates of c-0-1"},
		"clients have had the time to follow a password": {func(f *fixture) {
			f.Spec.HandedOut, f.Spec.Access.Passwords[acl.FormerPrefix+"password"] = true, "before"
			f.Spec.Access.Passwords[acl.HandedOutKey] = now.Add(-time.Hour).Format(time.RFC3339)
			f.takeUsers()
		}, "retirePasswords", ""},
		"a surplus pod is on its way": {func(f *fixture) {
			f.Spec.Replicas, f.Sets[0].Replicas = 1, 2
			f.pod("c-0-2").Deleting = true
		}, "waitForLeavingPods", "c-0-2"},
		"an append-only file is off while the disk rewrites": {func(f *fixture) {
			f.Spec.Live = map[string]string{model.AppendOnly: "yes"}
			for i := range f.Pods {
				f.Pods[i].Node.Config[model.AppendOnly] = "yes"
			}
			f.pod("c-0-1").Node.Config[model.AppendOnly], f.pod("c-0-0").Node.OnDisk = "no", false
			f.pod("c-0-0").Node.Forked = true
		}, "waitForAppendOnlyFile", ""},
		"the resources of a pod change": {func(f *fixture) {
			f.Spec.MemoryLimit = 4 << 30
			for i := range f.Pods {
				f.Pods[i].MemoryLimit = 1 << 30
			}
			f.resize("c-0-0", "c-0-1", "c-0-2")
		}, "resizePods", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := replicated()
			f.Spec.Access = &acl.Access{Passwords: redistest.Passwords()}
			f.takeUsers()
			tc.spoil(f)
			got := Next(f.State)
			text := got.Message
			if got.Step != nil {
				text = got.Step.String()
			}
			if e := Explain(f.State); e.Rule != tc.rule || !strings.Contains(text, tc.want) {
				t.Errorf("%s decides on %q: %s", e.Rule, text, got.Message)
			}
		})
	}
}

// TestTerminatingClaimsAreNamedWhenNoOtherRuleDecides asks the rule itself: the rules before it find
// another copy in every situation that the simulation comes to.
func TestTerminatingClaimsAreNamedWhenNoOtherRuleDecides(t *testing.T) {
	f := formed()
	f.Spec.Persistent = true
	f.Claims = append(f.Claims, model.Claim{Name: "data-c-1-0", Shard: 1, Leaving: true})
	for _, p := range shardedPhases() {
		for _, r := range p.Rules {
			if r.Name != "reportTerminating" {
				continue
			}
			plan, ok := r.Decide(model.NewView(f.State))
			if !ok || !plan.Stalled || !strings.Contains(plan.Message, "claims data-c-1-0 are being deleted") || !strings.Contains(plan.Message, "spec.replicasPerShard") {
				t.Errorf("%t %+v", ok, plan)
			}
		}
	}
}

// TestAShardIsRestoredThoughNoServerKnowsItsOwner has a restore of lost slots whose owner is forgotten
// everywhere.
func TestAShardIsRestoredThoughNoServerKnowsItsOwner(t *testing.T) {
	f := formed()
	f.loseShard("1")
	for i := range f.Pods {
		f.unheard(f.Pods[i].Name, id("c-1-0"))
		f.unheard(f.Pods[i].Name, id("c-1-1"))
	}
	f.follow()
	f.Restore = begun(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: firstOwner}, &planner.Job{Name: "c-load", UID: "j-1", Since: now})
	if e := Explain(f.State); e.Rule != "refill" {
		p := Next(f.State)
		t.Errorf("%s decides: %v, %s", e.Rule, p.Step, p.Message)
	}
}

// TestExplainNamesTheRuleThatGoesAhead has what would expire while a version is refused.
func TestExplainNamesTheRuleThatGoesAhead(t *testing.T) {
	for rule, due := range map[string]func(f *fixture){
		"refuseVersion":      func(*fixture) {},
		"reloadWhileRefused": func(f *fixture) { f.Spec.Certificate = "new" },
		"retireWhileRefused": func(f *fixture) {
			f.Spec.HandedOut, f.Spec.Access.Passwords[acl.FormerPrefix+"password"] = true, "before"
			f.Spec.Access.Passwords[acl.HandedOutKey] = now.Add(-time.Hour).Format(time.RFC3339)
			f.takeUsers()
		},
	} {
		f := replicated()
		f.Spec.Access = &acl.Access{Passwords: redistest.Passwords()}
		f.takeUsers()
		f.Spec.Version = "7.0.0"
		due(f)
		if e := Explain(f.State); e.Rule != rule || e.Why == "" {
			t.Errorf("%+v, want %s: %s", e, rule, Next(f.State).Message)
		}
	}
}
