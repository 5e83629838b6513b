package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
)

// stage is a manager's metrics, and the world that they tell about.
type stage struct {
	*Metrics
	objects Objects
	err     error
	leads   bool
	ahead   *time.Duration
	now     time.Time
	reg     *prometheus.Registry
}

func newStage(t *testing.T) *stage {
	t.Helper()
	ahead := 90 * time.Second
	s := &stage{leads: true, ahead: &ahead, now: time.Unix(1_800_000_000, 0), reg: prometheus.NewPedanticRegistry()}
	s.Metrics = New(Options{
		Version: "v1.2.3",
		List:    func(context.Context) (Objects, error) { return s.objects, s.err },
		Leads:   func() bool { return s.leads },
		Now:     func() time.Time { return s.now },
		Ahead:   func() (time.Duration, bool) { return ptr.Deref(s.ahead, 0), s.ahead != nil },
	})
	if err := s.reg.Register(s.Metrics); err != nil {
		t.Fatal(err)
	}
	return s
}

// series are all values by name and labels; of histograms their counts.
func (s *stage) series(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%s", l.GetName(), l.GetValue()))
			}
			key := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				out[key] = m.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM:
				out[key] = float64(m.GetHistogram().GetSampleCount())
			default:
				out[key] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

// expect compares the series whose names begin with one of the prefixes.
func (s *stage) expect(t *testing.T, want map[string]float64, prefixes ...string) {
	t.Helper()
	got := s.series(t)
	maps.DeleteFunc(got, func(k string, _ float64) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(k, p) })
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func is(typ string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: typ, Status: status, Reason: reason}
}

func orders() v1alpha1.EtcdCluster {
	o := v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "u1"}}
	o.Spec.Size, o.Spec.Version = 3, "3.6.16"
	o.Status.CurrentVersion = "3.5.35"
	o.Status.Members = []v1alpha1.EtcdMemberStatus{
		{Name: "orders-0", Role: v1alpha1.EtcdLeader, Ready: true, Version: "3.5.35"},
		{Name: "orders-1", Role: v1alpha1.EtcdFollower, Ready: true, Version: "3.6.16"},
		{Name: "orders-2", Role: v1alpha1.EtcdFollower, Version: "3.6.16"},
	}
	o.Status.Conditions = []metav1.Condition{
		is("Ready", metav1.ConditionFalse, "RestartingMember"), is("Available", metav1.ConditionTrue, "Serving"),
		is("QuorumHealthy", metav1.ConditionUnknown, "Unknown"),
		is("Reconciling", metav1.ConditionTrue, "RestartingMember"), is("Stalled", metav1.ConditionFalse, "NotStalled"),
	}
	o.Status.Certificates = &v1alpha1.CertificateStatus{
		CANotAfter: ptr.To(metav1.Unix(2000, 0)), NotAfter: ptr.To(metav1.Unix(1000, 0)),
	}
	return o
}

func carts() v1alpha1.RedisCluster {
	o := v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "carts", UID: "u2"}}
	o.Spec.Version, o.Spec.Shards, o.Spec.ReplicasPerShard, o.Spec.Paused = "9.1.2", 2, ptr.To[int32](1), ptr.To(true)
	o.Spec.Engine = ptr.To(v1alpha1.EngineValkey)
	o.Status.Slots, o.Status.Resharding = "16383/16384", &v1alpha1.RedisReshardingStatus{SlotsLeft: 7}
	o.Status.Shards = []v1alpha1.RedisShardStatus{
		{Nodes: []v1alpha1.RedisNodeStatus{{Role: v1alpha1.RedisPrimary, Ready: true, Version: "9.1.2"}, {Role: v1alpha1.RedisReplica}}},
		{Nodes: []v1alpha1.RedisNodeStatus{{Role: v1alpha1.RedisPrimary, Ready: true}, {Role: v1alpha1.RedisRoleUnknown}}},
	}
	return o
}

func TestAnEtcdClusterIsToldByItsStatus(t *testing.T) {
	s := newStage(t)
	s.objects.Etcd = []v1alpha1.EtcdCluster{orders()}
	const id = "kind=EtcdCluster,name=orders,namespace=shop"
	s.expect(t, map[string]float64{
		"quorate_cluster_info{current_version=3.5.35,engine=etcd," + id + ",version=3.6.16}": 1,
		"quorate_condition{condition=Ready," + id + "}":                                      0,
		"quorate_condition{condition=Available," + id + "}":                                  1,
		"quorate_condition{condition=QuorumHealthy," + id + "}":                              -1,
		"quorate_condition{condition=Reconciling," + id + "}":                                1,
		"quorate_condition{condition=Stalled," + id + "}":                                    0,
		"quorate_plan_reason{" + id + ",reason=RestartingMember}":                            1,
		"quorate_paused{" + id + "}":                                                         0,
		"quorate_hibernated{" + id + "}":                                                     0,
		"quorate_members_desired{" + id + "}":                                                3,
		"quorate_members{" + id + ",role=Leader}":                                            1,
		"quorate_members{" + id + ",role=Follower}":                                          2,
		"quorate_members{" + id + ",role=Learner}":                                           0,
		"quorate_members{" + id + ",role=Unstarted}":                                         0,
		"quorate_members{" + id + ",role=Unknown}":                                           0,
		"quorate_members_ready{" + id + ",role=Leader}":                                      1,
		"quorate_members_ready{" + id + ",role=Follower}":                                    1,
		"quorate_members_ready{" + id + ",role=Learner}":                                     0,
		"quorate_members_ready{" + id + ",role=Unstarted}":                                   0,
		"quorate_members_ready{" + id + ",role=Unknown}":                                     0,
		"quorate_members_up_to_date{" + id + "}":                                             2,
		"quorate_members_outdated{" + id + "}":                                               1,
		"quorate_certificate_expiry_timestamp_seconds{certificate=ca," + id + "}":            2000,
		"quorate_certificate_expiry_timestamp_seconds{certificate=leaf," + id + "}":          1000,
		"quorate_certificate_renewal_overdue{" + id + "}":                                    0,
		"quorate_build_info{version=v1.2.3}":                                                 1,
		"quorate_leading{}":                                                                  1,
		"quorate_clock_ahead_seconds{}":                                                      90,
		"quorate_read_failures_total{}":                                                      0,
	}, "quorate_")
}

func TestACertificateThatNobodyRenewsIsTold(t *testing.T) {
	s := newStage(t)
	o := orders()
	o.Status.Conditions = append(o.Status.Conditions, is("TLSReady", metav1.ConditionTrue, v1alpha1.ReasonExpiring))
	s.objects.Etcd = []v1alpha1.EtcdCluster{o}
	s.expect(t, map[string]float64{"quorate_certificate_renewal_overdue{kind=EtcdCluster,name=orders,namespace=shop}": 1}, "quorate_certificate_renewal")
}

func TestARedisClusterIsToldByItsStatus(t *testing.T) {
	s := newStage(t)
	s.objects.Redis = []v1alpha1.RedisCluster{carts()}
	const id = "kind=RedisCluster,name=carts,namespace=shop"
	s.expect(t, map[string]float64{
		"quorate_cluster_info{current_version=,engine=valkey," + id + ",version=9.1.2}": 1,
		"quorate_paused{" + id + "}":                     1,
		"quorate_members_desired{" + id + "}":            4,
		"quorate_members{" + id + ",role=Primary}":       2,
		"quorate_members{" + id + ",role=Replica}":       1,
		"quorate_members{" + id + ",role=Unknown}":       1,
		"quorate_members_ready{" + id + ",role=Primary}": 2,
		"quorate_members_ready{" + id + ",role=Replica}": 0,
		"quorate_members_ready{" + id + ",role=Unknown}": 0,
		"quorate_members_up_to_date{" + id + "}":         1,
		"quorate_members_outdated{" + id + "}":           0, // Three do not say.
		"quorate_redis_slots_covered{" + id + "}":        16383,
		"quorate_redis_slots_to_move{" + id + "}":        7,
	}, "quorate_cluster", "quorate_paused", "quorate_members", "quorate_redis")
}

func TestBackupsAreToldByScheduleAndByCluster(t *testing.T) {
	s := newStage(t)
	of := v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}
	schedule := v1alpha1.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hourly"}}
	schedule.Spec.Cluster = of
	schedule.Status.LastBackupTime, schedule.Status.LastVerifiedTime = ptr.To(metav1.Unix(500, 0)), ptr.To(metav1.Unix(400, 0))
	schedule.Status.RestoreSeconds, schedule.Status.Recording = 12, "Behind"
	s.objects.Schedules = []v1alpha1.BackupSchedule{schedule}
	for _, conditions := range [][]metav1.Condition{
		{is("Complete", metav1.ConditionTrue, "Stored"), is("Verified", metav1.ConditionTrue, "Restored")},
		{is("Complete", metav1.ConditionTrue, "Stored")},
		{is("Complete", metav1.ConditionTrue, "Stored"), is("Stalled", metav1.ConditionTrue, "VerificationFailed")},
		{is("Stalled", metav1.ConditionTrue, "Denied")},
		{is("Reconciling", metav1.ConditionTrue, "Taking")},
	} {
		b := v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
		b.Spec.Cluster, b.Status.Conditions, b.Status.StoredSize = of, conditions, 1000
		s.objects.Backups = append(s.objects.Backups, b)
	}
	foreign := s.objects.Backups[0]
	foreign.Spec.External = &v1alpha1.ExternalCluster{}
	s.objects.Backups = append(s.objects.Backups, foreign)
	const id, owner = "{cluster=orders,cluster_kind=EtcdCluster,namespace=shop,schedule=hourly}", "{cluster=orders,cluster_kind=EtcdCluster,namespace=shop"
	s.expect(t, map[string]float64{
		"quorate_backup_last_success_timestamp_seconds" + id:  500,
		"quorate_backup_last_verified_timestamp_seconds" + id: 400,
		"quorate_backup_restore_seconds" + id:                 12,
		"quorate_backup_recording_current" + id:               0,
		"quorate_backups" + owner + ",state=Complete}":        3,
		"quorate_backups" + owner + ",state=Running}":         1,
		"quorate_backups" + owner + ",state=Stalled}":         2,
		"quorate_backups_verified" + owner + "}":              1,
		"quorate_backups_stored_bytes" + owner + "}":          3000,
	}, "quorate_backup")
}

func TestOutagesAreMeasuredBetweenPasses(t *testing.T) {
	const kind, uid = "EtcdCluster", types.UID("u1")
	s := newStage(t)
	s.objects.Etcd = []v1alpha1.EtcdCluster{orders()}
	const id = "{kind=EtcdCluster,name=orders,namespace=shop}"
	pass := func(after time.Duration, status metav1.ConditionStatus, reason string) {
		s.now = s.now.Add(after)
		s.Pass(kind, uid, cluster.Figures{}, []metav1.Condition{is("Available", status, reason)})
	}
	pass(0, metav1.ConditionFalse, "Starting") // The first start is no outage.
	pass(time.Minute, metav1.ConditionTrue, "Serving")
	s.expect(t, map[string]float64{}, "quorate_outage")
	pass(time.Second, metav1.ConditionFalse, "NoQuorum")
	pass(2*time.Second, metav1.ConditionUnknown, "Unknown") // That nobody can see it does not end it.
	pass(2*time.Second, metav1.ConditionTrue, "Serving")
	pass(time.Second, metav1.ConditionFalse, "NoQuorum")
	pass(time.Second, metav1.ConditionTrue, "Serving")
	pass(time.Second, metav1.ConditionFalse, v1alpha1.ReasonHibernated)
	pass(time.Hour, metav1.ConditionFalse, "Starting")
	pass(time.Minute, metav1.ConditionTrue, "Serving")
	s.expect(t, map[string]float64{"quorate_outage_last_seconds" + id: 1, "quorate_outage_longest_seconds" + id: 4}, "quorate_outage")
}

// lead makes another member lead, unless it is a mere restart.
type lead struct{ restart bool }

func (lead) String() string { return "make another member lead" }
func (l lead) Meta() cluster.Meta {
	return cluster.Meta{Reason: "MovingLeader", HandsOver: !l.restart}
}

func TestStepsAreCountedByWhatBecameOfThem(t *testing.T) {
	s := newStage(t)
	s.objects.Etcd = []v1alpha1.EtcdCluster{orders()}
	for took, err := range map[time.Duration]error{
		3 * time.Second: nil,
		1:               errors.New("no"),
		2:               fmt.Errorf("move: %w", cluster.Hold{Message: "not now"}),
		4:               fmt.Errorf("move: %w", cluster.Refusal{Message: "never"}),
	} {
		done := s.Begin("EtcdCluster", "u1", lead{})
		s.now = s.now.Add(took)
		done(err)
	}
	done := s.Begin("EtcdCluster", "u1", lead{restart: true})
	s.now = s.now.Add(time.Minute)
	done(nil)
	call := s.Caller("etcd")
	call("Status", time.Millisecond, nil)
	call("Status", time.Second, errors.New("no"))
	const id = "{kind=EtcdCluster,name=orders,namespace=shop}"
	s.expect(t, map[string]float64{
		"quorate_steps_total{kind=EtcdCluster,result=Done,step=MovingLeader}":    2,
		"quorate_steps_total{kind=EtcdCluster,result=Failed,step=MovingLeader}":  1,
		"quorate_steps_total{kind=EtcdCluster,result=Held,step=MovingLeader}":    1,
		"quorate_steps_total{kind=EtcdCluster,result=Refused,step=MovingLeader}": 1,
		"quorate_step_duration_seconds{kind=EtcdCluster,step=MovingLeader}":      5,
		"quorate_datastore_call_duration_seconds{call=Status,datastore=etcd}":    2,
		"quorate_datastore_call_errors_total{call=Status,datastore=etcd}":        1,
		"quorate_handover_last_seconds" + id:                                     3,
		"quorate_handover_longest_seconds" + id:                                  3,
	}, "quorate_step", "quorate_datastore", "quorate_handover")
}

func TestFindingsAreToldWhileTheyHold(t *testing.T) {
	s := newStage(t)
	s.objects.Etcd = []v1alpha1.EtcdCluster{orders()}
	s.Pass("EtcdCluster", "u1", cluster.Figures{Anomalies: found(anomaly.FsyncTime, anomaly.CommitTime, anomaly.Skew)}, nil)
	const id = "{finding=%s,kind=EtcdCluster,name=orders,namespace=shop}"
	s.expect(t, map[string]float64{
		"quorate_anomaly" + fmt.Sprintf(id, "SlowDisk"): 1, "quorate_anomaly" + fmt.Sprintf(id, "ClockSkew"): 1,
	}, "quorate_anomaly")
	s.Pass("EtcdCluster", "u1", cluster.Figures{Anomalies: found()}, nil)
	s.expect(t, map[string]float64{}, "quorate_anomaly")
	s.Pass("EtcdCluster", "u1", cluster.Figures{Anomalies: found(anomaly.Skew)}, nil)
	s.objects = Objects{}
	s.expect(t, map[string]float64{}, "quorate_anomaly")
}

// found is a report of some findings.
func found(measures ...*anomaly.Measure) *anomaly.Report {
	out := &anomaly.Report{}
	for _, m := range measures {
		out.Open = append(out.Open, anomaly.Found{Key: anomaly.Key{Measure: m}})
	}
	return out
}

func TestSeriesEndWithTheirObject(t *testing.T) {
	s := newStage(t)
	s.objects.Etcd, s.objects.Redis = []v1alpha1.EtcdCluster{orders()}, []v1alpha1.RedisCluster{carts()}
	s.Pass("EtcdCluster", "u1", cluster.Figures{Margin: ptr.To(0), Lags: []cluster.Lag{{Pod: "orders-1", Behind: 5}}}, nil)
	s.Pass("RedisCluster", "u2", cluster.Figures{Lags: []cluster.Lag{{Pod: "carts-0-1", Behind: 9}}}, nil)
	s.expect(t, map[string]float64{
		"quorate_etcd_quorum_margin{kind=EtcdCluster,name=orders,namespace=shop}":                        0,
		"quorate_etcd_applied_lag_entries{kind=EtcdCluster,name=orders,namespace=shop,pod=orders-1}":     5,
		"quorate_redis_replication_lag_bytes{kind=RedisCluster,name=carts,namespace=shop,pod=carts-0-1}": 9,
	}, "quorate_etcd", "quorate_redis_replication")
	again := orders() // Another cluster of the same name knows nothing of the first one.
	again.UID = "u3"
	s.objects = Objects{Etcd: []v1alpha1.EtcdCluster{again}}
	s.expect(t, map[string]float64{}, "quorate_etcd", "quorate_redis")
	s.objects = Objects{}
	s.expect(t, map[string]float64{
		"quorate_build_info{version=v1.2.3}": 1, "quorate_leading{}": 1, "quorate_clock_ahead_seconds{}": 90, "quorate_read_failures_total{}": 0,
	}, "quorate_")
	if len(s.seen) != 0 {
		t.Errorf("%d histories of objects that are gone", len(s.seen))
	}
}

func TestAManagerThatCannotReadOrDoesNotLeadTellsNothingOfClusters(t *testing.T) {
	s := newStage(t)
	s.objects.Etcd, s.err = []v1alpha1.EtcdCluster{orders()}, errors.New("the cache is not there")
	s.expect(t, map[string]float64{"quorate_leading{}": 1, "quorate_read_failures_total{}": 1}, "quorate_leading", "quorate_read", "quorate_members")
	s.err, s.leads, s.ahead = nil, false, nil
	s.expect(t, map[string]float64{}, "quorate_clock") // The API server has not said what time it is.
	s.expect(t, map[string]float64{"quorate_leading{}": 0, "quorate_read_failures_total{}": 1}, "quorate_leading", "quorate_read", "quorate_members")
}

func TestNamesFollowTheConventions(t *testing.T) {
	for _, d := range Definitions() {
		switch {
		case !strings.HasPrefix(d.Name, "quorate_"):
			t.Errorf("%s does not begin with quorate_", d.Name)
		case (d.Type == Counter) != strings.HasSuffix(d.Name, "_total"):
			t.Errorf("%s is a %s: counters, and nothing else, end with _total", d.Name, d.Type)
		case d.Type == Histogram && !strings.HasSuffix(d.Name, "_seconds"):
			t.Errorf("%s lacks its unit", d.Name)
		case !strings.HasSuffix(d.Help, "."):
			t.Errorf("the help of %s is no sentence", d.Name)
		}
	}
}

// A metric that is documented and never told would be looked for in vain.
func TestEveryMetricIsTold(t *testing.T) {
	s := newStage(t)
	schedule := v1alpha1.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hourly"}}
	at := ptr.To(metav1.Unix(500, 0))
	schedule.Status = v1alpha1.BackupScheduleStatus{LastBackupTime: at, LastVerifiedTime: at, NextTime: at, Recording: "Current"}
	s.objects = Objects{
		Etcd: []v1alpha1.EtcdCluster{orders()}, Redis: []v1alpha1.RedisCluster{carts()}, Schedules: []v1alpha1.BackupSchedule{schedule},
		Backups: []v1alpha1.Backup{{}},
	}
	s.Begin("EtcdCluster", "u1", lead{})(nil)
	s.Caller("etcd")("Status", time.Second, errors.New("no"))
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionTrue} {
		s.Pass("EtcdCluster", "u1", cluster.Figures{Margin: ptr.To(0), Lags: []cluster.Lag{{Pod: "orders-1"}}, Anomalies: found(anomaly.Skew)},
			[]metav1.Condition{is("Available", status, "Serving")})
	}
	s.Pass("RedisCluster", "u2", cluster.Figures{Lags: []cluster.Lag{{Pod: "carts-0-1"}}}, nil)
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]Type{}
	for _, f := range families {
		told[f.GetName()] = Type(strings.ToLower(f.GetType().String()))
	}
	for _, d := range Definitions() {
		if told[d.Name] != d.Type {
			t.Errorf("%s is documented as a %s and told as a %q", d.Name, d.Type, told[d.Name])
		}
	}
}
