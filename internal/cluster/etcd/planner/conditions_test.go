package planner_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/test/rows"
)

// conditionsRow is a state, or an error, and the conditions that tell it.
type conditionsRow struct {
	state model.State
	err   error
	want  map[string]string
}

func (r conditionsRow) Check(t *testing.T) {
	t.Helper()
	var p cluster.Plan
	if r.err == nil {
		p = planner.Next(r.state)
	}
	got := map[string]string{}
	for _, c := range planner.Conditions(r.state, p, r.err) {
		got[c.Type] = string(c.Status) + " " + c.Reason
		if c.Message == "" {
			t.Errorf("%s says nothing", c.Type)
		}
	}
	if diff := cmp.Diff(r.want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConditionsOfRunningMembers(t *testing.T) {
	rows.Run(t, map[string]conditionsRow{
		"settled": {
			state: settled(nil),
			want: map[string]string{
				"Ready": "True Settled", "Available": "True Serving", "QuorumHealthy": "True Quorum",
				"Reconciling": "False Settled", "SpaceHealthy": "True SpaceLeft", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
		"one member down": {
			state: settled(func(s *model.State) { s.Pods[0].Status, s.Pods[0].Ready = nil, false }),
			want: map[string]string{
				"Ready": "False MembersNotReady", "Available": "True Serving", "QuorumHealthy": "True Quorum",
				"Reconciling": "True MembersNotReady", "SpaceHealthy": "True SpaceLeft", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
		"two members down": {
			state: settled(func(s *model.State) {
				s.Members = nil
				for i := range s.Pods {
					s.Pods[i].Ready = false
				}
				s.Pods[0].Status, s.Pods[1].Status = nil, nil
			}),
			want: map[string]string{
				"Ready": "False NoQuorum", "Available": "False NoQuorum", "QuorumHealthy": "False NoQuorum",
				"Reconciling": "True NoQuorum", "SpaceHealthy": "True SpaceLeft", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
		"the operator cannot reach ready pods": {
			state: settled(func(s *model.State) {
				s.Members = nil
				for i := range s.Pods {
					s.Pods[i].Status = nil
				}
			}),
			want: map[string]string{
				"Ready": "False NoQuorum", "Available": "Unknown Unknown", "QuorumHealthy": "Unknown Unknown",
				"Reconciling": "True NoQuorum", "SpaceHealthy": "Unknown Unknown", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
		"the operator reaches only one of three ready pods": {
			state: settled(func(s *model.State) { s.Pods[0].Status, s.Pods[2].Status = nil, nil }),
			want: map[string]string{
				"Ready": "False NoQuorum", "Available": "Unknown Unknown", "QuorumHealthy": "Unknown Unknown",
				"Reconciling": "True NoQuorum", "SpaceHealthy": "True SpaceLeft", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
		"out of space": {
			state: settled(func(s *model.State) { s.Pods[0].Status.Alarms = []model.Alarm{{MemberID: 1, Type: "NOSPACE"}} }),
			want: map[string]string{
				"Ready": "False DisarmingAlarm", "Available": "False Alarm", "QuorumHealthy": "True Quorum",
				"Reconciling": "True DisarmingAlarm", "SpaceHealthy": "False Alarm", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
		"a lost member": {
			state: settled(func(s *model.State) {
				s.Pods[0].Status, s.Pods[0].Ready, s.Pods[0].Gate = nil, false, held(model.GateLostDisk)
			}),
			want: map[string]string{
				"Ready": "False RemovingMember", "Available": "True Serving", "QuorumHealthy": "True Quorum",
				"Reconciling": "True RemovingMember", "SpaceHealthy": "True SpaceLeft", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
	})
}

func TestConditionsOfAClusterThatIsNotOpen(t *testing.T) {
	rows.Run(t, map[string]conditionsRow{
		"starting": {
			state: fresh(nil),
			want: map[string]string{
				"Ready": "False Bootstrapping", "Available": "False MembersStarting", "QuorumHealthy": "False MembersStarting",
				"Reconciling": "True Bootstrapping", "SpaceHealthy": "Unknown Unknown", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
		"before clients are let in": {
			state: settled(func(s *model.State) { s.Open = false }),
			want: map[string]string{
				"Ready": "False LettingClientsIn", "Available": "False MembersStarting", "QuorumHealthy": "True Quorum",
				"Reconciling": "True LettingClientsIn", "SpaceHealthy": "True SpaceLeft", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
		"nothing could be read": {
			err: errors.New("no answer"),
			want: map[string]string{
				"Ready": "False ReconcileError", "Available": "Unknown Unknown", "QuorumHealthy": "Unknown Unknown",
				"Reconciling": "True ReconcileError", "SpaceHealthy": "Unknown Unknown", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
		"refused": {
			state: settled(nil), err: cluster.Refusal{Reason: "InvalidSpec", Message: "spec.version is wrong"},
			want: map[string]string{
				"Ready": "False InvalidSpec", "Available": "True Serving", "QuorumHealthy": "True Quorum",
				"Reconciling": "False InvalidSpec", "SpaceHealthy": "True SpaceLeft", "Stalled": "True InvalidSpec",
				"PerformanceHealthy": "Unknown Unknown",
			},
		},
	})
}

func TestStatus(t *testing.T) {
	s := settled(func(s *model.State) {
		s.Pods[0].Status, s.Pods[0].Ready = nil, false
		s.Pods[2].Status.Version = "3.6.15"
	})
	var got v1alpha1.EtcdClusterStatus
	planner.Status(&got, s)
	want := v1alpha1.EtcdClusterStatus{
		ClusterID: "c1", Leader: "orders-1", Size: 3, Ready: "2/3", CurrentVersion: "3.6.15", ConnectionSecret: "orders-connection",
		Members: []v1alpha1.EtcdMemberStatus{
			{Name: "orders-0", ID: "1", Role: v1alpha1.EtcdRoleUnknown, Message: "does not answer"},
			{Name: "orders-1", ID: "2", Role: v1alpha1.EtcdLeader, Ready: true, Version: "3.6.16", DBSize: "32Ki"},
			{Name: "orders-2", ID: "3", Role: v1alpha1.EtcdFollower, Ready: true, Version: "3.6.15", DBSize: "32Ki"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatWasSeenStandsWhenNothingCanBeRead(t *testing.T) {
	got := v1alpha1.EtcdClusterStatus{Leader: "orders-1", Conditions: []metav1.Condition{{Type: "Ready"}}}
	planner.Status(&got, model.State{})
	if got.Leader != "orders-1" {
		t.Errorf("%+v", got)
	}
}
