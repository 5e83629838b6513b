package steps

import (
	"context"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// KeepLogs has the disks of servers keep every write at once, whose clocks were put back.
type KeepLogs struct{ Pods []string }

// ReasonKeepLogs is the reason of KeepLogs.
const ReasonKeepLogs = "KeepingLogs"

func (s KeepLogs) String() string {
	return "set " + model.AppendFsync + " " + model.FsyncAlways + " on " + JoinItems(s.Pods, func(name string) string { return name })
}

// Calls sends CONFIG SET.
func (s KeepLogs) Calls() []Call {
	return calls(s.Pods, func(name string) Call {
		return Call{name, func(ctx context.Context, c Client) error {
			return c.Configure(ctx, map[string]string{model.AppendFsync: model.FsyncAlways})
		}}
	})
}
