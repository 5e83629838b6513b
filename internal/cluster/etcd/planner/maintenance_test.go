package planner_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

const mib = 1 << 20

// sized gives the databases of the members their size and what of it is in use, in MiB.
func sized(s *model.State, sizes ...[2]int64) {
	for i, size := range sizes {
		s.Pods[i].Status.DBSize, s.Pods[i].Status.DBInUse = size[0]*mib, size[1]*mib
	}
}

// full is a cluster whose databases have reached their quota of 2 GiB, with so much in use, in MiB.
func full(inUse int64, change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		alarm("NOSPACE")(s)
		sized(s, [2]int64{2048, inUse}, [2]int64{2048, inUse}, [2]int64{2048, inUse})
		s.Pods[1].Status.Revision = 900
		if change != nil {
			change(s)
		}
	})
}

func done(ago time.Duration, err error) *model.Defragmentation {
	return &model.Defragmentation{
		Begin: simNow.Add(-ago - 1200*time.Millisecond), End: simNow.Add(-ago), Before: 300 * mib, After: 20 * mib, Err: err,
	}
}

func drain(pod string) steps.DrainMember { return steps.DrainMember{Pod: pod, UID: "uid-" + pod} }

func again(pod string) steps.ServeAgain { return steps.ServeAgain{Pod: pod, UID: "uid-" + pod} }

// hashed gives members the hash of their data at revision 50.
func hashed(s *model.State, sums ...uint32) {
	for i, sum := range sums {
		s.Pods[i].Hash = &model.Hash{Sum: sum, Revision: 50, CompactRevision: 10}
	}
	planner.Compare(s)
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
			w, err := model.ParseWindow(tc.window)
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
	if _, err := model.ParseWindow(&v1alpha1.MaintenanceWindow{Start: "02:30", TimeZone: ptr.To("Mars/Olympus")}); err == nil {
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
			s.Maintenance.Forecast = grow(&anomaly.Trend{}, 0, tc.minutes, tc.size)
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

func spaceCondition(s model.State) metav1.Condition {
	for _, c := range planner.Conditions(s, planner.Next(s), nil) {
		if c.Type == v1alpha1.ConditionSpaceHealthy {
			return c
		}
	}
	return metav1.Condition{}
}
