package controllersim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// wiredRedis is the client of a server, with the wire in between.
type wiredRedis struct {
	steps.Client
	op  *operator
	pod string
}

// wiredMover does the same to one that moves keys.
type wiredMover struct {
	steps.Mover
	op  *operator
	pod string
}

func (c *wiredRedis) tell(ctx context.Context, what string, tell func() error) error {
	return c.op.tell(ctx, what, c.pod, func(context.Context) error { return tell() })
}

func (c *wiredRedis) Read(ctx context.Context) (out *model.Node, err error) {
	err = c.op.ask(ctx, "Read", c.pod, func(ctx context.Context) (err error) {
		out, err = c.Client.Read(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *wiredRedis) SlotStats(ctx context.Context, slots slots.Set) (out map[int]model.SlotStat, err error) {
	err = c.op.ask(ctx, "SlotStats", c.pod, func(ctx context.Context) (err error) {
		out, err = c.Client.SlotStats(ctx, slots)
		return err
	})
	return out, err
}

func (c *wiredRedis) SetConfigEpoch(ctx context.Context, epoch uint64) error {
	return c.tell(ctx, "SetConfigEpoch", func() error { return c.Client.SetConfigEpoch(ctx, epoch) })
}

func (c *wiredRedis) Meet(ctx context.Context, addr model.Address, bus int) error {
	return c.tell(ctx, "Meet", func() error { return c.Client.Meet(ctx, addr, bus) })
}

func (c *wiredRedis) AddSlots(ctx context.Context, slots slots.Set) error {
	return c.tell(ctx, "AddSlots", func() error { return c.Client.AddSlots(ctx, slots) })
}

func (c *wiredRedis) Replicate(ctx context.Context, id string) error {
	return c.tell(ctx, "Replicate", func() error { return c.Client.Replicate(ctx, id) })
}

func (c *wiredRedis) AdmitReplicas(ctx context.Context, how model.Admission) error {
	return c.tell(ctx, "AdmitReplicas", func() error { return c.Client.AdmitReplicas(ctx, how) })
}

func (c *wiredRedis) Configure(ctx context.Context, values map[string]string) error {
	return c.tell(ctx, "Configure", func() error { return c.Client.Configure(ctx, values) })
}

func (c *wiredRedis) SetUsers(ctx context.Context, users []acl.User, admits model.Admission) error {
	return c.tell(ctx, "SetUsers", func() error { return c.Client.SetUsers(ctx, users, admits) })
}

func (c *wiredRedis) DeleteUsers(ctx context.Context, names []string, admits model.Admission) error {
	return c.tell(ctx, "DeleteUsers", func() error { return c.Client.DeleteUsers(ctx, names, admits) })
}

func (c *wiredRedis) SetReplicationPassword(ctx context.Context, password string) error {
	return c.tell(ctx, "SetReplicationPassword", func() error { return c.Client.SetReplicationPassword(ctx, password) })
}

func (c *wiredRedis) Migrate(ctx context.Context, slots slots.Set, to, password, own string) error {
	return c.tell(ctx, "Migrate", func() error { return c.Client.Migrate(ctx, slots, to, password, own) })
}

func (c *wiredRedis) Import(ctx context.Context, slots slots.Set) error {
	return c.tell(ctx, "Import", func() error { return c.Client.Import(ctx, slots) })
}

func (c *wiredRedis) CancelMigration(ctx context.Context, name string) error {
	return c.tell(ctx, "CancelMigration", func() error { return c.Client.CancelMigration(ctx, name) })
}

func (c *wiredRedis) CountLoad(ctx context.Context, on bool) error {
	return c.tell(ctx, "CountLoad", func() error { return c.Client.CountLoad(ctx, on) })
}

func (c *wiredRedis) ReloadCertificates(ctx context.Context) error {
	return c.tell(ctx, "ReloadCertificates", func() error { return c.Client.ReloadCertificates(ctx) })
}

func (c *wiredRedis) Forget(ctx context.Context, id string) error {
	return c.tell(ctx, "Forget", func() error { return c.Client.Forget(ctx, id) })
}

func (c *wiredRedis) Failover(ctx context.Context, how steps.FailoverMode) error {
	err := c.tell(ctx, "Failover", func() error { return c.Client.Failover(ctx, how) })
	if errors.Is(err, errLate) {
		err = fmt.Errorf("%w: %w", steps.ErrUndecided, err)
	}
	return err
}

func (c *wiredRedis) Leads(ctx context.Context) (out bool, err error) {
	err = c.op.ask(ctx, "Leads", c.pod, func(ctx context.Context) (err error) {
		out, err = c.Client.Leads(ctx)
		return err
	})
	return out, err
}

func (c *wiredRedis) HoldWrites(ctx context.Context, d time.Duration) error {
	return c.tell(ctx, "HoldWrites", func() error { return c.Client.HoldWrites(ctx, d) })
}

func (c *wiredRedis) ReleaseWrites(ctx context.Context) error {
	return c.tell(ctx, "ReleaseWrites", func() error { return c.Client.ReleaseWrites(ctx) })
}

func (c *wiredRedis) Uphold(ctx context.Context) error {
	return c.tell(ctx, "Uphold", func() error { return c.Client.Uphold(ctx) })
}

func (c *wiredRedis) Promote(ctx context.Context, history string) error {
	return c.tell(ctx, "Promote", func() error { return c.Client.Promote(ctx, history) })
}

func (c *wiredRedis) ReplicaOf(ctx context.Context, addr model.Address) error {
	return c.tell(ctx, "ReplicaOf", func() error { return c.Client.ReplicaOf(ctx, addr) })
}

func (c *wiredRedis) FailoverTo(ctx context.Context, addr model.Address) error {
	return c.tell(ctx, "FailoverTo", func() error { return c.Client.FailoverTo(ctx, addr) })
}

func (m *wiredMover) SetSlots(ctx context.Context, slots slots.Set, state model.SlotState, id string) error {
	return m.op.tell(ctx, "SetSlots", m.pod, func(ctx context.Context) error { return m.Mover.SetSlots(ctx, slots, state, id) })
}

func (m *wiredMover) Send(ctx context.Context, to model.Address, batches [][]model.Key, replace bool, patience time.Duration) (busy [][]model.Key, err error) {
	err = m.op.tell(ctx, "Send", m.pod, func(ctx context.Context) (err error) {
		busy, err = m.Mover.Send(ctx, to, batches, replace, patience)
		return err
	})
	return busy, err
}

func (m *wiredMover) Keys(ctx context.Context, slots slots.Set, limit int) (out map[int][]model.Key, err error) {
	err = m.op.ask(ctx, "Keys", m.pod, func(ctx context.Context) (err error) {
		out, err = m.Mover.Keys(ctx, slots, limit)
		return err
	})
	return out, err
}

func (m *wiredMover) Large(ctx context.Context, slots slots.Set, bytes int64) (out map[int]model.Key, err error) {
	err = m.op.ask(ctx, "Large", m.pod, func(ctx context.Context) (err error) {
		out, err = m.Mover.Large(ctx, slots, bytes)
		return err
	})
	return out, err
}

func (m *wiredMover) Process(ctx context.Context) (out string, err error) {
	err = m.op.ask(ctx, "Process", m.pod, func(ctx context.Context) (err error) {
		out, err = m.Mover.Process(ctx)
		return err
	})
	return out, err
}

func (m *wiredMover) Sees(ctx context.Context, id string) (out model.Peer, err error) {
	err = m.op.ask(ctx, "Sees", m.pod, func(ctx context.Context) (err error) {
		out, err = m.Mover.Sees(ctx, id)
		return err
	})
	return out, err
}
