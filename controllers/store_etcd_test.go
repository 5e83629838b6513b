package controllers

import (
	"context"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

// lazyClient finds the process of its pod at each call.
type lazyClient struct {
	users.Client
	s        *stage
	op       *operator
	pod      string
	tls      bool
	root     bool
	password string
	former   string
	signs    bool
}

func (l *lazyClient) c() *etcdfake.Client {
	return &etcdfake.Client{
		Network: l.s.net, Process: l.s.procs[l.pod], TLS: l.tls, Root: l.root, Password: l.password, Former: l.former, Signs: l.signs,
		Crash: func() bool { return l.op.within("part of EnableAuth", l.pod) },
	}
}

// asked is what a call returned that changes nothing.
func asked[T any](ctx context.Context, l *lazyClient, what string, ask func(*etcdfake.Client, context.Context) (T, error)) (out T, err error) {
	err = l.op.ask(ctx, what, l.pod, func(ctx context.Context) (err error) {
		out, err = ask(l.c(), ctx)
		return err
	})
	return out, err
}

func (l *lazyClient) tell(ctx context.Context, what string, tell func(c *etcdfake.Client) error) error {
	return l.op.tell(ctx, what, l.pod, func(context.Context) error { return tell(l.c()) })
}

func (l *lazyClient) Status(ctx context.Context) (etcd.View, error) {
	return asked(ctx, l, "Status", (*etcdfake.Client).Status)
}

func (l *lazyClient) Members(ctx context.Context) ([]etcd.Member, error) {
	return asked(ctx, l, "Members", (*etcdfake.Client).Members)
}

func (l *lazyClient) ClusterVersion(ctx context.Context) (etcd.Version, error) {
	return asked(ctx, l, "ClusterVersion", (*etcdfake.Client).ClusterVersion)
}

func (l *lazyClient) Compacted(ctx context.Context) (bool, error) {
	return asked(ctx, l, "Compacted", (*etcdfake.Client).Compacted)
}

func (l *lazyClient) Largest(ctx context.Context) ([]etcd.KeyGroup, error) {
	return asked(ctx, l, "Largest", (*etcdfake.Client).Largest)
}

func (l *lazyClient) Auth(ctx context.Context, p string) (etcd.Auth, error) {
	return asked(ctx, l, "Auth", func(c *etcdfake.Client, ctx context.Context) (etcd.Auth, error) { return c.Auth(ctx, p) })
}

func (l *lazyClient) HashKV(ctx context.Context, revision int64) (etcd.Hash, error) {
	return asked(ctx, l, "HashKV", func(c *etcdfake.Client, ctx context.Context) (etcd.Hash, error) { return c.HashKV(ctx, revision) })
}

func (l *lazyClient) Vitals(ctx context.Context) (etcd.Vitals, error) {
	return asked(ctx, l, "Vitals", func(c *etcdfake.Client, ctx context.Context) (etcd.Vitals, error) {
		l.s.vitals.Add(1)
		if l.s.silent {
			return etcd.Vitals{}, etcdfake.ErrNoAnswer
		}
		return c.Vitals(ctx)
	})
}

func (l *lazyClient) EnableAuth(ctx context.Context, p string) error {
	return l.tell(ctx, "EnableAuth", func(c *etcdfake.Client) error { return c.EnableAuth(ctx, p) })
}

func (l *lazyClient) SetRootPassword(ctx context.Context, p string) error {
	return l.tell(ctx, "SetRootPassword", func(c *etcdfake.Client) error { return c.SetRootPassword(ctx, p) })
}

func (l *lazyClient) MoveLeader(ctx context.Context, to uint64) error {
	return l.tell(ctx, "MoveLeader", func(c *etcdfake.Client) error { return c.MoveLeader(ctx, to) })
}

func (l *lazyClient) AddLearner(ctx context.Context, url string) error {
	return l.tell(ctx, "AddLearner", func(c *etcdfake.Client) error { return c.AddLearner(ctx, url) })
}

func (l *lazyClient) Promote(ctx context.Context, id uint64) error {
	return l.tell(ctx, "Promote", func(c *etcdfake.Client) error { return c.Promote(ctx, id) })
}

func (l *lazyClient) UpdatePeer(ctx context.Context, id uint64, url string) error {
	return l.tell(ctx, "UpdatePeer", func(c *etcdfake.Client) error { return c.UpdatePeer(ctx, id, url) })
}

func (l *lazyClient) RemoveMember(ctx context.Context, id uint64) error {
	return l.tell(ctx, "RemoveMember", func(c *etcdfake.Client) error { return c.RemoveMember(ctx, id) })
}

func (l *lazyClient) Downgrade(ctx context.Context, v etcd.Version) error {
	return l.tell(ctx, "Downgrade", func(c *etcdfake.Client) error { return c.Downgrade(ctx, v) })
}

func (l *lazyClient) CancelDowngrade(ctx context.Context) error {
	return l.tell(ctx, "CancelDowngrade", func(c *etcdfake.Client) error { return c.CancelDowngrade(ctx) })
}

func (l *lazyClient) Defragment(ctx context.Context) error {
	return l.tell(ctx, "Defragment", func(c *etcdfake.Client) error { return c.Defragment(ctx) })
}

func (l *lazyClient) Compact(ctx context.Context, revision int64) error {
	return l.tell(ctx, "Compact", func(c *etcdfake.Client) error { return c.Compact(ctx, revision) })
}

func (l *lazyClient) Disarm(ctx context.Context, a etcd.Alarm) error {
	return l.tell(ctx, "Disarm", func(c *etcdfake.Client) error { return c.Disarm(ctx, a) })
}

func (l *lazyClient) Close() error { return nil }
