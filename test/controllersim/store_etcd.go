package controllersim

import (
	"context"

	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

// MemberClient talks to a simulated member about its cluster and its users.
type MemberClient interface {
	model.Client
	users.Client
}

// etcdClient finds the process of its pod at each call.
type etcdClient struct {
	users.Client
	s        *Etcd
	op       *operator
	pod      string
	tls      bool
	root     bool
	password string
	former   string
	signs    bool
}

func (l *etcdClient) c() *etcdfake.Client {
	return &etcdfake.Client{
		Network: l.s.Net, Process: l.s.Procs[l.pod], TLS: l.tls, Root: l.root, Password: l.password, Former: l.former, Signs: l.signs,
		Crash: func() bool { return l.op.within("part of EnableAuth", l.pod) },
	}
}

// asked is what a call returned that changes nothing.
func asked[T any](ctx context.Context, l *etcdClient, what string, ask func(*etcdfake.Client, context.Context) (T, error)) (out T, err error) {
	err = l.op.ask(ctx, what, l.pod, func(ctx context.Context) (err error) {
		out, err = ask(l.c(), ctx)
		return err
	})
	return out, err
}

func (l *etcdClient) tell(ctx context.Context, what string, tell func(c *etcdfake.Client) error) error {
	return l.op.tell(ctx, what, l.pod, func(context.Context) error { return tell(l.c()) })
}

func (l *etcdClient) Status(ctx context.Context) (model.Status, error) {
	return asked(ctx, l, "Status", (*etcdfake.Client).Status)
}

func (l *etcdClient) Members(ctx context.Context) ([]model.Member, error) {
	return asked(ctx, l, "Members", (*etcdfake.Client).Members)
}

func (l *etcdClient) ClusterVersion(ctx context.Context) (model.Version, error) {
	return asked(ctx, l, "ClusterVersion", (*etcdfake.Client).ClusterVersion)
}

func (l *etcdClient) Compacted(ctx context.Context) (bool, error) {
	return asked(ctx, l, "Compacted", (*etcdfake.Client).Compacted)
}

func (l *etcdClient) Largest(ctx context.Context) ([]model.KeyGroup, error) {
	return asked(ctx, l, "Largest", (*etcdfake.Client).Largest)
}

func (l *etcdClient) Auth(ctx context.Context, p string) (model.Auth, error) {
	return asked(ctx, l, "Auth", func(c *etcdfake.Client, ctx context.Context) (model.Auth, error) { return c.Auth(ctx, p) })
}

func (l *etcdClient) HashKV(ctx context.Context, revision int64) (model.Hash, error) {
	return asked(ctx, l, "HashKV", func(c *etcdfake.Client, ctx context.Context) (model.Hash, error) { return c.HashKV(ctx, revision) })
}

func (l *etcdClient) Vitals(ctx context.Context) (model.MemberMetrics, error) {
	return asked(ctx, l, "Vitals", func(c *etcdfake.Client, ctx context.Context) (model.MemberMetrics, error) {
		l.s.Vitals.Add(1)
		if l.s.Silent {
			return model.MemberMetrics{}, etcdfake.ErrNoAnswer
		}
		return c.Vitals(ctx)
	})
}

func (l *etcdClient) EnableAuth(ctx context.Context, p string) error {
	return l.tell(ctx, "EnableAuth", func(c *etcdfake.Client) error { return c.EnableAuth(ctx, p) })
}

func (l *etcdClient) SetRootPassword(ctx context.Context, p string) error {
	return l.tell(ctx, "SetRootPassword", func(c *etcdfake.Client) error { return c.SetRootPassword(ctx, p) })
}

func (l *etcdClient) MoveLeader(ctx context.Context, to uint64) error {
	return l.tell(ctx, "MoveLeader", func(c *etcdfake.Client) error { return c.MoveLeader(ctx, to) })
}

func (l *etcdClient) AddLearner(ctx context.Context, url string) error {
	return l.tell(ctx, "AddLearner", func(c *etcdfake.Client) error { return c.AddLearner(ctx, url) })
}

func (l *etcdClient) Promote(ctx context.Context, id uint64) error {
	return l.tell(ctx, "Promote", func(c *etcdfake.Client) error { return c.Promote(ctx, id) })
}

func (l *etcdClient) UpdatePeer(ctx context.Context, id uint64, url string) error {
	return l.tell(ctx, "UpdatePeer", func(c *etcdfake.Client) error { return c.UpdatePeer(ctx, id, url) })
}

func (l *etcdClient) RemoveMember(ctx context.Context, id uint64) error {
	return l.tell(ctx, "RemoveMember", func(c *etcdfake.Client) error { return c.RemoveMember(ctx, id) })
}

func (l *etcdClient) Downgrade(ctx context.Context, v model.Version) error {
	return l.tell(ctx, "Downgrade", func(c *etcdfake.Client) error { return c.Downgrade(ctx, v) })
}

func (l *etcdClient) CancelDowngrade(ctx context.Context) error {
	return l.tell(ctx, "CancelDowngrade", func(c *etcdfake.Client) error { return c.CancelDowngrade(ctx) })
}

func (l *etcdClient) Defragment(ctx context.Context) error {
	return l.tell(ctx, "Defragment", func(c *etcdfake.Client) error { return c.Defragment(ctx) })
}

func (l *etcdClient) Compact(ctx context.Context, revision int64) error {
	return l.tell(ctx, "Compact", func(c *etcdfake.Client) error { return c.Compact(ctx, revision) })
}

func (l *etcdClient) Disarm(ctx context.Context, a model.Alarm) error {
	return l.tell(ctx, "Disarm", func(c *etcdfake.Client) error { return c.Disarm(ctx, a) })
}

func (l *etcdClient) Close() error { return nil }
