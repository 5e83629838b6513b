package fakeapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// Backup returns a Backup of EtcdCluster orders, changed by the function if it is not nil.
func Backup(change func(*v1alpha1.Backup)) *v1alpha1.Backup {
	b := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "first", UID: "1b9d6bcd-0000", Generation: 1, CreationTimestamp: metav1.NewTime(Now)},
		Spec: v1alpha1.BackupSpec{
			Cluster:     v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"},
			Destination: v1alpha1.BackupDestination{URL: "s3://bucket/orders"}, DeletionPolicy: ptr.To(v1alpha1.DeletionDelete),
		},
	}
	if change != nil {
		change(b)
	}
	return b
}

// What Jobs report of a backup.
var (
	WasTaken = job.Report{Backup: &job.Stored{
		Directory: "orders-20260501T000000Z-1b9d6bcd", Kind: "EtcdCluster", Engine: "etcd", Version: "3.6.16", Size: 4 << 20, StoredSize: 1 << 20, Revision: 7,
		Memory:  12 << 20,
		Started: Now, Finished: Now.Add(time.Second),
	}}
	WasChecked = job.Report{Backup: WasTaken.Backup, Checked: &job.Checked{Time: Now.Add(time.Minute), Took: 3 * time.Second, Keys: 9, Revision: 7, Server: "etcd 3.6.16"}}
	WasRemoved = job.Report{Backup: &job.Stored{Directory: "orders-20260501T000000Z-1b9d6bcd"}}
	HasFailed  = job.Report{Problem: &job.Problem{Reason: "NotAllowed", Message: "the store says no", Final: true}}
)

// Schedule returns a BackupSchedule of EtcdCluster orders, changed by the function if it is not nil.
func Schedule(change func(*v1alpha1.BackupSchedule)) *v1alpha1.BackupSchedule {
	o := &v1alpha1.BackupSchedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hourly", UID: "s-1", Generation: 1, CreationTimestamp: metav1.NewTime(Now)},
		Spec: v1alpha1.BackupScheduleSpec{
			Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}, Schedule: "@hourly",
			Destination: v1alpha1.BackupDestination{URL: "s3://bucket/orders"},
		},
	}
	if change != nil {
		change(o)
	}
	return o
}

// ScheduleThatSays is a schedule of a cluster with a word on its backups; an empty status: it has none yet.
func ScheduleThatSays(name string, of v1alpha1.ClusterReference, status metav1.ConditionStatus, message string) *v1alpha1.BackupSchedule {
	return Schedule(func(o *v1alpha1.BackupSchedule) {
		o.Name, o.Spec.Cluster = name, of
		if status != "" {
			o.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionBackupHealthy, Status: status, Reason: "Word", Message: message, LastTransitionTime: metav1.NewTime(Now)}}
		}
	})
}

// Now is the time that every operator on a stage has.
var Now = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// NameOf is the name in an apply configuration.
func NameOf(ac runtime.ApplyConfiguration) string {
	if n, ok := ac.(interface{ GetName() *string }); ok {
		return ptr.Deref(n.GetName(), "")
	}
	return fmt.Sprintf("%T", ac)
}

// Indexer makes indexes of a fake API server.
type Indexer struct{ *fake.ClientBuilder }

// IndexField adds an index to the API server.
func (i Indexer) IndexField(_ context.Context, o client.Object, field string, of client.IndexerFunc) error {
	i.WithIndex(o, field, of)
	return nil
}

// Fetch reads the EtcdCluster orders.
func Fetch(t *testing.T, c client.Client) *v1alpha1.EtcdCluster {
	t.Helper()
	o := &v1alpha1.EtcdCluster{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "orders"}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// RedisCluster returns the cluster carts: three shards with a replica each, and volumes.
func RedisCluster() *v1alpha1.RedisCluster {
	replicas := int32(1)
	return &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts", UID: "u-1", Generation: 1},
		Spec: v1alpha1.RedisClusterSpec{
			Version: "8.0.2", Shards: 3, ReplicasPerShard: &replicas, Storage: &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
		},
	}
}

// Restore is a Restore of the cluster orders whose backup was found.
func Restore(change func(*v1alpha1.Restore)) *v1alpha1.Restore {
	r := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "undo", UID: "undo-uid", CreationTimestamp: metav1.NewTime(Now)},
		Spec: v1alpha1.RestoreSpec{
			Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"},
			From:    v1alpha1.RestoreSource{Destination: &v1alpha1.BackupDestination{URL: "s3://bucket/orders"}},
		},
		Status: v1alpha1.RestoreStatus{Found: &v1alpha1.RestoreFound{
			Directory: "orders-1", Engine: "etcd 3.6.16", Time: metav1.NewTime(Now), Size: 1 << 20, Revision: 41,
		}},
	}
	if change != nil {
		change(r)
	}
	return r
}

// ApprovedRestore is one that was confirmed.
func ApprovedRestore(name string, uid types.UID) *v1alpha1.Restore {
	return Restore(func(r *v1alpha1.Restore) {
		r.Name, r.UID, r.Status.Plan, r.Status.Scope = name, uid, "abc123", "u-1"
		r.Annotations = map[string]string{v1alpha1.AnnotationConfirm: "abc123"}
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfirmed, Status: metav1.ConditionTrue, Reason: "Confirmed"}}
	})
}

// NewCA returns an authority that is valid from a time on.
func NewCA(t *testing.T, at time.Time) clustertls.Pair {
	t.Helper()
	ca, err := clustertls.NewCA("a user's authority", at)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// Foreign adds a key to a Secret as somebody else.
func Foreign(t *testing.T, w *API, name, key string) {
	t.Helper()
	theirs := corev1ac.Secret(name, "default").WithData(map[string][]byte{key: []byte("theirs")})
	if err := w.Apply(t.Context(), theirs, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
}

// ErrCrash is what calls of an operator return that has crashed.
var ErrCrash = errors.New("the operator crashed")

// KindOf is the kind of an object, a list or an apply configuration, without its package: "Pod".
func KindOf(o any) string {
	if u, ok := o.(runtime.Object); ok && u.GetObjectKind().GroupVersionKind().Kind != "" {
		return strings.TrimSuffix(u.GetObjectKind().GroupVersionKind().Kind, "List")
	}
	text := fmt.Sprintf("%T", o)
	text = text[strings.LastIndex(text, ".")+1:]
	return strings.TrimSuffix(strings.TrimSuffix(text, "ApplyConfiguration"), "List")
}

// Must fails the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
