package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/harness"
)

// startLoad starts a writer with the official client inside the cluster.
func startLoad[O target](ctx context.Context, t *testing.T, s *scope, o O) *harness.Load {
	t.Helper()
	options := harness.LoadOptions{Image: loadImage, Namespace: s.ns, Mode: "redis", Cluster: o.GetName()}
	if c, ok := any(o).(*v1alpha1.EtcdCluster); ok {
		options.Mode, options.Endpoints = "etcd", endpoints(c)
	}
	if c, ok := any(o).(*v1alpha1.RedisCluster); ok && c.Spec.IsReplicated() {
		options.Mode = "redis-replicated"
	}
	l, err := s.StartLoad(ctx, options)
	must(t, err)
	return l
}

// underLoad breaks something while a writer runs, waits until the cluster is Ready and writes go on, and returns what the
// writer went through and what of its acknowledged writes is there.
func underLoad[O target](ctx context.Context, t *testing.T, s *scope, o O, what string, fault func()) ledger.Summary {
	t.Helper()
	l := startLoad(ctx, t, s, o)
	began := time.Now()
	fault()
	waitReady(ctx, t, s, o)
	recovered := time.Since(began)
	_, err := l.WaitAcked(ctx, 50, time.Minute)
	must(t, err)
	return stopLoad(ctx, t, l, "%s: Ready again after %.1f s; ", what, recovered.Seconds())
}

// stopLoad ends a load, prints its figures, and fails when a promise of the data store itself was broken.
func stopLoad(ctx context.Context, t *testing.T, l *harness.Load, format string, args ...any) ledger.Summary {
	t.Helper()
	summary, err := l.Stop(ctx)
	must(t, err)
	figure(t, format+"%s", append(args, summary)...)
	switch {
	case !summary.Checked:
		t.Errorf("the load did not check: %+v", summary)
	case summary.OutOfOrder > 0 || summary.Stale > 0:
		t.Errorf("revisions went back: %+v", summary)
	case len(summary.ClusterIDs) > 1:
		t.Errorf("writes went to several etcd clusters: %v", summary.ClusterIDs)
	}
	return summary
}

// nothingLost fails when an acknowledged write is gone.
func nothingLost(t *testing.T, summary ledger.Summary) {
	t.Helper()
	if summary.Lost > 0 {
		t.Errorf("%d acknowledged writes are lost, the first ones: %v", summary.Lost, summary.LostKeys)
	}
}

// maxUnknown is how many writes may get no answer in a planned operation, of which an upgrade hands leadership over several times.
// raft drops the proposals that reach a leader while it does so (ErrProposalDropped in go.etcd.io/raft), and the member that
// forwarded them waits in vain. On two busy cores up to three were seen, of a hundred writes a second.
const maxUnknown = 20

// noErrors fails when a client was told that a write failed, or when more got no answer than hand-overs of leadership explain.
func noErrors(t *testing.T, summary ledger.Summary) {
	t.Helper()
	if summary.Failed > 0 || summary.Unknown > maxUnknown {
		t.Errorf("%d writes failed and %d had an unknown outcome, because of: %s", summary.Failed, summary.Unknown, summary.Misses)
	}
}
