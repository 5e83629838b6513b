package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/harness"
)

// wholeAgain is how long the cluster may take from the evidence that a member is lost until it has all its members again.
const wholeAgain = time.Minute

// TestALostDiskIsReplaced takes the volumes of a cluster away, one after another, while a writer runs.
func TestALostDiskIsReplaced(t *testing.T) { losesDisks(t, 0) }

func TestTheLostDiskOfAnyMemberIsReplaced(t *testing.T) { losesDisks(t, 1, 2) }

func losesDisks(t *testing.T, ordinals ...int) {
	t.Helper()
	var c *v1alpha1.EtcdCluster
	feature := features.New("the claim of a member is deleted along with its pod").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
		}))
	for _, i := range ordinals {
		feature.Assess(fmt.Sprintf("of ordinal %d", i), step(func(ctx context.Context, t *testing.T, s *scope) { loseMember(ctx, t, s, c, i) }))
	}
	suite.Test(t, feature.Feature())
}

// loseMember takes the disk of a member away and sees it replaced: by no second cluster, with all data, without a lost write.
func loseMember(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, lost int) {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	load := startLoad(ctx, t, s, c)
	was := memberID(refresh(ctx, t, s, c), lost)
	watch, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- neverTwo(watch, s, c.DeepCopy(), lost, conn) }()
	loseDisk(ctx, t, s, cluster.Pod(c.Name, lost))
	began := time.Now()
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "another member", Within: 2 * time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
		return memberID(c, lost) != was, c.Status.Activity
	}))
	waitReady(ctx, t, s, c)
	whole := time.Since(began)
	stop()
	must(t, <-watched)
	_, err = load.WaitAcked(ctx, 50, time.Minute)
	must(t, err)
	nothingLost(t, stopLoad(ctx, t, load, "disk of member %d lost: whole again after %.1f s; ", lost, whole.Seconds()))
	checkMarks(ctx, t, s, c)
	if whole > wholeAgain {
		t.Errorf("it took %s to replace the member", whole.Round(time.Second))
	}
}

func memberID(c *v1alpha1.EtcdCluster, ordinal int) string {
	for _, m := range c.Status.Members {
		if m.Name == cluster.Pod(c.Name, ordinal) {
			return m.ID
		}
	}
	return ""
}

// neverTwo looks at all members until the context ends.
func neverTwo(ctx context.Context, s *scope, c *v1alpha1.EtcdCluster, lost int, conn connection.Connection) error {
	for ctx.Err() == nil {
		if err := oneCluster(ctx, s, c, lost, conn); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// loseDisk deletes a member's claim along with its pod and waits until another claim has taken its place.
func loseDisk(ctx context.Context, t *testing.T, s *scope, pod string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: cluster.VolumeData + "-" + pod}}
	refresh(ctx, t, s, claim)
	old := claim.UID
	must(t, s.Delete(ctx, claim))
	must(t, s.Delete(ctx, s.pod(ctx, t, pod)))
	must(t, harness.Until(ctx, s.Cluster, claim, harness.Deadline{What: "another claim", Within: time.Minute}, func(p *corev1.PersistentVolumeClaim) (bool, string) {
		return p.UID != old, "the old claim is still there"
	}))
}

// oneCluster fails when a member reports another cluster id than the recorded one, or when one that was left alone serves without
// the data.
func oneCluster(ctx context.Context, s *scope, c *v1alpha1.EtcdCluster, lost int, conn connection.Connection) error {
	want, err := strconv.ParseUint(c.Status.ClusterID, 16, 64)
	if err != nil {
		return fmt.Errorf("cluster id of the status: %w", err)
	}
	for i := range 3 {
		id, keys, err := lookAt(ctx, s, cluster.Pod(c.Name, i), conn)
		switch {
		case err != nil:
			continue // The lost one does not answer, and the others look for a leader when it was theirs; the load counts that.
		case id != want:
			return fmt.Errorf("member %d reports cluster %x instead of %x", i, id, want)
		case keys != marks && i != lost:
			return fmt.Errorf("member %d serves %d of %d keys", i, keys, marks)
		}
	}
	return nil
}

// lookAt asks one member for its cluster id and, without consulting the others, how many of the marks it has.
func lookAt(ctx context.Context, s *scope, pod string, conn connection.Connection) (id uint64, keys int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := s.Etcd(ctx, s.ns, pod, conn)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = client.Close() }()
	r, err := client.Get(ctx, "mark-", serializableCount()...)
	if err != nil {
		return 0, 0, err
	}
	return r.Header.ClusterId, r.Count, nil
}
