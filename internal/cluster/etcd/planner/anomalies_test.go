package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/etcd/anomalies"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
)

// watched is a settled cluster at a number of minutes, whose members have been there for a day and answer at once.
func watched(minute float64, spoil func(s *model.State)) model.State {
	return settled(func(s *model.State) {
		s.Now = simNow.Add(time.Duration(minute * float64(time.Minute)))
		for i := range s.Pods {
			s.Pods[i].Started, s.Pods[i].Took = simNow.Add(-24*time.Hour), time.Millisecond
			s.Pods[i].Metrics = vitals(uint64(1000*minute), 0)
			s.Pods[i].Status.Applied = 10000
			s.Pods[i].Clock = anomaly.Clock{Server: s.Pods[i].Name, Least: -time.Second, Most: time.Second}
		}
		if spoil != nil {
			spoil(s)
		}
	})
}

// vitals of a disk that was quick and slow so many times.
func vitals(quick, slow uint64) *model.MemberMetrics {
	h := anomaly.Histogram{Bounds: []float64{0.001, 0.2, 0.4}, Counts: []uint64{quick, quick, quick + slow, quick + slow}}
	return &model.MemberMetrics{Fsync: h, Commit: h}
}

// watch plays a cluster for some minutes, and returns what is found at the end.
func watch(v *anomalies.Detector, from, minutes int, spoil func(minute float64, s *model.State)) (last *anomaly.Report) {
	for i := range minutes * 4 {
		minute := float64(from) + float64(i)/4
		last = v.Next(watched(minute, func(s *model.State) {
			if i%4 != 0 {
				for n := range s.Pods {
					s.Pods[n].Metrics = nil
				}
			}
			if spoil != nil {
				spoil(minute, s)
			}
		}))
	}
	return last
}

func TestWhatIsUnusualAboutMembers(t *testing.T) {
	for name, tc := range map[string]struct {
		minutes int
		spoil   func(minute float64, s *model.State)
		want    string
	}{
		"nothing": {minutes: 60},
		"a slow disk": {
			minutes: 12, want: "SlowDisk: 99 % of the fsyncs of orders-1 take up to about 400ms",
			spoil: func(minute float64, s *model.State) {
				if s.Pods[1].Metrics != nil {
					s.Pods[1].Metrics = vitals(uint64(10*minute), uint64(90*minute))
				}
			},
		},
		"a disk that is slow and hardly used": {
			minutes: 12,
			spoil: func(minute float64, s *model.State) {
				if s.Pods[1].Metrics != nil {
					s.Pods[1].Metrics = vitals(10, uint64(9*minute))
				}
			},
		},
		"a member that answers slowly": {
			minutes: 6, want: "SlowMember: orders-2 takes about 480ms to answer",
			spoil: func(_ float64, s *model.State) { s.Pods[2].Took = 480 * time.Millisecond },
		},
		"a member that does not answer in time": {
			minutes: 6, want: "SlowMember: orders-2 takes about 1s to answer",
			spoil: func(_ float64, s *model.State) { s.Pods[2].Took, s.Pods[2].Status = time.Second, nil },
		},
		"a member that is behind": {
			minutes: 6, want: "ReplicationLag: orders-0 is about 6000 entries behind",
			spoil: func(_ float64, s *model.State) { s.Pods[0].Status.Applied -= 6000 },
		},
		"a learner that is behind": {
			minutes: 6,
			spoil:   func(_ float64, s *model.State) { s.Members[0].Learner, s.Pods[0].Status.Applied = true, 0 },
		},
		"a clock that is off": {
			minutes: 6, want: "ClockSkew: the clocks of orders-1 and orders-0 are about 5s apart",
			spoil: func(_ float64, s *model.State) {
				s.Pods[1].Clock.Least, s.Pods[1].Clock.Most = 6*time.Second, 7*time.Second
			},
		},
		"a database that nobody defragments": {
			minutes: 50, want: "Fragmented: about 770 MiB of the database of orders-0 is free",
			spoil: func(_ float64, s *model.State) {
				s.Want.Maintenance = model.Policy{MinFree: 200 << 20, Quota: 2 << 30}
				s.Pods[0].Status.DBSize, s.Pods[0].Status.DBInUse = 1<<30, 1<<28
			},
		},
		"leadership that moves": {
			minutes: 30, want: "FlappingMember: leadership of the cluster moved about 5 times within an hour",
			spoil: func(minute float64, s *model.State) {
				for i := range s.Pods {
					s.Pods[i].Status.Leader = 1 + uint64(minute/5)%3
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var v anomalies.Detector
			r := watch(&v, 0, tc.minutes, tc.spoil)
			if got := r.String(); !strings.HasPrefix(got, tc.want) || (tc.want == "") != (got == "") {
				t.Errorf("%q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestMembersThatAreLostAgainAndAgain(t *testing.T) {
	lose := func(minute float64, s *model.State) {
		p := &s.Pods[0]
		p.Started = p.Started.Add(time.Duration(int(minute/5)) * time.Hour) // A start every five minutes.
		if int(minute)%5 == 0 {
			p.Ready, p.Status, p.Metrics = false, nil, nil
		}
	}
	for name, tc := range map[string]struct {
		spoil func(minute float64, s *model.State)
		want  []anomaly.Finding
	}{
		"by themselves": {lose, []anomaly.Finding{anomaly.FlappingMember}},
		"by rollouts": {func(minute float64, s *model.State) {
			lose(minute, s)
			if int(minute)%5 == 4 {
				s.Pods[0].TemplateHash = "former"
			}
		}, nil},
		"by drains of their nodes": {func(minute float64, s *model.State) {
			lose(minute, s)
			s.Pods[0].Cordoned = "its node is cordoned"
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var v anomalies.Detector
			if diff := cmp.Diff(tc.want, watch(&v, 1, 45, tc.spoil).Findings()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// With a new operator, what members have counted for days says nothing; that of a member that has just started does.
func TestABeginningIsUnknownOnlyWhereItHasToBe(t *testing.T) {
	var old, fresh anomalies.Detector
	if diff := cmp.Diff([]string{"orders-0", "orders-1", "orders-2"}, old.Next(watched(0, nil)).Unknown); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r := old.Next(watched(1, nil)); len(r.Unknown) != 0 || len(r.Open) != 0 {
		t.Errorf("after a minute: %+v", r)
	}
	started := func(s *model.State) {
		for i := range s.Pods {
			s.Pods[i].Started = s.Now.Add(-time.Minute)
		}
	}
	if r := fresh.Next(watched(1, started)); len(r.Unknown) != 0 {
		t.Errorf("%v are unknown, though they have just started", r.Unknown)
	}
	r := watch(&old, 2, 10, func(_ float64, s *model.State) {
		s.Pods[0].Metrics, s.Pods[0].Status, s.Pods[0].Took = nil, nil, 0
	})
	if diff := cmp.Diff([]string{"orders-0"}, r.Unknown); diff != "" || len(r.Open) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestTheConditionSaysWhatIsFound(t *testing.T) {
	var v anomalies.Detector
	is := func(r *anomaly.Report) string {
		s := settled(func(s *model.State) { s.Anomalies = r })
		for _, c := range planner.Conditions(s, planner.Next(s), nil) {
			if c.Type == v1alpha1.ConditionPerformanceHealthy {
				return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
			}
		}
		return "there is none"
	}
	if got := is(v.Next(watched(0, nil))); got != "there is none" {
		t.Errorf("an operator that begins takes back what was said before: %s", got)
	}
	silent := func(_ float64, s *model.State) {
		for i := range s.Pods {
			s.Pods[i].Metrics, s.Pods[i].Status, s.Pods[i].Took = nil, nil, 0
		}
	}
	var deaf anomalies.Detector
	if got := is(watch(&deaf, 0, 6, silent)); got != "Unknown Unknown: too little is known yet of orders-0, orders-1, orders-2" {
		t.Error(got)
	}
	if got := is(watch(&v, 1, 5, nil)); got != "True NothingFound: no server is slow, unsteady, behind, short of room soon, or off in its clock" {
		t.Error(got)
	}
	slow := func(_ float64, s *model.State) { s.Pods[2].Took = 480 * time.Millisecond }
	if got := is(watch(&v, 6, 8, slow)); !strings.HasPrefix(got, "False SlowMember: SlowMember: orders-2 takes about 480ms to answer, at least 5 times as long as its peers: look at") {
		t.Error(got)
	}
}

const metricsText = `# HELP etcd_disk_wal_fsync_duration_seconds The latency distributions of fsync called by WAL.
# TYPE etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 5
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} 1.1e+06
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 1.2e+06
etcd_disk_wal_fsync_duration_seconds_sum 0.03
etcd_disk_wal_fsync_duration_seconds_count 1.2e+06
go_goroutines 90
etcd_disk_backend_commit_duration_seconds_bucket{le="0.004"} 7
etcd_disk_backend_commit_duration_seconds_bucket{le="+Inf"} 7
`

func TestVitalsAreReadOutOfMetrics(t *testing.T) {
	want := model.MemberMetrics{
		Fsync:  anomaly.Histogram{Bounds: []float64{0.001, 0.002}, Counts: []uint64{5, 1100000, 1200000}},
		Commit: anomaly.Histogram{Bounds: []float64{0.004}, Counts: []uint64{7, 7}},
	}
	got, err := model.ParseMetrics(strings.NewReader(metricsText))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	commits := metricsText[strings.Index(metricsText, "go_goroutines"):]
	if _, err := model.ParseMetrics(strings.NewReader(buckets(99) + commits)); err != nil {
		t.Errorf("100 buckets: %v", err)
	}
	for name, text := range map[string]string{
		"nothing":          "",
		"cut off":          metricsText[:strings.Index(metricsText, `etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"}`)],
		"one family":       metricsText[:strings.Index(metricsText, "go_goroutines")],
		"another label":    strings.ReplaceAll(metricsText, "{le=", `{node="1",le=`),
		"bounds that fall": strings.Replace(metricsText, "0.002", "0.0001", 1),
		"no number":        strings.Replace(metricsText, "} 5\n", "} five\n", 1),
		"less than none":   strings.Replace(metricsText, "} 5\n", "} -5\n", 1),
		"too many bytes":   metricsText + strings.Repeat("# HELP go_goroutines\n", 8<<20/20),
		"too many buckets": buckets(100) + commits,
		"not a number":     strings.Replace(metricsText, "} 5\n", "} NaN\n", 1),
	} {
		if v, err := model.ParseMetrics(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// buckets returns a histogram of fsyncs with that many bounds.
func buckets(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"%d\"} 1\n", i)
	}
	out.WriteString("etcd_disk_wal_fsync_duration_seconds_bucket{le=\"+Inf\"} 1\n")
	return out.String()
}

func FuzzVitals(f *testing.F) {
	f.Add(metricsText)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := model.ParseMetrics(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, h := range []anomaly.Histogram{v.Fsync, v.Commit} {
			if q := h.Quantile(0.99); h.Total() > 0 && q > h.Bounds[len(h.Bounds)-1] {
				t.Errorf("the quantile %g is beyond all bounds: %+v", q, h)
			}
		}
	})
}
