package etcd_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

var old35 = etcd.Version{Major: 3, Minor: 5, Patch: 20}

// running is a settled cluster of a version, in which spec.version has changed to another one.
func running(have, want etcd.Version, change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		s.Record.Version, s.Want.Version, s.Record.Flushed = have, want, true
		s.ClusterVersion = etcd.Version{Major: 3, Minor: have.Minor}
		for i := range s.Pods {
			s.Pods[i].Version, s.Pods[i].View.Version = have, have.String()
			if have.Minor >= 6 {
				s.Pods[i].View.Storage = s.ClusterVersion
			}
		}
		if change != nil {
			change(s)
		}
	})
}

func TestHop(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want etcd.Version }{
		"a patch":                               {v36, etcd.Version{Major: 3, Minor: 6, Patch: 17}, etcd.Version{Major: 3, Minor: 6, Patch: 17}},
		"the next minor version":                {v36, v37, v37},
		"two minor versions":                    {v35, v37, v36},
		"an early 3.5 gets its last patch":      {old35, v36, v35},
		"on the way to 3.7 too":                 {old35, v37, v35},
		"a 3.5 that is new enough goes at once": {etcd.Version{Major: 3, Minor: 5, Patch: 26}, v36, v36},
	} {
		if got := etcd.Hop(tc.from, tc.to); got != tc.want {
			t.Errorf("%s: from %s to %s comes %s", name, tc.from, tc.to, got)
		}
	}
}

// canary is a cluster of which the first member got new settings some time ago and is not well.
func canary(age time.Duration, change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		s.Want.Settings, s.Want.TemplateHash, s.Want.Asked = "new settings", "next", "what is asked for"
		p := down(s, 2)
		p.TemplateHash, p.Age, p.Stuck, p.Problem = "next", age, true, "cannot run: ImagePullBackOff"
		if change != nil {
			change(s)
		}
	})
}

func TestUpgrade(t *testing.T) {
	for name, tc := range map[string]planRow{
		"a patch is followed at once": {
			state: running(v36, etcd.Version{Major: 3, Minor: 6, Patch: 17}, func(s *etcd.State) { down(s, 0) }),
			step:  etcd.SetVersion{From: v36, To: etcd.Version{Major: 3, Minor: 6, Patch: 17}},
		},
		"the next minor version comes when all is well": {
			state: running(v36, v37, nil), step: etcd.SetVersion{From: v36, To: v37},
		},
		"and not before": {
			state: running(v36, v37, func(s *etcd.State) { down(s, 0) }), reason: etcd.ReasonMembersNotReady,
		},
		"nor while a member restarts with the version before": {
			state: running(v36, v37, func(s *etcd.State) { s.Pods[2].TemplateHash = "before" }), step: deletion("orders-2"),
		},
		"nor while the members have not agreed on that": {
			state:  running(v36, v37, func(s *etcd.State) { s.ClusterVersion.Minor = 5 }),
			reason: etcd.ReasonUpgrade, says: "waiting for them to agree on version 3.6",
		},
		"nor while that is unknown": {
			state: running(v36, v37, func(s *etcd.State) { s.ClusterVersion = etcd.Version{} }), reason: etcd.ReasonUpgrade,
		},
		"nor with an alarm": {
			state: running(v36, v37, alarm("NOSPACE")),
			step:  etcd.Disarm{Pod: "orders-1", Alarm: etcd.Alarm{MemberID: 3, Type: "NOSPACE"}},
		},
		"what 3.7 cannot read is written to a snapshot first": {
			state: running(v36, v37, func(s *etcd.State) { s.Record.Flushed = false }),
			step:  etcd.Downgrade{To: etcd.Version{Major: 3, Minor: 5}, Via: "orders-1"},
		},
		"by every member": {
			state: running(v36, v37, func(s *etcd.State) {
				s.Record.Flushed, s.ClusterVersion.Minor = false, 5
				for i := range s.Pods {
					s.Pods[i].View.Downgrade = "3.5.0"
				}
				s.Pods[0].View.Storage.Minor, s.Pods[1].View.Storage.Minor = 5, 5
			}),
			reason: etcd.ReasonUpgrade, says: "waiting for orders-2 to write a snapshot",
		},
		"which is noted": {
			state: running(v36, v37, func(s *etcd.State) {
				s.Record.Flushed, s.ClusterVersion.Minor = false, 5
				for i := range s.Pods {
					s.Pods[i].View.Downgrade, s.Pods[i].View.Storage.Minor = "3.5.0", 5
				}
			}),
			step: etcd.NoteFlushed{},
		},
		"then the downgrade is taken back": {
			state: running(v36, v37, func(s *etcd.State) {
				s.ClusterVersion.Minor = 5
				for i := range s.Pods {
					s.Pods[i].View.Downgrade, s.Pods[i].View.Storage.Minor = "3.5.0", 5
				}
			}),
			step: etcd.CancelDowngrade{Via: "orders-1"},
		},
		"two minor versions are two steps": {
			state: running(v35, v37, nil), step: etcd.SetVersion{From: v35, To: v36}, says: "on the way to 3.7.3",
		},
		"not with an image of one version": {
			state:  running(v35, v37, func(s *etcd.State) { s.Want.ImageOverridden = true }),
			reason: etcd.ReasonVersion, stalled: true, says: "spec.image is an image of one version only",
		},
		"an early 3.5 is brought up to date first": {
			state: running(old35, v36, nil), step: etcd.SetVersion{From: old35, To: v35},
		},
		"an image that turns out to be an early 3.5 stops the upgrade": {
			state:  running(v35, v36, func(s *etcd.State) { s.Pods[1].View.Version = "3.5.20" }),
			reason: etcd.ReasonVersion, stalled: true, says: "orders-1 runs etcd 3.5.20",
		},
		"a half-done upgrade is set back while an old member runs": {
			state: running(v36, v35, func(s *etcd.State) {
				s.ClusterVersion.Minor = 5
				s.Pods[0].Version, s.Pods[0].View.Version, s.Pods[0].TemplateHash = v35, "3.5.35", "before"
				for i := range s.Pods {
					s.Pods[i].View.Storage = etcd.Version{}
				}
			}),
			step: etcd.SetVersion{From: v36, To: v35},
		},
		"without a leader too": {
			state: running(v37, v36, func(s *etcd.State) {
				s.Members, s.ClusterVersion.Minor = nil, 6
				s.Pods[0].Version, s.Pods[0].View.Version, s.Pods[0].View.Leader, s.Pods[0].Ready = v36, "3.6.16", 0, false
				s.Pods[0].View.Storage.Minor = 6
				down(s, 1).Version = v36
				p := down(s, 2)
				p.Stuck, p.Problem = true, "cannot run: ImagePullBackOff"
			}),
			step: etcd.SetVersion{From: v37, To: v36},
		},
		"an upgrade of the only member that cannot be started is set back": {state: unstarted(nil), step: etcd.SetVersion{From: v37, To: v36}},
		"one of all members as well": {
			state: unstarted(func(s *etcd.State) { alike(s, 3) }), step: etcd.SetVersion{From: v37, To: v36},
		},
		"not when another one may run": {
			state: unstarted(func(s *etcd.State) {
				alike(s, 3)
				s.Pods[2].Stuck, s.Pods[2].Problem = false, ""
			}),
			reason: etcd.ReasonNoQuorum, says: "A member may have run 3.7.3",
		},
		"nor when one has no pod": {
			state: unstarted(func(s *etcd.State) {
				alike(s, 3)
				s.Pods = s.Pods[:2]
			}),
			reason: etcd.ReasonNoQuorum,
		},
		"nor when etcd has been started in this pod": {
			state:  unstarted(func(s *etcd.State) { s.Pods[0].EverRan = true }),
			reason: etcd.ReasonNoQuorum, says: "A member may have run 3.7.3, and what it leaves is not for an older one: set spec.version to a 3.7 that can be had",
		},
		"nor when it was started in an earlier one": {
			state:  unstarted(func(s *etcd.State) { s.Pods[0].Agreed = 7 }),
			reason: etcd.ReasonNoQuorum, says: "The members have agreed on version 3.7 of the cluster",
		},
		"whatever was proven": {
			state: unstarted(func(s *etcd.State) {
				s.Pods[0].Agreed = 0
				s.Record.Proven, s.Want.Settings = `{"version":"3.6.16"}`, `{"version":"3.6.16"}`
			}),
			reason: etcd.ReasonNoQuorum, says: "A member may have run 3.7.3",
		},
		"the backup is named": {
			state: unstarted(func(s *etcd.State) {
				s.Pods[0].Agreed = 0
				s.Record.Snapshot = etcd.Snapshot{Backup: "orders-before-3-7-3", From: v36}
			}),
			reason: etcd.ReasonNoQuorum, ends: "set spec.version to a 3.7 that can be had, or begin another cluster with Backup orders-before-3-7-3",
		},
		"nor to a version that the members have left behind": {
			state: unstarted(func(s *etcd.State) { s.Want.Version = v35 }), reason: etcd.ReasonNoQuorum, says: "set spec.version to a 3.6",
		},
		"nor while the pod is being made anew": {
			state: unstarted(func(s *etcd.State) { s.Pods[0].Terminating = true }), reason: etcd.ReasonNoQuorum,
		},
		"the pod follows": {
			state: unstarted(func(s *etcd.State) { s.Record.Version, s.Want.TemplateHash = v36, "next" }), step: deletion("orders-0"),
		},
		"where etcd refuses that, it is told": {
			state:  refused(nil),
			reason: etcd.ReasonNoQuorum, says: "The members have agreed on version 3.7 of the cluster, and what it leaves is not for an older one: set spec.version to a 3.7",
		},
		"where the data of an earlier cluster is of another minor version, it is told": {
			state:  retained(nil),
			reason: etcd.ReasonStarting, ends: "the members have agreed on version 3.5 of the cluster: set spec.version to a 3.5, and change it when the cluster is Ready",
		},
		"not while a member may start": {
			state:  retained(func(s *etcd.State) { s.Pods[1].Stuck = false }),
			reason: etcd.ReasonStarting, ends: "orders-2 CrashLoopBackOff",
		},
		"nor where it is of the wanted one": {
			state:  retained(func(s *etcd.State) { s.Want.Version, s.Record.Version = v35, v35 }),
			reason: etcd.ReasonStarting, ends: "orders-2 CrashLoopBackOff",
		},
		"and the way forward is open again": {
			state: refused(func(s *etcd.State) { s.Want.Version = v37 }), step: etcd.SetVersion{From: v36, To: v37},
		},
		"but not for a member that is down for another reason": {
			state:  refused(func(s *etcd.State) { s.Want.Version, s.Pods[0].Agreed = v37, 6 }),
			reason: etcd.ReasonNoQuorum,
		},
		"and not when the last one is on its way out": {
			state: running(v36, v35, func(s *etcd.State) {
				s.ClusterVersion.Minor = 5
				p := down(s, 0)
				p.Version, p.Terminating = v35, true
			}),
			reason: etcd.ReasonMembersNotReady,
		},
		"members that have agreed meanwhile are followed": {
			state: running(v36, v35, func(s *etcd.State) { s.Record.Version = v35 }),
			step:  etcd.SetVersion{From: v35, To: v36},
		},
		"a full downgrade is etcd's own": {
			state: running(v37, v36, nil), step: etcd.Downgrade{To: v36, Via: "orders-1"},
		},
		"the members prepare for it": {
			state: running(v37, v36, func(s *etcd.State) {
				for i := range s.Pods {
					s.Pods[i].View.Downgrade = "3.6.0"
				}
			}),
			reason: etcd.ReasonDowngrade, says: "prepare to go back to 3.6.0",
		},
		"until all write the older format": {
			state: running(v37, v36, func(s *etcd.State) {
				s.ClusterVersion.Minor = 6
				for i := range s.Pods {
					s.Pods[i].View.Downgrade = "3.6.0"
				}
			}),
			reason: etcd.ReasonDowngrade, says: "in the format of 3.7.0",
		},
		"one that does not answer may not do so yet": {
			state: running(v37, v36, func(s *etcd.State) {
				s.ClusterVersion.Minor = 6
				for i := range s.Pods {
					s.Pods[i].View.Downgrade, s.Pods[i].View.Storage.Minor = "3.6.0", 6
				}
				down(s, 2).Version = v37
			}),
			reason: etcd.ReasonDowngrade, says: "its data may still be in the format of 3.7",
		},
		"then the pods follow": {
			state: running(v37, v36, func(s *etcd.State) {
				s.ClusterVersion.Minor = 6
				for i := range s.Pods {
					s.Pods[i].View.Downgrade, s.Pods[i].View.Storage.Minor = "3.6.0", 6
				}
			}),
			step: etcd.SetVersion{From: v37, To: v36},
		},
		"a downgrade that is taken back is stopped": {
			state: running(v37, v37, func(s *etcd.State) { s.Pods[0].View.Downgrade = "3.6.0" }),
			step:  etcd.CancelDowngrade{Via: "orders-1"},
		},
		"two minor versions back are refused": {
			state: running(v37, v35, nil), reason: etcd.ReasonVersion, stalled: true, says: "set spec.version to a 3.6 first",
		},
		"a member that is far behind holds up the next restart": {
			state: settled(func(s *etcd.State) {
				s.Want.TemplateHash = "next"
				s.Pods[0].View.Applied = 100_000
			}),
			reason: etcd.ReasonMembersNotReady, says: "orders-1 is 99991 log entries behind",
		},
		"settings that all are well with are remembered": {
			state: settled(func(s *etcd.State) { s.Want.Settings = "new settings" }), step: etcd.Prove{Settings: "new settings"},
		},
		"a first member that cannot run is set back": {
			state: canary(2*time.Minute, nil),
			step: etcd.Reject{Asked: "what is asked for", Verdict: "orders-2, the first member that got the new settings, " +
				"cannot run: ImagePullBackOff after 1m30s"},
		},
		"after a while": {
			state: canary(time.Minute, nil), reason: etcd.ReasonMembersNotReady,
		},
		"one that runs gets more time": {
			state:  canary(2*time.Minute, func(s *etcd.State) { s.Pods[2].Stuck = false }),
			reason: etcd.ReasonMembersNotReady,
		},
		"what is no change of settings is not set back": {
			state:  canary(2*time.Minute, func(s *etcd.State) { s.Record.Proven = s.Want.Settings }),
			reason: etcd.ReasonMembersNotReady,
		},
		"a learner that lacks data is no canary": {
			state: canary(time.Hour, func(s *etcd.State) {
				s.Pods[2].Stuck, s.Pods[2].View = false, &etcd.View{MemberID: 3, ClusterID: clusterID, Leader: 2, Learner: true, Version: "3.6.16"}
			}),
			reason: etcd.ReasonMembersNotReady,
		},
		"a second member is no canary": {
			state:  canary(2*time.Minute, func(s *etcd.State) { s.Pods[0].TemplateHash = "next" }),
			reason: etcd.ReasonMembersNotReady,
		},
		"nothing is set back while another member is not well": {
			state:  canary(2*time.Minute, func(s *etcd.State) { s.Pods[0].Ready = false }),
			reason: etcd.ReasonMembersNotReady,
		},
		"a member without its data says nothing about the settings": {
			state:  canary(2*time.Minute, func(s *etcd.State) { s.Pods[2].Gate = held(etcd.GateNoPeers) }),
			reason: etcd.ReasonMembersNotReady,
		},
		"what was rejected is told": {
			state: settled(func(s *etcd.State) {
				s.Want.Asked, s.Record.Rejected, s.Record.Verdict = "what is asked for", "what is asked for", "orders-2 cannot run"
			}),
			reason: etcd.ReasonCanary, stalled: true, says: "set back: orders-2 cannot run",
		},
		"until something else is asked for": {
			state: settled(func(s *etcd.State) { s.Record.Rejected = "something else" }), step: etcd.Prove{Settings: "settings", Forget: true},
		},
	} {
		t.Run(name, tc.check)
	}
}

// retained is a cluster of three members that cannot start from the data of an earlier one.
func retained(change func(*etcd.State)) etcd.State {
	return running(v37, v37, func(s *etcd.State) {
		s.Record.Bootstrap, s.Record.ClusterID, s.Members = etcd.BootstrapRetained, 0, nil
		for i := range s.Pods {
			p := down(s, i)
			p.Stuck, p.Problem, p.EverRan, p.Agreed = true, "CrashLoopBackOff", true, 5
		}
		if change != nil {
			change(s)
		}
	})
}

// unstarted is a cluster of one member that is to go back from a version without an image.
func unstarted(change func(*etcd.State)) etcd.State {
	return running(v37, v36, func(s *etcd.State) {
		single(s)
		s.Members, s.ClusterVersion = nil, etcd.Version{}
		p := down(s, 0)
		p.Version, p.Agreed, p.EverRan = v37, 6, false
		p.Stuck, p.Problem = true, "cannot run: ImagePullBackOff"
		if change != nil {
			change(s)
		}
	})
}

// refused is the same cluster, set back although its only member had run the later version.
func refused(change func(*etcd.State)) etcd.State {
	return unstarted(func(s *etcd.State) {
		s.Record.Version = v36
		p := &s.Pods[0]
		p.Version, p.Agreed, p.EverRan, p.Problem = v36, 7, true, "cannot run: CrashLoopBackOff"
		if change != nil {
			change(s)
		}
	})
}

// alike makes a cluster of one member one of more, all of whose pods are as its only one.
func alike(s *etcd.State, n int) {
	s.Record.Members = s.Want.Peers[:n]
	for i := 1; i < n; i++ {
		p := s.Pods[0]
		p.Name, p.UID, p.Ordinal = s.Want.Peers[i].Name, "uid-"+s.Want.Peers[i].Name, i
		s.Pods = append(s.Pods, p)
	}
}

func TestSettingsAreReadBack(t *testing.T) {
	b := blueprint(t, nil)
	b.Cluster.Spec.Config = fullConfig()
	before := etcd.SettingsOf(b.Cluster.Spec)
	text, err := before.Encode()
	if err != nil {
		t.Fatal(err)
	}
	after, err := etcd.DecodeSettings(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := after.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, again); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
