package etcdcluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/backup"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// stored is a Backup that is complete.
func stored(change func(*v1alpha1.Backup)) *v1alpha1.Backup {
	return fakeapi.Backup(func(b *v1alpha1.Backup) {
		b.Status.Directory = backup.Directory(b)
		b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "BackupComplete"}}
		if change != nil {
			change(b)
		}
	})
}

func beginningWith(from v1alpha1.RestoreSource) *v1alpha1.EtcdCluster {
	o := fakeapi.EtcdCluster()
	o.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &from}
	return o
}

func wish(t *testing.T, o *v1alpha1.EtcdCluster, objects ...client.Object) *model.RestoreWish {
	t.Helper()
	w, err := restore.Request(t.Context(), ownedtest.New(fakeapi.New(t, append(objects, o)...)), o, etcdBootstrap(o))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTheWishOfARestore(t *testing.T) {
	first := v1alpha1.RestoreSource{Backup: ptr.To("first")}
	leaving := func(policy v1alpha1.DeletionPolicy) *v1alpha1.Backup {
		return stored(func(b *v1alpha1.Backup) {
			b.DeletionTimestamp, b.Finalizers, b.Spec.DeletionPolicy = &metav1.Time{Time: fakeapi.Now}, []string{"somebody.else/holds"}, &policy
		})
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		missing string // empty: it is known where the backup is
	}{
		"complete":                     {[]client.Object{stored(nil)}, ""},
		"not there":                    {nil, "there is no Backup first in the namespace"},
		"of another namespace":         {[]client.Object{stored(func(b *v1alpha1.Backup) { b.Namespace = "other" })}, "there is no Backup first"},
		"not complete":                 {[]client.Object{stored(func(b *v1alpha1.Backup) { b.Status.Conditions = nil })}, "Backup first is not complete"},
		"on its way out with its data": {[]client.Object{leaving(v1alpha1.DeletionDelete)}, "is being deleted"},
		"on its way out without":       {[]client.Object{leaving(v1alpha1.DeletionRetain)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := wish(t, beginningWith(first), tc.objects...)
			if !strings.Contains(w.Missing, tc.missing) || (w.Missing == "") != (tc.missing == "") {
				t.Errorf("missing: %q, want %q", w.Missing, tc.missing)
			}
			if tc.missing == "" && (w.Source.Backup != nil || w.Source.Destination.URL != "s3://bucket/orders" || *w.Source.Directory != "orders-20260501T000000Z-1b9d6bcd") {
				t.Errorf("%+v", w.Source)
			}
		})
	}
}

func TestWishesAreToldApart(t *testing.T) {
	at := metav1.NewTime(fakeapi.Now)
	bucket := &v1alpha1.BackupDestination{URL: "s3://bucket/orders"}
	sums := map[string]bool{}
	for _, from := range []v1alpha1.RestoreSource{
		{Destination: bucket},
		{Destination: &v1alpha1.BackupDestination{URL: "s3://bucket/other"}},
		{Destination: bucket, Directory: ptr.To("a")},
		{Destination: bucket, Revision: ptr.To(int64(7))},
		{Destination: bucket, Time: &at},
	} {
		a, b := wish(t, beginningWith(from)), wish(t, beginningWith(from))
		if a.Sum != b.Sum || a.Sum == "" || a.Token != "u-1" || a.Job != nil {
			t.Errorf("%+v, %+v", a, b)
		}
		sums[a.Sum] = true
	}
	if len(sums) != 5 {
		t.Errorf("%d of 5 are told apart", len(sums))
	}
	if w := wish(t, fakeapi.EtcdCluster()); w != nil {
		t.Errorf("nobody wishes %+v", w)
	}
	gone := beginningWith(v1alpha1.RestoreSource{Destination: bucket})
	gone.DeletionTimestamp, gone.Finalizers = &at, []string{"somebody.else/holds"}
	if w := wish(t, gone); w != nil {
		t.Errorf("one that is being deleted wishes %+v", w)
	}
}

func TestTheJobThatLooksABackupUpIsOfTheWish(t *testing.T) {
	at := metav1.NewTime(fakeapi.Now.In(time.FixedZone("", 7200)))
	o := beginningWith(v1alpha1.RestoreSource{Backup: ptr.To("first"), Time: &at})
	w := fakeapi.New(t, o, stored(nil))
	k := New(ownedtest.New(w))
	if err := k.Act(t.Context(), o, planner.FindBackup{}); err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: cluster.RestoreJob("orders")}, job); err != nil {
		t.Fatal(err)
	}
	args := job.Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{
		"backup", "find", "--kind=EtcdCluster", "--url=s3://bucket/orders", "--directory=orders-20260501T000000Z-1b9d6bcd", "--time=2026-05-01T00:00:00Z",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is missing in %v", want, args)
		}
	}
	if !metav1.IsControlledBy(job, o) {
		t.Error("it does not go with its cluster")
	}
	found, err := restore.Request(t.Context(), k.Client, o, etcdBootstrap(o))
	if err != nil || found.Job == nil || found.Job.For != found.Sum {
		t.Errorf("%+v, %v", found, err)
	}
	o.Spec.Bootstrap.Restore.Time = nil
	if later, err := restore.Request(t.Context(), k.Client, o, etcdBootstrap(o)); err != nil || later.Job.For == later.Sum {
		t.Errorf("another wish takes the answer of the former one: %+v, %v", later, err)
	}
	o.Spec.Bootstrap.Restore = &v1alpha1.RestoreSource{Backup: ptr.To("second")}
	if err := k.Act(t.Context(), o, planner.FindBackup{}); err == nil {
		t.Error("a Job is made for what is not there")
	}
}

func TestAClusterThatHasNotBeenFoundedIsNoSource(t *testing.T) {
	k := New(ownedtest.New(fakeapi.New(t, fakeapi.EtcdCluster())))
	source, access, err := k.Source(t.Context(), "default", "orders")
	if err != nil || source == nil || access == nil || source.Missing == "" || source.Noun != "EtcdCluster orders" {
		t.Errorf("%+v, %+v, %v", source, access, err)
	}
	if source, access, err := k.Source(t.Context(), "default", "carts"); source != nil || access != nil || err != nil {
		t.Errorf("%+v, %+v, %v", source, access, err)
	}
}

func TestAFoundedClusterIsASource(t *testing.T) {
	s := newStage(t, controllersim.Persistent())
	s.UntilReady()
	k := New(ownedtest.New(&fakeapi.API{Client: s.API}))
	cm := &corev1.ConfigMap{}
	name := types.NamespacedName{Namespace: "default", Name: cluster.ConfigName("orders")}
	if err := s.API.Get(t.Context(), name, cm); err != nil {
		t.Fatal(err)
	}
	cm.UID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
	if err := s.API.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	source, access, err := k.Source(t.Context(), "default", "orders")
	if err != nil || source.Missing != "" || source.Leaving {
		t.Fatalf("%+v, %v", source, err)
	}
	all, stream := strings.Join(access.Args, " "), strings.Join(access.Stream, " ")
	if !strings.Contains(all, "--version=3.6.16") || !strings.Contains(all, "--timeline=") || strings.Contains(stream, "--version") || !strings.Contains(stream, "--timeline=") {
		t.Errorf("%s; %s", all, stream)
	}
	if !strings.Contains(stream, "--timeline="+cm.Data[model.KeyClusterID]+"-1b9d6bcd ") {
		t.Errorf("a record that is written anew is no timeline of its own: %s", stream)
	}
	if !strings.Contains(stream, "--timeline="+source.History+" ") {
		t.Errorf("the history of the source is %q, and that of its backups another: %s", source.History, stream)
	}
	if access.TLSSecret != cluster.OperatorTLSSecret("orders") || access.AuthSecret != "" || len(access.AuthKeys) > 0 {
		t.Errorf("its certificate is that of root, so it needs no password: %+v", access)
	}
}
