package etcd_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

const mib = 1 << 20

// sized gives the databases of the members their size and what of it is in use, in MiB.
func sized(s *etcd.State, sizes ...[2]int64) {
	for i, size := range sizes {
		s.Pods[i].View.DBSize, s.Pods[i].View.DBInUse = size[0]*mib, size[1]*mib
	}
}

// full is a cluster whose databases have reached their quota of 2 GiB, with so much in use, in MiB.
func full(inUse int64, change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		alarm("NOSPACE")(s)
		sized(s, [2]int64{2048, inUse}, [2]int64{2048, inUse}, [2]int64{2048, inUse})
		s.Pods[1].View.Revision = 900
		if change != nil {
			change(s)
		}
	})
}

func done(ago time.Duration, err error) *etcd.Defragmentation {
	return &etcd.Defragmentation{
		Begin: simNow.Add(-ago - 1200*time.Millisecond), End: simNow.Add(-ago), Before: 300 * mib, After: 20 * mib, Err: err,
	}
}

func drain(pod string) etcd.DrainMember { return etcd.DrainMember{Pod: pod, UID: "uid-" + pod} }
func again(pod string) etcd.ServeAgain  { return etcd.ServeAgain{Pod: pod, UID: "uid-" + pod} }

func TestNextInMaintenance(t *testing.T) {
	nightly := &etcd.Window{Hour: 2, Zone: time.UTC, Duration: time.Hour}
	noon := &etcd.Window{Zone: time.UTC, Duration: time.Hour} // simNow is midnight.
	for name, tc := range map[string]struct {
		state etcd.State
		step  cluster.Step
		// reason of a plan without a step; empty: settled.
		reason  string
		stalled bool
		says    string
	}{
		"a fragmented follower gets no clients first": {
			state: settled(func(s *etcd.State) { sized(s, [2]int64{300, 20}, [2]int64{300, 20}, [2]int64{300, 20}) }),
			step:  drain("orders-0"), says: "280Mi of 300Mi is free",
		},
		"then it is defragmented": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20}, [2]int64{300, 20})
				s.Pods[0].Drained = true
			}),
			step: etcd.Defragment{Pod: "orders-0", Size: 300 * mib},
		},
		"while it is, nothing else is done": {
			state: settled(func(s *etcd.State) {
				s.Pods[0].View, s.Pods[0].Drained, s.Pods[0].Defragmentation = nil, true, &etcd.Defragmentation{Begin: simNow, Before: 300 * mib}
				s.Want.TemplateHash = "next"
			}),
			reason: etcd.ReasonDefragmenting, says: "orders-0 is being defragmented: 300Mi",
		},
		"afterwards it gets clients again, and the event says how long it took": {
			state: settled(func(s *etcd.State) { s.Pods[0].Drained, s.Pods[0].Defragmentation = true, done(0, nil) }),
			step:  again("orders-0"), says: "defragmented orders-0 in 1.2s, during which it served nobody: 300Mi to 20Mi",
		},
		"a failed one is told and not repeated": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20})
				s.Pods[0].Drained, s.Pods[0].Defragmentation = true, done(0, errors.New("disk full"))
			}),
			step: again("orders-0"), says: "failed after 1.2s: disk full",
		},
		"a member that an operator left out when it crashed gets clients again": {
			state: settled(func(s *etcd.State) { s.Pods[2].Drained = true }),
			step:  again("orders-2"), says: "is not being defragmented",
		},
		"also while something else is pending": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{20, 20}, [2]int64{20, 20}, [2]int64{300, 20})
				s.Pods[2].Drained, s.Pods[0].View, s.Pods[0].Ready = true, nil, false
			}),
			step: again("orders-2"),
		},
		"also where no member answers": {
			state: settled(func(s *etcd.State) {
				s.Members = nil
				for i := range s.Pods {
					s.Pods[i].View = nil
				}
				s.Pods[2].Drained = true
			}),
			step: again("orders-2"),
		},
		"the leader hands over before it is defragmented": {
			state: settled(func(s *etcd.State) { sized(s, [2]int64{20, 20}, [2]int64{300, 20}) }),
			step:  etcd.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"a member just defragmented is left alone": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20})
				s.Pods[0].Defragmentation = done(59*time.Minute, nil)
			}),
		},
		"one defragmented an hour ago is not": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20})
				s.Pods[0].Defragmentation = done(time.Hour, nil)
			}),
			step: drain("orders-0"),
		},
		"little free space is not worth it": {
			state: settled(func(s *etcd.State) { sized(s, [2]int64{250, 60}) }),
		},
		"neither is what a large database needs again at once": {
			state: settled(func(s *etcd.State) { sized(s, [2]int64{1500, 900}) }),
		},
		"little is worth it near the quota": {
			state: settled(func(s *etcd.State) { sized(s, [2]int64{1700, 1660}) }),
			step:  drain("orders-0"),
		},
		"a member that lags is waited for": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20})
				s.Pods[1].View.Applied = 5000
			}),
			reason: etcd.ReasonMembersNotReady, says: "orders-0 is 4991 log entries behind",
		},
		"a rollout comes first": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20})
				s.Want.TemplateHash = "next"
			}),
			step: deletion("orders-2"),
		},
		"outside of the window nothing is done": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20})
				s.Want.Maintenance.Window = nightly
			}),
		},
		"a window that closes in the middle gives the clients back": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20})
				s.Want.Maintenance.Window, s.Pods[0].Drained = nightly, true
			}),
			step: again("orders-0"),
		},
		"too many clusters at once wait, settled": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20})
				s.Upkeep.Elsewhere = 4
			}),
		},
		"the only member is left alone without a window": {
			state: settled(func(s *etcd.State) {
				single(s)
				sized(s, [2]int64{300, 20})
			}),
		},
		"and defragmented inside one, clients or not": {
			state: settled(func(s *etcd.State) {
				single(s)
				sized(s, [2]int64{300, 20})
				s.Want.Maintenance.Window = noon
			}),
			step: etcd.Defragment{Pod: "orders-0", Size: 300 * mib},
		},
		"defragmentation can be switched off": {
			state: settled(func(s *etcd.State) {
				sized(s, [2]int64{300, 20})
				s.Want.Maintenance.Defragment = false
			}),
		},
		"a full database that has become small enough is let write": {
			state: settled(alarm("NOSPACE")), step: etcd.Disarm{Pod: "orders-1", Alarm: etcd.Alarm{MemberID: 3, Type: "NOSPACE"}},
		},
		"one that can be defragmented is, window or not": {
			state: full(1000, func(s *etcd.State) { s.Want.Maintenance.Window = nightly }),
			step:  etcd.Defragment{Pod: "orders-0", Size: 2048 * mib}, says: "because its quota is reached",
		},
		"a sweep goes on where it ended": {
			state: full(1000, func(s *etcd.State) { sized(s, [2]int64{1000, 1000}, [2]int64{2048, 1000}, [2]int64{1000, 1000}) }),
			step:  etcd.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"a member that is away does not keep the others from being cured": {
			state: full(1000, func(s *etcd.State) { down(s, 2) }), step: etcd.Defragment{Pod: "orders-0", Size: 2048 * mib},
		},
		"nor does one that cannot join": {
			state: full(1000, func(s *etcd.State) {
				s.Members = s.Members[:2]
				p := down(s, 2)
				p.EverRan, p.Stuck, p.Problem = false, true, "cannot run: Unschedulable"
			}),
			step: etcd.Defragment{Pod: "orders-0", Size: 2048 * mib},
		},
		"nor does a learner, which is not asked to": {
			state: full(1000, func(s *etcd.State) {
				s.Members[0].Learner = true
				down(s, 0)
			}),
			step: etcd.Defragment{Pod: "orders-2", Size: 2048 * mib},
		},
		"their leader hands over as ever": {
			state: full(1000, func(s *etcd.State) {
				sized(s, [2]int64{1000, 1000}, [2]int64{2048, 1000})
				down(s, 2)
			}),
			step: etcd.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"and they are let write": {
			state: settled(func(s *etcd.State) {
				alarm("NOSPACE")(s)
				down(s, 2)
			}),
			step: etcd.Disarm{Pod: "orders-1", Alarm: etcd.Alarm{MemberID: 3, Type: "NOSPACE"}},
		},
		"an operator that has just begun does not know whether one that is away is being defragmented": {
			state: full(1000, func(s *etcd.State) {
				s.Upkeep.Since = simNow.Add(-3 * time.Minute)
				down(s, 2)
			}),
			reason: etcd.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
		"nor is it known whether one has ended that was given up": {
			state: full(1000, func(s *etcd.State) {
				down(s, 2).Defragmentation = done(time.Minute, errors.New("it did not end within 3m54s"))
			}),
			reason: etcd.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
		"what cannot be cured does not hide who is away": {
			state: full(2040, func(s *etcd.State) {
				s.Upkeep.Compacted = ptr.To(true)
				down(s, 2)
			}),
			reason: etcd.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
		"a quota that not all members have is not gone by": {
			state: settled(func(s *etcd.State) {
				alarm("NOSPACE")(s)
				s.Want.TemplateHash = "next"
				down(s, 2).TemplateHash = "next"
			}),
			reason: etcd.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
		"one that is full of data loses its history": {
			state: full(2040, func(s *etcd.State) { s.Upkeep.Compacted = ptr.To(false) }),
			step:  etcd.Compact{Pod: "orders-1", Revision: 900},
		},
		"what is thrown away is waited for": {
			state: full(2040, func(s *etcd.State) {
				s.Upkeep.Compacted, s.Upkeep.LastCompaction = ptr.To(true), simNow.Add(-time.Second)
			}),
			reason: etcd.ReasonAlarm, says: "waiting for its history",
		},
		"not again at once": {
			state: full(2040, func(s *etcd.State) {
				s.Upkeep.Compacted, s.Upkeep.LastCompaction = ptr.To(false), simNow.Add(-9*time.Minute)
			}),
			reason: etcd.ReasonAlarm, stalled: true, says: "less than 10m0s ago",
		},
		"one that a defragmentation makes hardly smaller loses its history": {
			state: full(1800, func(s *etcd.State) { s.Upkeep.Compacted = ptr.To(false) }),
			step:  etcd.Compact{Pod: "orders-1", Revision: 900},
		},
		"3.5 may not tell what a compaction freed before the next write, and there is none": {
			state: full(2040, func(s *etcd.State) {
				s.Upkeep.Compacted, s.Upkeep.LastCompaction = ptr.To(true), simNow.Add(-2*time.Minute)
			}),
			step: etcd.Defragment{Pod: "orders-0", Size: 2048 * mib},
		},
		"that is tried once": {
			state: full(2040, func(s *etcd.State) {
				s.Upkeep.Compacted, s.Upkeep.LastCompaction = ptr.To(true), simNow.Add(-2*time.Minute)
				for i := range s.Pods {
					s.Pods[i].Defragmentation = done(time.Minute, nil)
				}
			}),
			reason: etcd.ReasonAlarm, stalled: true, says: "no history is left to throw away",
		},
		"unknown history is waited for": {
			state: full(2040, nil), reason: etcd.ReasonAlarm, says: "whether history is left",
		},
		"without any history a human has to act": {
			state: full(2040, func(s *etcd.State) {
				s.Upkeep.Compacted = ptr.To(true)
				s.Upkeep.Largest = []etcd.KeyGroup{{Prefix: "/registry/events/", Keys: 9000, Bytes: 1900 * mib}}
			}),
			reason: etcd.ReasonAlarm, stalled: true,
			says: `raise spec.config.quotaBackendBytes. Most space is taken by "/registry/events/" with 9000 keys, about 1900Mi`,
		},
		"who keeps history keeps it": {
			state: full(2040, func(s *etcd.State) {
				s.Upkeep.Compacted, s.Want.Maintenance.KeepsHistory = ptr.To(false), true
			}),
			reason: etcd.ReasonAlarm, stalled: true, says: "autoCompactionRetention",
		},
		"who wants no defragmentation gets none": {
			state:  full(1000, func(s *etcd.State) { s.Want.Maintenance.Defragment = false }),
			reason: etcd.ReasonAlarm, stalled: true, says: "mode is Disabled",
		},
		"one that failed does not keep the others from theirs": {
			state: full(1000, func(s *etcd.State) { s.Pods[0].Defragmentation = done(time.Minute, errors.New("disk full")) }),
			step:  etcd.Defragment{Pod: "orders-2", Size: 2048 * mib},
		},
		"but is told when it is the last": {
			state: full(1000, func(s *etcd.State) {
				sized(s, [2]int64{2048, 1000}, [2]int64{1000, 1000}, [2]int64{1000, 1000})
				s.Pods[0].Defragmentation = done(time.Minute, errors.New("disk full"))
			}),
			reason: etcd.ReasonAlarm, stalled: true, says: "tried again after 10m0s (disk full)",
		},
		"a member that differs from the majority is replaced": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s) // It blames orders-2.
				hashed(s, 1, 7, 7)
			}),
			step: etcd.RemoveMember{ID: 1, Name: "orders-0", Via: "orders-1", Pod: "uid-orders-0", Claim: "claim-0"}, says: "orders-0 has other data than the majority",
		},
		"the alarm of a member that is gone is over": {
			state: settled(func(s *etcd.State) {
				s.Pods[1].View.Alarms = []etcd.Alarm{{MemberID: 99, Type: "CORRUPT"}}
				hashed(s, 7, 7, 7)
			}),
			step: etcd.Disarm{Pod: "orders-1", Alarm: etcd.Alarm{MemberID: 99, Type: "CORRUPT"}},
		},
		"a learner, which tells no hash, does not keep the alarm": {
			state: joining(func(s *etcd.State) {
				s.Pods[1].View.Alarms = []etcd.Alarm{{MemberID: 99, Type: "CORRUPT"}}
				hashed(s, 7, 7)
			}),
			step: etcd.Disarm{Pod: "orders-1", Alarm: etcd.Alarm{MemberID: 99, Type: "CORRUPT"}},
		},
		"one that the alarm is about begins anew": {
			state: joining(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				hashed(s, 7, 7)
			}),
			step: etcd.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
		"nor does a learner make a majority of what is none": {
			state: joining(func(s *etcd.State) {
				s.Pods[1].View.Alarms = []etcd.Alarm{{MemberID: 99, Type: "CORRUPT"}}
				hashed(s, 7, 8)
			}),
			reason: etcd.ReasonCorrupt, stalled: true, says: "no majority",
		},
		"without a majority a human has to act": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				hashed(s, 1, 2, 3)
			}),
			reason: etcd.ReasonCorrupt, stalled: true, says: "no majority",
		},
		"a majority that is not complete disarms nothing": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				hashed(s, 7, 7)
			}),
			reason: etcd.ReasonAlarm, stalled: true, says: "orders-2 unknown",
		},
		"hashes of different revisions say nothing": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				hashed(s, 1, 7, 7)
				s.Pods[0].Hash.CompactRevision, s.Pods[0].Corrupt = 40, false
				etcd.Compare(s)
			}),
			reason: etcd.ReasonCorrupt, stalled: true, says: "no majority of the members has the same data",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := etcd.Next(tc.state)
			if diff := cmp.Diff(tc.step, got.Step); diff != "" {
				t.Errorf("step (-want +got):\n%s\n%s", diff, got.Message)
			}
			if tc.step == nil && (got.Reason != tc.reason || got.Stalled != tc.stalled) {
				t.Errorf("%s (stalled %t): %s", got.Reason, got.Stalled, got.Message)
			}
			if !strings.Contains(got.Message, tc.says) {
				t.Errorf("%q does not say %q", got.Message, tc.says)
			}
		})
	}
}

// hashed gives members the hash of their data at revision 50.
func hashed(s *etcd.State, sums ...uint32) {
	for i, sum := range sums {
		s.Pods[i].Hash = &etcd.Hash{Sum: sum, Revision: 50, CompactRevision: 10}
	}
	etcd.Compare(s)
}

func TestWindow(t *testing.T) {
	weekend := &v1alpha1.MaintenanceWindow{
		Start: "23:30", Duration: metav1.Duration{Duration: 2 * time.Hour}, TimeZone: ptr.To("Europe/Berlin"),
		Days: []v1alpha1.Weekday{"Saturday"},
	}
	daily := &v1alpha1.MaintenanceWindow{Start: "02:30", Duration: metav1.Duration{Duration: time.Hour}}
	for name, tc := range map[string]struct {
		window *v1alpha1.MaintenanceWindow
		at     string
		open   bool
	}{
		"at its start":                   {window: daily, at: "2026-05-01T02:30:00Z", open: true},
		"before":                         {window: daily, at: "2026-05-01T02:29:59Z"},
		"at its end":                     {window: daily, at: "2026-05-01T03:30:00Z"},
		"by the clock of the zone":       {window: weekend, at: "2026-05-02T21:30:00Z", open: true},
		"beyond midnight":                {window: weekend, at: "2026-05-02T23:20:00Z", open: true},
		"not on the night before":        {window: weekend, at: "2026-05-01T21:30:00Z"},
		"not on the night after":         {window: weekend, at: "2026-05-03T21:30:00Z"},
		"in winter an hour later in UTC": {window: weekend, at: "2026-01-03T21:30:00Z"},
		"in winter":                      {window: weekend, at: "2026-01-03T22:30:00Z", open: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := etcd.ParseWindow(tc.window)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tc.at)
			if err != nil {
				t.Fatal(err)
			}
			if w.Open(at) != tc.open {
				t.Errorf("open: %t", !tc.open)
			}
		})
	}
	if _, err := etcd.ParseWindow(&v1alpha1.MaintenanceWindow{Start: "02:30", TimeZone: ptr.To("Mars/Olympus")}); err == nil {
		t.Error("a time zone that does not exist is taken")
	}
}

func TestTrend(t *testing.T) {
	const quota = 2048 * mib
	// grow feeds a trend with one sample a minute, in MiB.
	grow := func(trend *anomaly.Trend, from int, minutes int, size func(minute int) float64) (last anomaly.Forecast) {
		for i := from; i < from+minutes; i++ {
			last = trend.Next(simNow.Add(time.Duration(i)*time.Minute), int64(size(i)*mib), quota)
		}
		return last
	}
	steady := func(start, perMinute float64) func(int) float64 {
		return func(i int) float64 { return start + perMinute*float64(i) }
	}
	for name, tc := range map[string]struct {
		minutes int
		size    func(int) float64
		want    string
	}{
		"a database that does not grow":       {240, steady(1500, 0), "True SpaceLeft"},
		"one that fills within four hours":    {60, steady(1100, 5), "False SpaceRunsOut"},
		"one that fills, but is half empty":   {60, steady(100, 5), "True SpaceLeft"},
		"one that takes days":                 {240, steady(1100, 0.1), "True SpaceLeft"},
		"one that has been seen for a moment": {10, steady(1100, 50), "True SpaceLeft"},
		"one that is compacted every hour":    {240, func(i int) float64 { return 1100 + 5*float64(i%60) }, "True SpaceLeft"},
		"one that is almost full":             {5, steady(1900, 0), "False SpaceLow"},
	} {
		t.Run(name, func(t *testing.T) {
			s := settled(nil)
			s.Upkeep.Forecast = grow(&anomaly.Trend{}, 0, tc.minutes, tc.size)
			if got := spaceCondition(s); got.Reason != strings.Fields(tc.want)[1] || string(got.Status) != strings.Fields(tc.want)[0] {
				t.Errorf("%s %s: %s", got.Status, got.Reason, got.Message)
			}
		})
	}
	var trend anomaly.Trend
	if f := grow(&trend, 0, 60, steady(1100, 4)); !f.RunsOut {
		t.Fatalf("it does not see it coming: %+v", f)
	}
	if f := grow(&trend, 60, 20, func(int) float64 { return 1336 }); !f.RunsOut {
		t.Errorf("a short rest calms it: %+v", f)
	}
	if f := grow(&trend, 80, 240, func(int) float64 { return 1336 }); f.RunsOut {
		t.Errorf("a long one does not: %+v", f)
	}
}

func spaceCondition(s etcd.State) metav1.Condition {
	for _, c := range etcd.Conditions(s, etcd.Next(s), nil) {
		if c.Type == v1alpha1.ConditionSpaceHealthy {
			return c
		}
	}
	return metav1.Condition{}
}
