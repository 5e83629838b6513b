package etcd_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/kube"
)

// snapshotFor was taken ten minutes ago, on the way to a version.
func snapshotFor(v etcd.Version) etcd.Snapshot {
	return etcd.Snapshot{SnapshotReport: *reported(), From: v36, For: v, Job: "job-1", Time: simNow.Add(-10 * time.Minute)}
}

func reported() *etcd.SnapshotReport {
	return &etcd.SnapshotReport{File: "3.6.16-7.db", Revision: 7, Size: 20 << 20, SHA256: "abc", Member: "orders-0"}
}

// saving is a cluster with a snapshot to be taken before another version, and its Job in a state.
func saving(job *etcd.SnapshotJob, change func(*etcd.State)) etcd.State {
	return running(v36, v37, func(s *etcd.State) {
		s.Want.Snapshot = true
		if job != nil {
			job.Name, job.UID, job.From, job.For = "orders-snapshot", "job-2", v36, v37
			s.SnapshotJob = job
		}
		if change != nil {
			change(s)
		}
	})
}

func ago(d time.Duration) time.Time { return simNow.Add(-d) }

func TestSnapshotBeforeAnUpgrade(t *testing.T) {
	next := etcd.Version{Major: 3, Minor: 6, Patch: 17}
	drop := etcd.DropSnapshotJob{Name: "orders-snapshot", UID: "job-2"}
	patch := func(change func(*etcd.State)) etcd.State {
		return saving(nil, func(s *etcd.State) {
			s.Want.Version = next
			if change != nil {
				change(s)
			}
		})
	}
	for name, tc := range map[string]planRow{
		"comes first": {
			state: saving(nil, nil), step: etcd.TakeSnapshot{From: v36, For: v37}, says: "about 32Ki comes before 3.6.16 -> 3.7.3",
		},
		"before the log is flushed too": {
			state: saving(nil, func(s *etcd.State) { s.Record.Flushed = false }), step: etcd.TakeSnapshot{From: v36, For: v37},
		},
		"is taken once for several minor versions": {
			state: running(v35, v37, func(s *etcd.State) { s.Want.Snapshot = true }), step: etcd.TakeSnapshot{From: v35, For: v37},
		},
		"and serves all of the way": {
			state: saving(nil, func(s *etcd.State) { s.Record.Snapshot = snapshotFor(v37); s.Record.Snapshot.From = v35 }),
			step:  etcd.SetVersion{From: v36, To: v37},
		},
		"comes before a patch": {state: patch(nil), step: etcd.TakeSnapshot{From: v36, For: next}},
		"comes before a patch that may cure a member": {
			state: patch(func(s *etcd.State) { down(s, 0) }), step: etcd.TakeSnapshot{From: v36, For: next},
		},
		"is waited for by a quorum": {
			state:  patch(func(s *etcd.State) { s.Members = nil; down(s, 0); down(s, 2) }),
			reason: etcd.ReasonNoQuorum, says: "set spec.upgrade.snapshot to Skip",
		},
		"does not hold up repairs": {
			state: saving(&etcd.SnapshotJob{Failed: "no room", Ended: ago(time.Minute)}, func(s *etcd.State) { s.Pods[2].TemplateHash = "before" }),
			step:  deletion("orders-2"),
		},
		"nor growth": {
			state: saving(&etcd.SnapshotJob{Failed: "no room", Ended: ago(time.Minute)}, func(s *etcd.State) { s.Want.Size = 5 }),
			step:  etcd.Resize{From: 3, To: 4},
		},
		"is not needed where it is skipped": {
			state: saving(nil, func(s *etcd.State) { s.Want.Snapshot = false }), step: etcd.SetVersion{From: v36, To: v37},
			says: "without a snapshot, as spec.upgrade.snapshot says",
		},
		"a patch neither": {
			state: patch(func(s *etcd.State) { s.Want.Snapshot = false; down(s, 0) }), step: etcd.SetVersion{From: v36, To: next},
			says: "without a snapshot, as spec.upgrade.snapshot says",
		},
		"nor where there is nowhere to put it": {
			state: saving(nil, func(s *etcd.State) { s.Want.Persistent = false }), step: etcd.SetVersion{From: v36, To: v37},
			says: "without a snapshot, because there is no spec.storage",
		},
		"nor before an older version": {
			state: saving(nil, func(s *etcd.State) { s.Want.Version = etcd.Version{Major: 3, Minor: 6, Patch: 15} }),
			step:  etcd.SetVersion{From: v36, To: etcd.Version{Major: 3, Minor: 6, Patch: 15}},
		},
		"is of no use for another version": {
			state: saving(nil, func(s *etcd.State) { s.Record.Snapshot = snapshotFor(next) }), step: etcd.TakeSnapshot{From: v36, For: v37},
		},
		"nor after an hour": {
			state: saving(nil, func(s *etcd.State) {
				s.Record.Snapshot = snapshotFor(v37)
				s.Record.Snapshot.Time = ago(61 * time.Minute)
			}),
			step: etcd.TakeSnapshot{From: v36, For: v37},
		},
		"takes its time": {
			state:  saving(&etcd.SnapshotJob{Age: 10 * time.Minute}, nil),
			reason: etcd.ReasonSnapshot, says: "waiting for a snapshot of about 32Ki before 3.6.16 -> 3.7.3",
		},
		"that cannot run yet says why": {
			state:  saving(&etcd.SnapshotJob{Age: time.Minute, Problem: "Unschedulable: no node"}, nil),
			reason: etcd.ReasonSnapshot, says: "Unschedulable: no node",
		},
		"that does not run needs a human": {
			state:  saving(&etcd.SnapshotJob{Age: 2 * time.Minute, Problem: "Unschedulable: no node"}, nil),
			reason: etcd.ReasonSnapshotFailed, stalled: true, says: "set spec.upgrade.snapshot to Skip",
		},
		"is recorded": {
			state: saving(&etcd.SnapshotJob{Ended: ago(time.Second), Report: reported()}, nil),
			step: etcd.RecordSnapshot{Snapshot: etcd.Snapshot{
				SnapshotReport: *reported(), From: v36, For: v37, Job: "job-2", Time: ago(time.Second),
			}},
			says: "a snapshot of orders-0 is verified: revision 7, 20Mi",
		},
		"is waited for by its report": {
			state: saving(&etcd.SnapshotJob{Ended: ago(time.Second)}, nil), reason: etcd.ReasonSnapshot, says: "waiting for the report",
		},
		"whose report is lost is taken again": {
			state: saving(&etcd.SnapshotJob{Ended: ago(time.Minute)}, nil), step: drop, says: "its report is lost",
		},
		"that nobody recorded for an hour is taken again": {
			state: saving(&etcd.SnapshotJob{Ended: ago(2 * time.Hour), Report: reported()}, nil), step: drop,
		},
		"that failed holds the upgrade": {
			state:  saving(&etcd.SnapshotJob{Failed: "no room", Ended: ago(time.Minute)}, nil),
			reason: etcd.ReasonSnapshotFailed, stalled: true, says: "3.6.16 -> 3.7.3 waits for a snapshot, and that fails: no room",
		},
		"that failed is tried again": {
			state: saving(&etcd.SnapshotJob{Failed: "no room", Ended: ago(6 * time.Minute)}, nil), step: drop,
		},
		"waits for the Job before": {
			state: saving(&etcd.SnapshotJob{Leaving: true, Failed: "no room"}, nil), reason: etcd.ReasonSnapshot,
		},
		"of another change is not this one": {
			state: saving(&etcd.SnapshotJob{Ended: ago(time.Minute), Report: reported()}, func(s *etcd.State) { s.SnapshotJob.For = next }), step: drop,
		},
		"that was recorded serves no second change": {
			state: saving(&etcd.SnapshotJob{Ended: ago(time.Minute), Report: reported()}, func(s *etcd.State) {
				s.Record.Snapshot = snapshotFor(etcd.Version{})
				s.Record.Snapshot.Job = "job-2"
			}),
			step: drop,
		},
	} {
		t.Run(name, tc.check)
	}
}

func TestASnapshotIsSpentAtTheEndOfItsWay(t *testing.T) {
	r := etcd.Record{Version: v35, Snapshot: snapshotFor(v37)}
	if got := r.With(v36).Snapshot.For; got != v37 {
		t.Errorf("on the way it serves %s", got)
	}
	if got := r.With(v36).With(v37).Snapshot; got.For != (etcd.Version{}) || got.File == "" {
		t.Errorf("at the end it is %+v", got)
	}
}

func TestTheStatusNamesTheSnapshot(t *testing.T) {
	var st v1alpha1.EtcdClusterStatus
	etcd.Status(&st, settled(nil))
	if st.Snapshot != nil {
		t.Errorf("before the first: %+v", st.Snapshot)
	}
	etcd.Status(&st, settled(func(s *etcd.State) { s.Record.Snapshot = snapshotFor(etcd.Version{}) }))
	if s := st.Snapshot; s == nil || s.Claim != "orders-snapshot" || s.File != "3.6.16-7.db" || s.Version != "3.6.16" || s.Revision != 7 || s.Size != 20<<20 {
		t.Errorf("%+v", s)
	}
}

func TestASnapshotReportIsReadBack(t *testing.T) {
	text, err := reported().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, ok := etcd.ParseSnapshotReport(text)
	if diff := cmp.Diff(*reported(), got); diff != "" || !ok {
		t.Errorf("%t (-want +got):\n%s", ok, diff)
	}
	for _, other := range []string{"", "panic: no", "{}", `{"reason":"LostDisk"}`} {
		if r, ok := etcd.ParseSnapshotReport(other); ok {
			t.Errorf("%q is read as %+v", other, r)
		}
	}
}

func snapshotJob(t *testing.T, secret string, change func(*etcd.Blueprint)) *batchv1.Job {
	t.Helper()
	ac, err := blueprint(t, change).SnapshotJob(etcd.TakeSnapshot{From: v36, For: v37}, secret)
	if err != nil {
		t.Fatal(err)
	}
	job, err := kube.Convert[batchv1.Job](ac)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestTheJobOfASnapshot(t *testing.T) {
	job := snapshotJob(t, "orders-operator-tls", nil)
	pod := job.Spec.Template.Spec
	c := pod.Containers[0]
	wantArgs := []string{
		"snapshot", "etcd", "--version=3.6.16",
		"--member=https://orders-0.orders-peers.shop.svc.cluster.local:2379",
		"--member=https://orders-1.orders-peers.shop.svc.cluster.local:2379",
		"--member=https://orders-2.orders-peers.shop.svc.cluster.local:2379",
	}
	if diff := cmp.Diff(wantArgs, c.Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if job.Annotations[v1alpha1.AnnotationVersion] != "3.6.16" || job.Annotations[v1alpha1.AnnotationTargetVersion] != "3.7.3" {
		t.Errorf("annotations %v", job.Annotations)
	}
	for _, r := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		if r.Cpu().IsZero() || r.Memory().IsZero() {
			t.Errorf("resources %v", r)
		}
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("the pod has a token, or restarts: %+v", pod)
	}
	if sc := c.SecurityContext; !*sc.ReadOnlyRootFilesystem || *sc.AllowPrivilegeEscalation || !*pod.SecurityContext.RunAsNonRoot {
		t.Errorf("%+v", sc)
	}
	if got, want := mounted(pod), []string{"orders-operator-tls", "orders-snapshot"}; !slices.Equal(got, want) {
		t.Errorf("it mounts %v instead of %v", got, want)
	}
}

// mounted are the Secrets and claims of a pod.
func mounted(pod corev1.PodSpec) (names []string) {
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			names = append(names, v.Secret.SecretName)
		}
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	slices.Sort(names)
	return names
}

func TestTheJobOfASnapshotGetsWhatItNeeds(t *testing.T) {
	mode := func(m v1alpha1.TLSMode) func(*etcd.Blueprint) {
		return func(b *etcd.Blueprint) { b.Cluster.Spec.TLS = &v1alpha1.TLSSpec{Mode: ptr.To(m)} }
	}
	// TLS is asked for, and members do not listen for it yet.
	plain := func(b *etcd.Blueprint) { b.Record.Members = etcd.Peers("orders", "shop", "cluster.local", 3, false) }
	for name, tc := range map[string]struct {
		secret string
		change func(*etcd.Blueprint)
		want   []string
	}{
		"a certificate of the user and the password": {"mine", mode(v1alpha1.TLSProvided), []string{"mine", "orders-auth", "orders-snapshot"}},
		"the password without TLS":                   {"", plain, []string{"orders-auth", "orders-snapshot"}},
		"a certificate of cert-manager":              {"orders-operator-tls", mode(v1alpha1.TLSCertManager), []string{"orders-operator-tls", "orders-snapshot"}},
		"nothing without either": {"", func(b *etcd.Blueprint) {
			plain(b)
			b.SigningSum = ""
		}, []string{"orders-snapshot"}},
	} {
		pod := snapshotJob(t, tc.secret, tc.change).Spec.Template.Spec
		if got := mounted(pod); !slices.Equal(got, tc.want) {
			t.Errorf("%s: it mounts %v instead of %v", name, got, tc.want)
		}
		for _, v := range pod.Volumes {
			if v.Secret != nil && v.Secret.SecretName == "orders-auth" && (len(v.Secret.Items) != 1 || v.Secret.Items[0].Key != "password") {
				t.Errorf("%s: it gets %+v of the Secret", name, v.Secret.Items)
			}
		}
	}
}

// A Service, a disruption budget or an affinity that means the members must not mean the pod of a snapshot.
func TestThePodOfASnapshotIsNoMember(t *testing.T) {
	job := snapshotJob(t, "", func(b *etcd.Blueprint) {
		b.Cluster.Spec.Template = &v1alpha1.PodTemplate{
			Tolerations:  []v1alpha1.Toleration{{Operator: ptr.To(corev1.TolerationOpExists)}},
			NodeSelector: map[string]v1alpha1.LabelValue{"pool": "etcd"},
			Labels:       map[string]v1alpha1.TemplateValue{"team": "orders"},
			Affinity:     &v1alpha1.Affinity{PodAntiAffinity: &v1alpha1.PodAffinity{}},
		}
	})
	tpl := job.Spec.Template
	matches := true
	for k, v := range etcd.Selector("orders") {
		matches = matches && tpl.Labels[k] == v
	}
	if matches || tpl.Labels["app.kubernetes.io/instance"] == "orders" || tpl.Labels["team"] != "" {
		t.Errorf("labels %v", tpl.Labels)
	}
	if a := tpl.Spec.Affinity; a != nil && (a.PodAntiAffinity != nil || a.PodAffinity != nil) {
		t.Errorf("affinity %+v", a)
	}
	if len(tpl.Spec.Tolerations) != 1 || tpl.Spec.NodeSelector["pool"] != "etcd" {
		t.Errorf("it may not run where the members do: %+v", tpl.Spec)
	}
}

func TestTheClaimOfTheSnapshots(t *testing.T) {
	for policy, owners := range map[v1alpha1.DeletionPolicy]int{v1alpha1.DeletionRetain: 0, v1alpha1.DeletionDelete: 1} {
		b := blueprint(t, func(b *etcd.Blueprint) { b.Storage.DeletionPolicy, b.Storage.ClassName = &policy, ptr.To("fast") })
		claim, err := kube.Convert[corev1.PersistentVolumeClaim](b.SnapshotClaim())
		if err != nil {
			t.Fatal(err)
		}
		size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if claim.Name != "orders-snapshot" || claim.Namespace != "shop" || size.String() != "1Gi" || *claim.Spec.StorageClassName != "fast" {
			t.Errorf("%+v", claim)
		}
		if len(claim.OwnerReferences) != owners || b.KeepsSnapshots() == (owners == 1) {
			t.Errorf("with %s it belongs to %v", policy, claim.OwnerReferences)
		}
	}
}
