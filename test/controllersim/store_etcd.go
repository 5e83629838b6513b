package controllersim

import (
	"context"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

// EtcdClient finds the process of its pod at each call.
type EtcdClient struct {
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

func (l *EtcdClient) c() *etcdfake.Client {
	return &etcdfake.Client{
		Network: l.s.Net, Process: l.s.Procs[l.pod], TLS: l.tls, Root: l.root, Password: l.password, Former: l.former, Signs: l.signs,
		Crash: func() bool { return l.op.within("part of EnableAuth", l.pod) },
	}
}

// asked is what a call returned that changes nothing.
func asked[T any](ctx context.Context, l *EtcdClient, what string, ask func(*etcdfake.Client, context.Context) (T, error)) (out T, err error) {
	err = l.op.ask(ctx, what, l.pod, func(ctx context.Context) (err error) {
		out, err = ask(l.c(), ctx)
		return err
	})
	return out, err
}

func (l *EtcdClient) tell(ctx context.Context, what string, tell func(c *etcdfake.Client) error) error {
	return l.op.tell(ctx, what, l.pod, func(context.Context) error { return tell(l.c()) })
}

func (l *EtcdClient) Status(ctx context.Context) (etcd.View, error) {
	return asked(ctx, l, "Status", (*etcdfake.Client).Status)
}

func (l *EtcdClient) Members(ctx context.Context) ([]etcd.Member, error) {
	return asked(ctx, l, "Members", (*etcdfake.Client).Members)
}

func (l *EtcdClient) ClusterVersion(ctx context.Context) (etcd.Version, error) {
	return asked(ctx, l, "ClusterVersion", (*etcdfake.Client).ClusterVersion)
}

func (l *EtcdClient) Compacted(ctx context.Context) (bool, error) {
	return asked(ctx, l, "Compacted", (*etcdfake.Client).Compacted)
}

func (l *EtcdClient) Largest(ctx context.Context) ([]etcd.KeyGroup, error) {
	return asked(ctx, l, "Largest", (*etcdfake.Client).Largest)
}

func (l *EtcdClient) Auth(ctx context.Context, p string) (etcd.Auth, error) {
	return asked(ctx, l, "Auth", func(c *etcdfake.Client, ctx context.Context) (etcd.Auth, error) { return c.Auth(ctx, p) })
}

func (l *EtcdClient) HashKV(ctx context.Context, revision int64) (etcd.Hash, error) {
	return asked(ctx, l, "HashKV", func(c *etcdfake.Client, ctx context.Context) (etcd.Hash, error) { return c.HashKV(ctx, revision) })
}

func (l *EtcdClient) Vitals(ctx context.Context) (etcd.Vitals, error) {
	return asked(ctx, l, "Vitals", func(c *etcdfake.Client, ctx context.Context) (etcd.Vitals, error) {
		l.s.Vitals.Add(1)
		if l.s.Silent {
			return etcd.Vitals{}, etcdfake.ErrNoAnswer
		}
		return c.Vitals(ctx)
	})
}

func (l *EtcdClient) EnableAuth(ctx context.Context, p string) error {
	return l.tell(ctx, "EnableAuth", func(c *etcdfake.Client) error { return c.EnableAuth(ctx, p) })
}

func (l *EtcdClient) SetRootPassword(ctx context.Context, p string) error {
	return l.tell(ctx, "SetRootPassword", func(c *etcdfake.Client) error { return c.SetRootPassword(ctx, p) })
}

func (l *EtcdClient) MoveLeader(ctx context.Context, to uint64) error {
	return l.tell(ctx, "MoveLeader", func(c *etcdfake.Client) error { return c.MoveLeader(ctx, to) })
}

func (l *EtcdClient) AddLearner(ctx context.Context, url string) error {
	return l.tell(ctx, "AddLearner", func(c *etcdfake.Client) error { return c.AddLearner(ctx, url) })
}

func (l *EtcdClient) Promote(ctx context.Context, id uint64) error {
	return l.tell(ctx, "Promote", func(c *etcdfake.Client) error { return c.Promote(ctx, id) })
}

func (l *EtcdClient) UpdatePeer(ctx context.Context, id uint64, url string) error {
	return l.tell(ctx, "UpdatePeer", func(c *etcdfake.Client) error { return c.UpdatePeer(ctx, id, url) })
}

func (l *EtcdClient) RemoveMember(ctx context.Context, id uint64) error {
	return l.tell(ctx, "RemoveMember", func(c *etcdfake.Client) error { return c.RemoveMember(ctx, id) })
}

func (l *EtcdClient) Downgrade(ctx context.Context, v etcd.Version) error {
	return l.tell(ctx, "Downgrade", func(c *etcdfake.Client) error { return c.Downgrade(ctx, v) })
}

func (l *EtcdClient) CancelDowngrade(ctx context.Context) error {
	return l.tell(ctx, "CancelDowngrade", func(c *etcdfake.Client) error { return c.CancelDowngrade(ctx) })
}

func (l *EtcdClient) Defragment(ctx context.Context) error {
	return l.tell(ctx, "Defragment", func(c *etcdfake.Client) error { return c.Defragment(ctx) })
}

func (l *EtcdClient) Compact(ctx context.Context, revision int64) error {
	return l.tell(ctx, "Compact", func(c *etcdfake.Client) error { return c.Compact(ctx, revision) })
}

func (l *EtcdClient) Disarm(ctx context.Context, a etcd.Alarm) error {
	return l.tell(ctx, "Disarm", func(c *etcdfake.Client) error { return c.Disarm(ctx, a) })
}

func (l *EtcdClient) Close() error { return nil }
