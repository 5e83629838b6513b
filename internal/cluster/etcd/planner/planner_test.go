package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

const clusterID = 0xc1

var (
	v35 = model.Version{Major: 3, Minor: 5, Patch: 35}
	v36 = model.Version{Major: 3, Minor: 6, Patch: 16}
	v37 = model.Version{Major: 3, Minor: 7, Patch: 3}
)

// settled is a cluster of three members as specified; orders-1 leads. Tests change what they are about.
func settled(change func(*model.State)) model.State {
	s := fresh(nil)
	s.Record = &model.Record{
		Bootstrap: model.BootstrapNew, ClusterID: clusterID, Members: s.Want.Peers[:3], Version: s.Want.Version, Proven: s.Want.Settings,
	}
	s.Set, s.Open = &model.Set{Replicas: 3, KeepsClaims: true}, true
	s.Auth = &model.Auth{Enabled: true, PasswordWorks: true}
	for i, m := range s.Want.Peers[:3] {
		id := uint64(i + 1)
		s.Claims = append(s.Claims, model.Claim{Name: cluster.Claim("orders", i), UID: fmt.Sprint("claim-", i), Ordinal: i, Age: time.Hour})
		s.Members = append(s.Members, model.Member{ID: id, Name: m.Name, PeerURL: m.URL, Published: true})
		s.Pods = append(s.Pods, model.Pod{
			Version: v36, Name: m.Name, UID: "uid-" + m.Name, ResourceVersion: "7", Ordinal: i, Ready: true, TLS: true, TemplateHash: "now", EverRan: true, Age: time.Hour,
			Status: &model.Status{MemberID: id, ClusterID: clusterID, Leader: 2, Version: "3.6.16", DBSize: 20000, Applied: 9},
		})
	}
	if change != nil {
		change(&s)
	}
	if s.Record != nil && s.Record.MinAvailable == 0 {
		s.Record.MinAvailable = budget(s)
	}
	return s
}

// budget is what the disruption budget of a cluster at rest keeps.
func budget(s model.State) int {
	voters, learners := 0, 0
	for i, m := range s.Members {
		switch {
		case !m.Learner:
			voters++
		case i < len(s.Pods) && s.Pods[i].Status != nil && s.Pods[i].Status.Leader != 0:
			learners++
		}
	}
	return model.Quorum(voters) + learners
}

// fresh is a resource that was just created.
func fresh(change func(*model.State)) model.State {
	s := model.State{Now: simNow, Want: model.Want{
		Name: "orders", Size: 3, Peers: model.Peers("orders", "default", "cluster.local", model.MaxSize, true), TLS: true, Hold: time.Minute, TemplateHash: "now",
		Version: model.Version{Major: 3, Minor: 6, Patch: 16}, Settings: "settings", Asked: "asked",
		Auth: true, PasswordSecret: "orders-auth", CertificateIsRoot: true, Persistent: true,
		Maintenance: model.Policy{Defragment: true, MinFree: 200 << 20, Quota: 2 << 30},
	}}
	if change != nil {
		change(&s)
	}
	return s
}

func held(reason string) *model.GateReport {
	return &model.GateReport{Reason: reason, Message: "the gate says " + reason}
}

// planRow is a state and what is decided on it.
type planRow struct {
	state model.State
	step  cluster.Step
	// reason of a plan without a step; empty: settled.
	reason  string
	stalled bool
	says    string
	// ends is how the message ends.
	ends string
}

func (tc planRow) Check(t *testing.T) {
	t.Helper()
	got := planner.Next(tc.state)
	if diff := cmp.Diff(tc.step, got.Step); diff != "" {
		t.Errorf("step (-want +got):\n%s\n%s", diff, got.Message)
	}
	if tc.step == nil && (got.Reason != tc.reason || got.Stalled != tc.stalled) {
		t.Errorf("%s (stalled %t): %s", got.Reason, got.Stalled, got.Message)
	}
	if !strings.Contains(got.Message, tc.says) {
		t.Errorf("%q does not say %q", got.Message, tc.says)
	}
	if !strings.HasSuffix(got.Message, tc.ends) {
		t.Errorf("%q does not end with %q", got.Message, tc.ends)
	}
	if tc.reason != "" && tc.reason != cluster.ReasonHibernated && !tc.stalled && got.After == 0 {
		t.Error("it waits without a time limit")
	}
}

// emptyDisks has the gates of all members find an empty disk and no peer.
func emptyDisks(s *model.State) {
	for i := range s.Pods {
		s.Pods[i].Status, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(model.GateNoPeers)
	}
}

// unready has no member answer or be ready.
func unready(s *model.State) {
	for i := range s.Pods {
		s.Pods[i].Status, s.Pods[i].Ready = nil, false
	}
}

// retainedEmpty is a cluster of retained volumes that all turned out to be empty.
func retainedEmpty(change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		s.Record.Bootstrap, s.Record.ClusterID, s.Members = model.BootstrapRetained, 0, nil
		emptyDisks(s)
		if change != nil {
			change(s)
		}
	})
}

// unfounded is a cluster that has one pod of three, and may be about to get the others.
func unfounded(overdue bool) model.State {
	return settled(func(s *model.State) {
		s.Record.ClusterID, s.Members, s.Auth, s.Open = 0, nil, nil, false
		s.Set.Overdue, s.Want.Namespace, s.Pods = overdue, "default", s.Pods[1:2]
		s.Pods[0].Status = nil
	})
}

// quorumless is a cluster of which two members got settings that have been taken back since.
func quorumless(s *model.State) {
	s.Members, s.Auth = nil, nil
	for i := range s.Pods {
		s.Pods[i].Ready, s.Pods[i].Status = false, nil
	}
	s.Pods[1].TemplateHash, s.Pods[2].TemplateHash = "bad", "bad"
}

func deletion(pod string) steps.DeletePod {
	return steps.DeletePod{Name: pod, UID: "uid-" + pod, ResourceVersion: "7"}
}

func alarm(typ string) func(*model.State) {
	return func(s *model.State) { s.Pods[1].Status.Alarms = []model.Alarm{{MemberID: 3, Type: typ}} }
}

func TestWaitingForMembersIsPatient(t *testing.T) {
	started := func(ago time.Duration, pods int) model.State {
		return settled(func(s *model.State) {
			s.Members, s.Record.ClusterID, s.Open = nil, 0, false
			for i := range s.Pods {
				s.Pods[i].Status = nil
				if i < pods {
					s.Pods[i].Started = simNow.Add(-ago)
				}
			}
		})
	}
	young, alone, old := planner.Next(started(time.Second, 2)), planner.Next(started(time.Second, 1)), planner.Next(started(time.Hour, 3))
	if young.After >= time.Second || alone.After < time.Second || old.After < time.Second {
		t.Errorf("it looks again after %s, with a single member after %s, after an hour after %s", young.After, alone.After, old.After)
	}
}

// single makes a cluster of one member.
func single(s *model.State) {
	s.Want.Size, s.Record.Members = 1, s.Want.Peers[:1]
	s.Members, s.Pods, s.Claims = s.Members[:1], s.Pods[:1], s.Claims[:1]
	s.Pods[0].Status.Leader = 1
}

func TestTheOnlyMemberIsRestartedWithoutASuccessor(t *testing.T) {
	s := settled(func(s *model.State) {
		single(s)
		s.Want.TemplateHash = "next"
	})
	want := deletion("orders-0")
	if got := planner.Next(s); got.Step != want {
		t.Errorf("%v: %s", got.Step, got.Message)
	}
}

func TestAMemberThatFindsAnotherClusterIsNamed(t *testing.T) {
	planRow{state: settled(func(s *model.State) {
		s.Pods[2].Status, s.Pods[2].Ready, s.Pods[2].Gate = nil, false, held(model.GateForeignPeers)
	}), reason: planner.ReasonIdentity, stalled: true, says: "the gate says ForeignPeers"}.Check(t)
}

func TestNoMemberGoesBackBeforeTheVersionOfTheClusterIsKnown(t *testing.T) {
	planRow{state: settled(func(s *model.State) {
		s.Record.Version, s.Want.Version = v35, v35
	}), reason: steps.ReasonUpgrade, says: "waiting for a member to tell the version of the cluster"}.Check(t)
}
