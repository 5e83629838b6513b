package etcdcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	etcdsteps "github.com/quorate/quorate/internal/cluster/etcd/steps"
	redismodel "github.com/quorate/quorate/internal/cluster/redis/model"
	redissteps "github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestAnEtcdClusterBeginsAnewAndKeepsWhatItHad(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.RestoredInPlace()
	if s.Aside != 3 {
		t.Errorf("%d of 3 members have set aside what they had", s.Aside)
	}
	r := s.Undo()
	if !strings.Contains(r.Status.Activity, "restored") || r.Status.Revision != 41+etcdmodel.RestoreBump || r.Status.CompletionTime == nil {
		t.Errorf("%+v", r.Status)
	}
	b, err := New(ownedtest.New(&fakeapi.API{Client: s.Others})).Blueprint(t.Context(), s.Cluster())
	if err != nil || b.Record.Restore == nil || b.Record.Restore.Directory != "orders-1" || !strings.HasPrefix(b.Record.Recovery.Incident, r.Status.Plan) {
		t.Errorf("%+v, %v", b.Record, err)
	}
}

// What a younger one has restored would be replaced.
func TestARestoreThatWasOvertakenSaysSo(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	for _, o := range []*v1alpha1.Restore{fakeapi.Restore(nil), fakeapi.Restore(func(r *v1alpha1.Restore) {
		r.Name, r.UID = "younger", "younger-uid"
		r.CreationTimestamp = metav1.NewTime(fakeapi.Now.Add(time.Minute))
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: planner.ReasonRestored}}
	})} {
		status := o.Status
		if err := s.Others.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.Status = status
		if err := s.Others.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	r := s.Undo()
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != planner.ReasonRestoreRefused || !strings.Contains(c.Message, "Restore younger is younger") {
		t.Errorf("%+v", c)
	}
	s.Confirm(r)
	if r := s.Undo(); meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionConfirmed) {
		t.Errorf("it is confirmed: %s", r.Status.Activity)
	}
}

// The Backup waits for its Restore, which has to say that it does not begin.
func TestARestoreWhoseBackupHasGoneSaysSo(t *testing.T) {
	for name, tc := range map[string]struct {
		backup *v1alpha1.Backup
		says   string
	}{
		"gone": {nil, "there is no Backup first in the namespace"},
		"going": {fakeapi.Backup(func(b *v1alpha1.Backup) {
			b.Finalizers = []string{v1alpha1.Finalizer}
			b.Status.Directory = "orders-1"
			b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: planner.ReasonComplete}}
		}), "Backup first is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, controllersim.Persistent())
			s.UntilReady()
			undo := fakeapi.Restore(func(r *v1alpha1.Restore) { r.Spec.From = v1alpha1.RestoreSource{Backup: ptr.To("first")} })
			objects := []client.Object{undo}
			if tc.backup != nil {
				objects = append(objects, tc.backup)
			}
			for _, o := range objects {
				status, ok := o.DeepCopyObject().(client.Object)
				if !ok {
					t.Fatal("it is no object")
				}
				if err := s.Others.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				status.SetResourceVersion(o.GetResourceVersion())
				if err := s.Others.Status().Update(t.Context(), status); err != nil {
					t.Fatal(err)
				}
			}
			if tc.backup != nil {
				if err := s.Others.Delete(t.Context(), tc.backup); err != nil {
					t.Fatal(err)
				}
			}
			r := s.Undo()
			c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionStalled)
			if c == nil || c.Status != metav1.ConditionTrue || c.Reason != planner.ReasonRestoreRefused || !strings.Contains(c.Message, tc.says) {
				t.Errorf("%+v", c)
			}
			s.Confirm(r)
			if r := s.Undo(); meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionConfirmed) {
				t.Errorf("it is confirmed: %s", r.Status.Activity)
			}
		})
	}
}

// An older Restore that is confirmed meanwhile waits until the younger one is known to be complete.
func TestARestoreThatWasCarriedOutSaysSoBeforeAnotherOneBegins(t *testing.T) {
	o, older, younger := fakeapi.EtcdCluster(), fakeapi.ApprovedRestore("a", "uid-a"), fakeapi.ApprovedRestore("b", "uid-b")
	k := New(ownedtest.New(fakeapi.New(t, o, older, younger)))
	for began, want := range map[string]bool{restoreToken(younger, o): false, "former": true} {
		a, err := k.anew(t.Context(), o, etcdmodel.Record{ClusterID: 7, Restore: &etcdmodel.Restore{Token: began}})
		if err != nil || (a != nil) != want || (want && a.Restore.Token != restoreToken(older, o)) {
			t.Errorf("after %s: %+v, %v", began, a, err)
		}
	}
}

func TestOnlyAConfirmedRestoreIsCarriedOut(t *testing.T) {
	yes := func(r *v1alpha1.Restore) {
		r.Status.Plan, r.Status.Scope = "abc123", "u-1"
		r.Annotations = map[string]string{v1alpha1.AnnotationConfirm: "abc123"}
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfirmed, Status: metav1.ConditionTrue, Reason: "Confirmed"}}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Restore)
		want   bool
	}{
		"confirmed":                             {yes, true},
		"never confirmed":                       {func(r *v1alpha1.Restore) { yes(r); r.Annotations = nil }, false},
		"another plan":                          {func(r *v1alpha1.Restore) { yes(r); r.Status.Plan = "fedcba" }, false},
		"no plan":                               {func(r *v1alpha1.Restore) { yes(r); r.Status.Plan, r.Annotations[v1alpha1.AnnotationConfirm] = "", "" }, false},
		"its own controller has not agreed":     {func(r *v1alpha1.Restore) { yes(r); r.Status.Conditions = nil }, false},
		"not found":                             {func(r *v1alpha1.Restore) { yes(r); r.Status.Found = nil }, false},
		"of a former cluster of the name":       {func(r *v1alpha1.Restore) { yes(r); r.Status.Scope = "u-0" }, false},
		"of another cluster":                    {func(r *v1alpha1.Restore) { yes(r); r.Spec.Cluster.Name = "carts" }, false},
		"of another kind":                       {func(r *v1alpha1.Restore) { yes(r); r.Spec.Cluster.Kind = v1alpha1.KindRedisCluster }, false},
		"of another namespace":                  {func(r *v1alpha1.Restore) { yes(r); r.Namespace = "other" }, false},
		"a Backup that is not there (any more)": {func(r *v1alpha1.Restore) { yes(r); r.Spec.From = v1alpha1.RestoreSource{Backup: ptr.To("gone")} }, false},
		"complete": {func(r *v1alpha1.Restore) {
			yes(r)
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "Restored"})
		}, false},
		"being deleted": {func(r *v1alpha1.Restore) {
			yes(r)
			r.DeletionTimestamp, r.Finalizers = &metav1.Time{Time: fakeapi.Now}, []string{"somebody.else/holds"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := fakeapi.EtcdCluster()
			a, err := New(ownedtest.New(fakeapi.New(t, o, fakeapi.Restore(tc.change)))).anew(t.Context(), o, etcdmodel.Record{})
			if err != nil || (a != nil) != tc.want {
				t.Fatalf("%+v, %v", a, err)
			}
			if a != nil && (a.Plan != "abc123" || a.Restore.Destination.URL != "s3://bucket/orders" || a.Restore.Directory != "orders-1" || a.Restore.AtLeast != 41 || a.Restore.Token != "undo-uid-u-1") {
				t.Errorf("%+v", a)
			}
		})
	}
}

// A claim of one node would leave the members on others waiting, when none runs any more.
func TestABackupThatNotAllMembersCanReadIsRefused(t *testing.T) {
	claim := func(mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "backups"},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}},
		}
	}
	for name, tc := range map[string]struct {
		mode    corev1.PersistentVolumeAccessMode
		url     string
		members int
		want    bool
	}{
		"one node, three members": {corev1.ReadWriteOnce, "pvc://backups/orders", 3, true},
		"one node, one member":    {corev1.ReadWriteOnce, "pvc://backups/orders", 1, false},
		"all nodes":               {corev1.ReadWriteMany, "pvc://backups/orders", 3, false},
		"a bucket":                {corev1.ReadWriteOnce, "s3://bucket/orders", 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := fakeapi.New(t, claim(tc.mode))
			children := ownedtest.New(w)
			children.Direct = w.Client
			r := fakeapi.Restore(func(r *v1alpha1.Restore) { r.Spec.From.Destination.URL = tc.url })
			why, err := New(children).unmountable(t.Context(), r, tc.members)
			if err != nil || (why != "") != tc.want || (tc.want && !strings.Contains(why, "set spec.size of the cluster to 1")) {
				t.Errorf("%q, %v", why, err)
			}
		})
	}
}

func TestABackupOnADiskOfAnotherNodeIsRefused(t *testing.T) {
	on := func(claim string, hosts ...string) []client.Object {
		c := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: claim},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + claim, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		}
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + claim}}
		if len(hosts) > 0 {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: hosts}},
			}}}}
		}
		return []client.Object{c, v}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"both on disks of one node":           {slices.Concat(on("backups", "a"), on("data-orders-0", "a")), ""},
		"on disks of two nodes":               {slices.Concat(on("backups", "b"), on("data-orders-0", "a")), "claim backups, a disk of node b, and claim data-orders-0 is one of node a"},
		"the backup can be had anywhere":      {slices.Concat(on("backups"), on("data-orders-0", "a")), ""},
		"the data can be had anywhere":        {slices.Concat(on("backups", "b"), on("data-orders-0")), ""},
		"there are nodes that have both":      {slices.Concat(on("backups", "b", "c"), on("data-orders-0", "a", "c")), ""},
		"there is no claim of data":           {on("backups", "b"), ""},
		"the volume of the data is not known": {append(on("data-orders-0", "a")[:1], on("backups", "b")...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := fakeapi.New(t, tc.objects...)
			children := ownedtest.New(w)
			children.Direct = w.Client
			r := fakeapi.Restore(func(r *v1alpha1.Restore) { r.Spec.From.Destination.URL = "pvc://backups/orders" })
			why, err := New(children).unmountable(t.Context(), r, 1)
			if err != nil || (tc.want == "") != (why == "") || !strings.Contains(why, tc.want) {
				t.Errorf("%q, %v", why, err)
			}
		})
	}
}

// What the cache has may be of yesterday: a confirmation that was taken back meanwhile counts, and there is no way back afterwards.
func TestWhatWasConfirmedIsLookedAtPastTheCacheBeforeItBegins(t *testing.T) {
	yes := func(r *v1alpha1.Restore) {
		r.Status.Plan, r.Status.Scope = "abc123", "u-1"
		r.Annotations = map[string]string{v1alpha1.AnnotationConfirm: "abc123"}
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfirmed, Status: metav1.ConditionTrue, Reason: "Confirmed"}}
	}
	servers := fakeapi.RedisCluster()
	ofServers := func(r *v1alpha1.Restore) {
		yes(r)
		r.Spec.Cluster = v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: servers.Name}
	}
	begin := map[string]struct {
		object client.Object
		of     func(*v1alpha1.Restore)
		begin  func(c *owned.Client) error
	}{
		"etcd": {fakeapi.EtcdCluster(), yes, func(c *owned.Client) error {
			anew := &etcdmodel.Restore{Directory: "orders-1", Token: "undo-uid-u-1"}
			return New(c).Act(t.Context(), fakeapi.EtcdCluster(), etcdsteps.SetRecovery{To: etcdmodel.Recovery{Incident: "abc123-1", Phase: etcdmodel.RecoveryHeld, Restore: anew}})
		}},
		"redis": {servers, ofServers, func(c *owned.Client) error {
			return rediscluster.New(c).Act(t.Context(), servers, redissteps.RecordBackup{Record: redismodel.RestoreRecord{Directory: "carts-1", Token: "undo-uid"}})
		}},
	}
	for name, tc := range begin {
		for state, live := range map[string]func(*v1alpha1.Restore){
			"still confirmed": tc.of, "taken back": func(r *v1alpha1.Restore) { tc.of(r); r.Annotations = nil },
			"of another cluster of the name": func(r *v1alpha1.Restore) { tc.of(r); r.Status.Scope = "u-0" },
		} {
			t.Run(name+" "+state, func(t *testing.T) {
				children := ownedtest.New(fakeapi.New(t, tc.object.DeepCopyObject().(client.Object), fakeapi.Restore(tc.of))) //nolint:forcetypeassert // A copy.
				children.Direct = fakeapi.New(t, tc.object.DeepCopyObject().(client.Object), fakeapi.Restore(live))           //nolint:forcetypeassert // A copy.
				err := tc.begin(children)
				var hold cluster.Hold
				if held := errors.As(err, &hold) && strings.Contains(hold.Message, "what was confirmed"); held == (state == "still confirmed") {
					t.Errorf("it is held: %t, %v", held, err)
				}
			})
		}
	}
}
