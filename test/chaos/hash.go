package chaos

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/chaos/report"
	"github.com/quorate/quorate/test/harness"
)

// compare asks every member of an etcd cluster for the hash of its data at one revision. The writers have ended.
func (r *runner) compare(ctx context.Context, t *target) {
	pods, err := r.Pods(ctx, r.ns, t.Name, t.component)
	if err != nil {
		r.broken("compare the members of %s: %v", t.Name, err)
		return
	}
	conn, _, err := r.Connection(ctx, r.ns, t.Name)
	if err != nil {
		r.broken("compare the members of %s: %v", t.Name, err)
		return
	}
	var revision int64
	for _, p := range pods {
		h := report.Hash{Cluster: t.Name, Member: p.Name}
		err := harness.Eventually(ctx, "the hash of "+p.Name, time.Minute, func(ctx context.Context) (bool, string, error) {
			var err error
			h.Revision, h.Sum, err = r.hashOf(ctx, p, conn, revision)
			return err == nil, "there is none", err
		})
		if err != nil {
			h.Error = err.Error()
		}
		revision = h.Revision
		r.keep(func(run *report.Run) { run.Hashes = append(run.Hashes, h) })
		r.say("hash", h, "%s has %x at revision %d %s", h.Member, h.Sum, h.Revision, h.Error)
	}
}

// hashOf asks one member, at its own revision where none is given. One that is behind refuses, and is asked again.
func (r *runner) hashOf(ctx context.Context, pod corev1.Pod, conn connection.Connection, revision int64) (int64, uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := r.Etcd(ctx, r.ns, pod.Name, conn)
	if err != nil {
		return revision, 0, err
	}
	defer func() { _ = c.Close() }()
	if revision == 0 {
		g, err := c.Get(ctx, "load", clientv3.WithCountOnly())
		if err != nil {
			return 0, 0, err
		}
		revision = g.Header.Revision
	}
	h, err := c.HashKV(ctx, c.Endpoints()[0], revision)
	if err != nil {
		return revision, 0, err
	}
	return revision, h.Hash, nil
}
