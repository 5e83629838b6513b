package planner_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestUpgradeIsSetBackWhenNoMemberRunsTheNewVersion(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a half-done upgrade is set back while an old member runs": {
			state: running(v36, v35, func(s *model.State) {
				s.ClusterVersion.Minor = 5
				s.Pods[0].Version, s.Pods[0].Status.Version, s.Pods[0].TemplateHash = v35, "3.5.35", "before"
				for i := range s.Pods {
					s.Pods[i].Status.Storage = model.Version{}
				}
			}),
			step: steps.SetVersion{From: v36, To: v35},
		},
		"a half-done upgrade is set back without a leader": {
			state: running(v37, v36, func(s *model.State) {
				s.Members, s.ClusterVersion.Minor = nil, 6
				s.Pods[0].Version, s.Pods[0].Status.Version, s.Pods[0].Status.Leader, s.Pods[0].Ready = v36, "3.6.16", 0, false
				s.Pods[0].Status.Storage.Minor = 6
				down(s, 1).Version = v36
				p := down(s, 2)
				p.Stuck, p.Problem = true, "cannot run: ImagePullBackOff"
			}),
			step: steps.SetVersion{From: v37, To: v36},
		},
		"an upgrade of the only member that cannot be started is set back": {state: unstarted(nil), step: steps.SetVersion{From: v37, To: v36}},
		"an upgrade of all members that cannot be started is set back": {
			state: unstarted(func(s *model.State) { alike(s, 3) }), step: steps.SetVersion{From: v37, To: v36},
		},
		"an upgrade is not set back when another member may run": {
			state: unstarted(func(s *model.State) {
				alike(s, 3)
				s.Pods[2].Stuck, s.Pods[2].Problem = false, ""
			}),
			reason: planner.ReasonNoQuorum, says: "A member may have run 3.7.3",
		},
		"an upgrade is not set back when a member has no pod": {
			state: unstarted(func(s *model.State) {
				alike(s, 3)
				s.Pods = s.Pods[:2]
			}),
			reason: planner.ReasonNoQuorum,
		},
		"an upgrade is not set back when etcd has been started in this pod": {
			state:  unstarted(func(s *model.State) { s.Pods[0].EverRan = true }),
			reason: planner.ReasonNoQuorum, says: "A member may have run 3.7.3, and what it leaves is not for an older one: set spec.version to a 3.7 that can be had",
		},
		"an upgrade is not set back when etcd was started in an earlier pod": {
			state:  unstarted(func(s *model.State) { s.Pods[0].Agreed = 7 }),
			reason: planner.ReasonNoQuorum, says: "The members have agreed on version 3.7 of the cluster",
		},
		"an upgrade is not set back whatever settings were proven": {
			state: unstarted(func(s *model.State) {
				s.Pods[0].Agreed = 0
				s.Record.Proven, s.Want.Settings = `{"version":"3.6.16"}`, `{"version":"3.6.16"}`
			}),
			reason: planner.ReasonNoQuorum, says: "A member may have run 3.7.3",
		},
		"the backup from before an upgrade that cannot be set back is named": {
			state: unstarted(func(s *model.State) {
				s.Pods[0].Agreed = 0
				s.Record.Snapshot = model.Snapshot{Backup: "orders-before-3-7-3", From: v36}
			}),
			reason: planner.ReasonNoQuorum, ends: "set spec.version to a 3.7 that can be had, or begin another cluster with Backup orders-before-3-7-3",
		},
		"an upgrade is not set back to a version that the members have left behind": {
			state: unstarted(func(s *model.State) { s.Want.Version = v35 }), reason: planner.ReasonNoQuorum, says: "set spec.version to a 3.6",
		},
		"an upgrade is not set back while the pod is being recreated": {
			state: unstarted(func(s *model.State) { s.Pods[0].Terminating = true }), reason: planner.ReasonNoQuorum,
		},
		"the pod follows an upgrade that was set back": {
			state: unstarted(func(s *model.State) { s.Record.Version, s.Want.TemplateHash = v36, "next" }), step: deletion("orders-0"),
		},
		"a version that etcd refuses to go back to is reported": {
			state:  refused(nil),
			reason: planner.ReasonNoQuorum, says: "The members have agreed on version 3.7 of the cluster, and what it leaves is not for an older one: set spec.version to a 3.7",
		},
		"the way forward is open again where etcd refuses to go back": {
			state: refused(func(s *model.State) { s.Want.Version = v37 }), step: steps.SetVersion{From: v36, To: v37},
		},
		"the way forward is not for a member that is down for another reason": {
			state:  refused(func(s *model.State) { s.Want.Version, s.Pods[0].Agreed = v37, 6 }),
			reason: planner.ReasonNoQuorum,
		},
		"a half-done upgrade is not set back when the last old member is on its way out": {
			state: running(v36, v35, func(s *model.State) {
				s.ClusterVersion.Minor = 5
				p := down(s, 0)
				p.Version, p.Terminating = v35, true
			}),
			reason: planner.ReasonMembersNotReady,
		},
	})
}

func TestUpgradeReportsDataOfAnotherVersion(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"data of an earlier cluster of another minor version is reported": {
			state:  retained(nil),
			reason: steps.ReasonStarting, ends: "the members have agreed on version 3.5 of the cluster: set spec.version to a 3.5, and change it when the cluster is Ready",
		},
		"data of another minor version is not reported while a member may start": {
			state:  retained(func(s *model.State) { s.Pods[1].Stuck = false }),
			reason: steps.ReasonStarting, ends: "orders-2 CrashLoopBackOff",
		},
		"data of an earlier cluster of the wanted version is not reported": {
			state:  retained(func(s *model.State) { s.Want.Version, s.Record.Version = v35, v35 }),
			reason: steps.ReasonStarting, ends: "orders-2 CrashLoopBackOff",
		},
	})
}

func TestDowngrade(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a full downgrade is etcd's own": {
			state: running(v37, v36, nil), step: steps.Downgrade{To: v36, Via: "orders-1"},
		},
		"the members prepare for a downgrade": {
			state: running(v37, v36, func(s *model.State) {
				for i := range s.Pods {
					s.Pods[i].Status.Downgrade = "3.6.0"
				}
			}),
			reason: planner.ReasonDowngrade, says: "prepare to go back to 3.6.0",
		},
		"a downgrade waits until all members write the older format": {
			state: running(v37, v36, func(s *model.State) {
				s.ClusterVersion.Minor = 6
				for i := range s.Pods {
					s.Pods[i].Status.Downgrade = "3.6.0"
				}
			}),
			reason: planner.ReasonDowngrade, says: "in the format of 3.7.0",
		},
		"a member that does not answer may not write the older format yet": {
			state: running(v37, v36, func(s *model.State) {
				s.ClusterVersion.Minor = 6
				for i := range s.Pods {
					s.Pods[i].Status.Downgrade, s.Pods[i].Status.Storage.Minor = "3.6.0", 6
				}
				down(s, 2).Version = v37
			}),
			reason: planner.ReasonDowngrade, says: "its data may still be in the format of 3.7",
		},
		"the pods follow a downgrade that all members are ready for": {
			state: running(v37, v36, func(s *model.State) {
				s.ClusterVersion.Minor = 6
				for i := range s.Pods {
					s.Pods[i].Status.Downgrade, s.Pods[i].Status.Storage.Minor = "3.6.0", 6
				}
			}),
			step: steps.SetVersion{From: v37, To: v36},
		},
		"a downgrade that is taken back is stopped": {
			state: running(v37, v37, func(s *model.State) { s.Pods[0].Status.Downgrade = "3.6.0" }),
			step:  steps.CancelDowngrade{Via: "orders-1"},
		},
		"two minor versions back are refused": {
			state: running(v37, v35, nil), reason: planner.ReasonVersion, stalled: true, says: "set spec.version to a 3.6 first",
		},
	})
}
