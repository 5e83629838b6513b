package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

var old35 = model.Version{Major: 3, Minor: 5, Patch: 20}

// running is a settled cluster of a version, in which spec.version has changed to another one.
func running(have, want model.Version, change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		s.Record.Version, s.Want.Version, s.Record.Flushed = have, want, true
		s.ClusterVersion = model.Version{Major: 3, Minor: have.Minor}
		for i := range s.Pods {
			s.Pods[i].Version, s.Pods[i].Status.Version = have, have.String()
			if have.Minor >= 6 {
				s.Pods[i].Status.Storage = s.ClusterVersion
			}
		}
		if change != nil {
			change(s)
		}
	})
}

func TestHop(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want model.Version }{
		"a patch":                               {v36, model.Version{Major: 3, Minor: 6, Patch: 17}, model.Version{Major: 3, Minor: 6, Patch: 17}},
		"the next minor version":                {v36, v37, v37},
		"two minor versions":                    {v35, v37, v36},
		"an early 3.5 gets its last patch":      {old35, v36, v35},
		"on the way to 3.7 too":                 {old35, v37, v35},
		"a 3.5 that is new enough goes at once": {model.Version{Major: 3, Minor: 5, Patch: 26}, v36, v36},
	} {
		if got := model.Hop(tc.from, tc.to); got != tc.want {
			t.Errorf("%s: from %s to %s comes %s", name, tc.from, tc.to, got)
		}
	}
}

// canary is a cluster of which the first member got new settings some time ago and is not well.
func canary(age time.Duration, change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		s.Want.Settings, s.Want.TemplateHash, s.Want.Asked = "new settings", "next", "what is asked for"
		p := down(s, 2)
		p.TemplateHash, p.Age, p.Stuck, p.Problem = "next", age, true, "cannot run: ImagePullBackOff"
		if change != nil {
			change(s)
		}
	})
}

func TestUpgradeFollowsVersions(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a patch is followed at once": {
			state: running(v36, model.Version{Major: 3, Minor: 6, Patch: 17}, func(s *model.State) { down(s, 0) }),
			step:  steps.SetVersion{From: v36, To: model.Version{Major: 3, Minor: 6, Patch: 17}},
		},
		"the next minor version comes when all is well": {
			state: running(v36, v37, nil), step: steps.SetVersion{From: v36, To: v37},
		},
		"the next minor version does not come while a member is down": {
			state: running(v36, v37, func(s *model.State) { down(s, 0) }), reason: planner.ReasonMembersNotReady,
		},
		"the next minor version does not come while a member restarts with the version before": {
			state: running(v36, v37, func(s *model.State) { s.Pods[2].TemplateHash = "before" }), step: deletion("orders-2"),
		},
		"the next minor version does not come while the members have not agreed on the one before": {
			state:  running(v36, v37, func(s *model.State) { s.ClusterVersion.Minor = 5 }),
			reason: steps.ReasonUpgrade, says: "waiting for them to agree on version 3.6",
		},
		"the next minor version does not come while the agreed version is unknown": {
			state: running(v36, v37, func(s *model.State) { s.ClusterVersion = model.Version{} }), reason: steps.ReasonUpgrade,
		},
		"the next minor version does not come with an alarm": {
			state: running(v36, v37, alarm("NOSPACE")),
			step:  steps.Disarm{Pod: "orders-1", Alarm: model.Alarm{MemberID: 3, Type: "NOSPACE"}},
		},
		"two minor versions are two steps": {
			state: running(v35, v37, nil), step: steps.SetVersion{From: v35, To: v36}, says: "on the way to 3.7.3",
		},
		"two minor versions are not possible with an image of one version": {
			state:  running(v35, v37, func(s *model.State) { s.Want.ImageOverridden = true }),
			reason: planner.ReasonVersion, stalled: true, says: "spec.image is an image of one version only",
		},
		"an early 3.5 is brought up to date first": {
			state: running(old35, v36, nil), step: steps.SetVersion{From: old35, To: v35},
		},
		"an image that turns out to be an early 3.5 stops the upgrade": {
			state:  running(v35, v36, func(s *model.State) { s.Pods[1].Status.Version = "3.5.20" }),
			reason: planner.ReasonVersion, stalled: true, says: "orders-1 runs etcd 3.5.20",
		},
		"members that have agreed meanwhile are followed": {
			state: running(v36, v35, func(s *model.State) { s.Record.Version = v35 }),
			step:  steps.SetVersion{From: v35, To: v36},
		},
	})
}

func TestUpgradeFlushesWhat37CannotRead(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"what 3.7 cannot read is written to a snapshot first": {
			state: running(v36, v37, func(s *model.State) { s.Record.Flushed = false }),
			step:  steps.Downgrade{To: model.Version{Major: 3, Minor: 5}, Via: "orders-1"},
		},
		"every member writes a snapshot before 3.7": {
			state: running(v36, v37, func(s *model.State) {
				s.Record.Flushed, s.ClusterVersion.Minor = false, 5
				for i := range s.Pods {
					s.Pods[i].Status.Downgrade = "3.5.0"
				}
				s.Pods[0].Status.Storage.Minor, s.Pods[1].Status.Storage.Minor = 5, 5
			}),
			reason: steps.ReasonUpgrade, says: "waiting for orders-2 to write a snapshot",
		},
		"a snapshot of every member before 3.7 is noted": {
			state: running(v36, v37, func(s *model.State) {
				s.Record.Flushed, s.ClusterVersion.Minor = false, 5
				for i := range s.Pods {
					s.Pods[i].Status.Downgrade, s.Pods[i].Status.Storage.Minor = "3.5.0", 5
				}
			}),
			step: steps.NoteFlushed{},
		},
		"the downgrade that wrote the snapshots is taken back": {
			state: running(v36, v37, func(s *model.State) {
				s.ClusterVersion.Minor = 5
				for i := range s.Pods {
					s.Pods[i].Status.Downgrade, s.Pods[i].Status.Storage.Minor = "3.5.0", 5
				}
			}),
			step: steps.CancelDowngrade{Via: "orders-1"},
		},
	})
}

// retained is a cluster of three members that cannot start from the data of an earlier one.
func retained(change func(*model.State)) model.State {
	return running(v37, v37, func(s *model.State) {
		s.Record.Bootstrap, s.Record.ClusterID, s.Members = model.BootstrapRetained, 0, nil
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
func unstarted(change func(*model.State)) model.State {
	return running(v37, v36, func(s *model.State) {
		single(s)
		s.Members, s.ClusterVersion = nil, model.Version{}
		p := down(s, 0)
		p.Version, p.Agreed, p.EverRan = v37, 6, false
		p.Stuck, p.Problem = true, "cannot run: ImagePullBackOff"
		if change != nil {
			change(s)
		}
	})
}

// refused is the same cluster, set back although its only member had run the later version.
func refused(change func(*model.State)) model.State {
	return unstarted(func(s *model.State) {
		s.Record.Version = v36
		p := &s.Pods[0]
		p.Version, p.Agreed, p.EverRan, p.Problem = v36, 7, true, "cannot run: CrashLoopBackOff"
		if change != nil {
			change(s)
		}
	})
}

// alike makes a cluster of one member one of more, all of whose pods are as its only one.
func alike(s *model.State, n int) {
	s.Record.Members = s.Want.Peers[:n]
	for i := 1; i < n; i++ {
		p := s.Pods[0]
		p.Name, p.UID, p.Ordinal = s.Want.Peers[i].Name, "uid-"+s.Want.Peers[i].Name, i
		s.Pods = append(s.Pods, p)
	}
}
