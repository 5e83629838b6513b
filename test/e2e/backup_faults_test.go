package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/test/harness"
)

// TestABackupThatCannotBeSaysWhy gives backups and restores what they cannot work with: each names the cause and the cure, and loses nothing.
func TestABackupThatCannotBeSaysWhy(t *testing.T) {
	var (
		c      *v1alpha1.EtcdCluster
		server *harness.S3
		good   *v1alpha1.Backup
	)
	feature := features.New("bad days").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			server = startS3(ctx, t, s)
			c = s.etcdOf(t, "orders", 1)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
			s.create(ctx, t, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "wrong"},
				StringData: map[string]string{"AWS_ACCESS_KEY_ID": "quorate-tests", "AWS_SECRET_ACCESS_KEY": "something-else"},
			})
		})).
		Assess("it is told at once what nobody can work with", step(func(ctx context.Context, t *testing.T, s *scope) {
			elsewhere := server.Destination("bad")
			for name, tc := range map[string]struct {
				change func(*v1alpha1.BackupDestination)
				words  string
			}{
				"credentials": {func(d *v1alpha1.BackupDestination) { d.Credentials = &v1alpha1.SecretReference{Name: "wrong"} }, "CredentialsRejected"},
				"secret":      {func(d *v1alpha1.BackupDestination) { d.Credentials = &v1alpha1.SecretReference{Name: "lost"} }, "spec.destination.credentials.name"},
				"claim":       {func(d *v1alpha1.BackupDestination) { *d = v1alpha1.BackupDestination{URL: "pvc://lost/here"} }, "spec.destination.url"},
				"bucket": {func(d *v1alpha1.BackupDestination) {
					d.URL = strings.Replace(d.URL, harness.S3Bucket, "nobodys-bucket", 1)
				}, "DestinationMissing"},
				"key": {func(d *v1alpha1.BackupDestination) { d.Encryption = &v1alpha1.SecretReference{Name: "wrong"} }, "identity"},
			} {
				to := elsewhere
				tc.change(&to)
				b := backupOf(s, "bad-"+name, v1alpha1.KindEtcdCluster, c.Name, to)
				s.create(ctx, t, b)
				must(t, harness.Until(ctx, s.Cluster, b, harness.Deadline{What: "backup " + b.Name + " to say why", Within: time.Minute}, func(b *v1alpha1.Backup) (bool, string) {
					text := conditionText(b, v1alpha1.ConditionStalled)
					return meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionStalled) && strings.Contains(text, tc.words), text
				}))
				figure(t, "%s: %s", name, conditionText(b, v1alpha1.ConditionStalled))
			}
			stored, err := server.Objects(ctx, "bad")
			must(t, err)
			if len(stored) > 0 {
				t.Errorf("something is stored: %v", slices.Sorted(maps.Keys(stored)))
			}
		})).
		Assess("a damaged backup is not Verified", step(func(ctx context.Context, t *testing.T, s *scope) {
			good = backupOf(s, "good", v1alpha1.KindEtcdCluster, c.Name, server.Destination("etcd"))
			takeBackup(ctx, t, s, good)
			damaged := backupOf(s, "damaged", v1alpha1.KindEtcdCluster, c.Name, server.Destination("etcd"))
			takeBackup(ctx, t, s, damaged)
			spoil(ctx, t, server, "etcd/"+damaged.Status.Directory+"/snapshot.db")
			amend(ctx, t, s, damaged, func() { damaged.Spec.Verify = ptr.To(true) })
			must(t, harness.Until(ctx, s.Cluster, damaged, harness.Deadline{What: "the check to fail", Within: time.Minute}, func(b *v1alpha1.Backup) (bool, string) {
				text := conditionText(b, v1alpha1.ConditionVerified)
				return strings.Contains(text, "BackupDamaged"), text
			}))
		})).
		Assess("a cluster does not begin with it, and begins with another one when it is told to", step(func(ctx context.Context, t *testing.T, s *scope) {
			again := s.etcdOf(t, "again", 1, func(e *v1alpha1.EtcdClusterSpec) {
				e.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To("nobodys")}}
			})
			s.create(ctx, t, again)
			must(t, harness.Until(ctx, s.Cluster, again, harness.Deadline{What: "it to be refused", Within: time.Minute}, func(e *v1alpha1.EtcdCluster) (bool, string) {
				text := conditionText(e, v1alpha1.ConditionStalled)
				return strings.Contains(text, "there is no Backup nobodys"), text
			}))
			amend(ctx, t, s, again, func() { again.Spec.Bootstrap.Restore.Backup = ptr.To(good.Name) })
			waitReady(ctx, t, s, again)
			checkMarks(ctx, t, s, again)
			occupied := s.etcdOf(t, "orders", 1, func(e *v1alpha1.EtcdClusterSpec) {
				e.Storage = volume(v1alpha1.DeletionRetain)
				e.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To(good.Name)}}
			})
			amend(ctx, t, s, c, func() { c.Spec.Storage.DeletionPolicy = ptr.To(v1alpha1.DeletionRetain) })
			waitReady(ctx, t, s, c)
			must(t, s.Delete(ctx, c))
			must(t, s.WaitGone(ctx, c, time.Minute))
			c = occupied
			s.create(ctx, t, c)
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "data that is there to be respected", Within: time.Minute}, func(e *v1alpha1.EtcdCluster) (bool, string) {
				text := conditionText(e, v1alpha1.ConditionStalled)
				return strings.Contains(text, "claim data-orders-0"), text
			}))
			amend(ctx, t, s, c, func() { c.Spec.Bootstrap = nil })
			waitReady(ctx, t, s, c)
			checkMarks(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// amend edits an object.
func amend[O client.Object](ctx context.Context, t *testing.T, s *scope, o O, edit func()) {
	t.Helper()
	before, _ := refresh(ctx, t, s, o).DeepCopyObject().(client.Object)
	edit()
	must(t, s.Patch(ctx, o, client.MergeFrom(before)))
}

// spoil changes one byte in the middle of an object.
func spoil(ctx context.Context, t *testing.T, server *harness.S3, path string) {
	t.Helper()
	content, err := server.Get(ctx, path)
	must(t, err)
	content[len(content)/2] ^= 1
	_, err = server.Client().PutObject(ctx, &s3.PutObjectInput{Bucket: ptr.To(harness.S3Bucket), Key: &path, Body: strings.NewReader(string(content))})
	must(t, err)
}

func TestBackupsSurviveFaults(t *testing.T) {
	surviveFaults(t, func(t *testing.T, s *scope) *siege[*v1alpha1.EtcdCluster] {
		t.Helper()
		return &siege[*v1alpha1.EtcdCluster]{
			cluster: s.etcdOf(t, "orders", 3), kind: v1alpha1.KindEtcdCluster, members: 3, container: etcdContainer,
		}
	})
}

// A server of Redis that is deleted hands over what it has. One that is killed may not have sent its last second of writes to its replica.
func TestBackupsOfRedisSurviveFaults(t *testing.T) {
	surviveFaults(t, func(t *testing.T, s *scope) *siege[*v1alpha1.RedisCluster] {
		t.Helper()
		return &siege[*v1alpha1.RedisCluster]{
			cluster: s.redisOf(t, "carts", 1), kind: v1alpha1.KindRedisCluster, members: 6, container: redisContainer, lossPerKill: maxRedisLoss,
		}
	})
}

// siege is a cluster of which backups are taken while things are killed.
type siege[O target] struct {
	cluster   O
	kind      v1alpha1.ClusterKind
	members   int
	container string
	// lossPerKill is how many acknowledged writes may be gone for each process that was killed.
	lossPerKill int

	server *harness.S3
	dice   *rand.Rand
	all    []*v1alpha1.Backup
	hits   map[string]int
}

// What is struck.
const (
	hitBackup        = "pod of a backup"
	hitStore         = "store"
	hitMemberDeleted = "member deleted"
	hitMemberKilled  = "member killed"
)

// surviveFaults takes twenty backups while, for a minute, their pods, the members that they are taken from and the store are killed: each
// that is Complete can be restored, and none that is not counts as one.
func surviveFaults[O target](t *testing.T, setUp func(*testing.T, *scope) *siege[O]) {
	t.Helper()
	const backups, forSo = 20, time.Minute
	var g *siege[O]
	seed := uint64(time.Now().UnixNano())
	feature := features.New("faults").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			g = setUp(t, s)
			g.server, g.dice, g.hits = startS3(ctx, t, s), rand.New(rand.NewPCG(seed, 0)), map[string]int{}
			createReady(ctx, t, s, g.cluster)
		})).
		Assess("backups are taken and things are killed", step(func(ctx context.Context, t *testing.T, s *scope) {
			t.Logf("seed %d", seed)
			l := startLoad(ctx, t, s, g.cluster)
			began := time.Now()
			for i := 0; time.Since(began) < forSo || i < backups; i++ {
				if i < backups {
					b := backupOf(s, fmt.Sprintf("b-%02d", i), g.kind, g.cluster.GetName(), g.server.Destination("faults"))
					s.create(ctx, t, b)
					g.all = append(g.all, b)
				}
				rest(ctx, time.Duration(g.dice.IntN(3000))*time.Millisecond)
				g.hits[g.strike(ctx, t, s)]++
			}
			figure(t, "%d backups in %.0f s, and meanwhile %v", len(g.all), time.Since(began).Seconds(), g.hits)
			waitReady(ctx, t, s, g.cluster)
			bounded(t, stopLoad(ctx, t, l, "twenty backups and faults; ").Lost, g.hits[hitMemberKilled]*g.lossPerKill)
		})).
		Assess("what is Complete can be restored", step(func(ctx context.Context, t *testing.T, s *scope) {
			complete := g.verify(ctx, t, s)
			figure(t, "%d are complete and verified, %d failed and say so", complete, len(g.all)-complete)
			if complete < backups/2 {
				t.Errorf("only %d of %d backups came about", complete, backups)
			}
			g.wantManifests(ctx, t, complete)
		}))
	suite.Test(t, feature.Feature())
}

// verify waits until all backups have ended, has those that are complete checked, and returns how many these are.
func (g *siege[O]) verify(ctx context.Context, t *testing.T, s *scope) int {
	t.Helper()
	var complete []*v1alpha1.Backup
	for _, b := range g.all {
		must(t, harness.Until(ctx, s.Cluster, b, harness.Deadline{What: "backup " + b.Name + " to end", Within: 5 * time.Minute}, func(b *v1alpha1.Backup) (bool, string) {
			return meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionComplete) ||
				meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionStalled), b.Status.Activity
		}))
		if !meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionComplete) {
			t.Logf("%s: %s", b.Name, b.Status.Activity)
			continue
		}
		complete = append(complete, b)
		amend(ctx, t, s, b, func() { b.Spec.Verify = ptr.To(true) })
	}
	for _, b := range complete {
		must(t, harness.Until(ctx, s.Cluster, b, harness.Deadline{What: "backup " + b.Name + " to be verified", Within: 3 * time.Minute}, func(b *v1alpha1.Backup) (bool, string) {
			return meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionVerified), conditionText(b, v1alpha1.ConditionVerified)
		}))
	}
	return len(complete)
}

// wantManifests expects that a backup has a manifest if and only if it is complete.
func (g *siege[O]) wantManifests(ctx context.Context, t *testing.T, complete int) {
	t.Helper()
	stored, err := g.server.Objects(ctx, "faults/")
	must(t, err)
	manifests := 0
	for path := range stored {
		if strings.HasSuffix(path, "/manifest.json") {
			manifests++
		}
	}
	if manifests != complete {
		t.Errorf("%d backups are complete, and there are %d manifests", complete, manifests)
	}
}

// strike deletes or kills the pod of a backup or a member, or kills the store, and returns which.
func (g *siege[O]) strike(ctx context.Context, t *testing.T, s *scope) string {
	t.Helper()
	what := []string{hitBackup, hitMemberDeleted, hitMemberKilled, hitStore}[g.dice.IntN(4)]
	victim, why := g.victim(ctx, t, s, what)
	if victim == nil {
		return why
	}
	switch {
	case what == hitMemberDeleted, what == hitBackup && g.dice.IntN(2) == 0:
		must(t, client.IgnoreNotFound(s.Delete(ctx, victim)))
	default:
		container := map[string]string{hitBackup: job.Container, hitStore: "s3", hitMemberKilled: g.container}[what]
		if err := s.KillProcess(ctx, victim, container); err != nil {
			return "nothing, the process had ended or was starting"
		}
	}
	return what
}

// victim is one of the pods that can be struck, or says why there is none.
func (g *siege[O]) victim(ctx context.Context, t *testing.T, s *scope, what string) (*corev1.Pod, string) {
	t.Helper()
	var pods corev1.PodList
	must(t, s.List(ctx, &pods, client.InNamespace(s.ns)))
	var running []corev1.Pod
	whole := 0
	for _, p := range pods.Items {
		component := p.Labels["app.kubernetes.io/component"]
		member := component == v1alpha1.ComponentEtcd || component == v1alpha1.ComponentRedis
		match := map[string]bool{
			hitBackup: component == v1alpha1.ComponentBackup, hitMemberDeleted: member, hitMemberKilled: member, hitStore: p.Name == "s3",
		}[what]
		if match && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			running = append(running, p)
		}
		if member && harness.IsReady(&p) && p.DeletionTimestamp == nil {
			whole++
		}
	}
	if len(running) == 0 {
		return nil, "nothing was there to kill"
	}
	isMember := what == hitMemberDeleted || what == hitMemberKilled
	// No data store outlives the loss of a second copy at the same time.
	if isMember && (whole < g.members || !meta.IsStatusConditionTrue(refresh(ctx, t, s, g.cluster).GetConditions(), v1alpha1.ConditionReady)) {
		return nil, "nothing, not to take the quorum or both copies away"
	}
	return &running[g.dice.IntN(len(running))], ""
}
