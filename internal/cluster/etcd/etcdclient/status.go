package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Status of this member. A client whose password was wrong tries it again: it may be right by then. Without TLS it waits before, see
// login.Refusals.
func (c *Client) Status(ctx context.Context) (model.Status, error) {
	var r *pb.StatusResponse
	err := c.asRoot(ctx, func(conn *clientv3.Client) (err error) {
		// Not conn.Status: it makes a connection of its own each time, to be able to ask any endpoint.
		r, err = clientv3.RetryMaintenanceClient(conn, conn.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
		return clientv3.ContextError(ctx, err)
	})
	if errors.Is(err, rpctypes.ErrUserEmpty) {
		_ = c.Close() // It was made without the password.
		return model.Status{}, fmt.Errorf("status of %s: %w", c.cfg.Host, model.ErrPassword)
	}
	if err != nil {
		return model.Status{}, fmt.Errorf("status of %s: %w", c.cfg.Host, err)
	}
	if r.GetHeader() == nil {
		return model.Status{}, fmt.Errorf("status of %s: the answer has no header", c.cfg.Host)
	}
	c.outgrow(r.IsLearner)
	storage, _ := model.ParseVersion(r.StorageVersion) // Before 3.6 there is none.
	downgrade := ""
	if r.DowngradeInfo != nil && r.DowngradeInfo.Enabled {
		downgrade = r.DowngradeInfo.TargetVersion
	}
	return model.Status{
		Storage: storage, Downgrade: downgrade,
		MemberID: r.Header.MemberId, ClusterID: r.Header.ClusterId, Leader: r.Leader, Learner: r.IsLearner,
		Version: r.Version, DBSize: r.DbSize, DBInUse: r.DbSizeInUse,
		Revision: r.Header.Revision, Applied: r.RaftAppliedIndex, Alarms: alarms(r.Errors),
	}, nil
}

// outgrow drops a connection by token once the member has a vote: it lets us log in then.
func (c *Client) outgrow(learner bool) {
	c.mu.Lock()
	byToken := c.byToken
	c.mu.Unlock()
	if byToken && !learner {
		_ = c.Close()
	}
}

// alarms reads the alarms out of the errors in a status, which holds them as the text of an AlarmMember. Asking for
// them in so many words would cost an entry in the raft log each time. An alarm without a member id is one of the whole
// cluster: no majority of the members has the same data.
func alarms(errs []string) []model.Alarm {
	var out []model.Alarm
	for _, e := range errs {
		var a model.Alarm
		for _, field := range strings.Fields(e) {
			if id, ok := strings.CutPrefix(field, "memberID:"); ok {
				a.MemberID, _ = strconv.ParseUint(id, 10, 64)
			}
			if typ, ok := strings.CutPrefix(field, "alarm:"); ok {
				a.Type = typ
			}
		}
		if a.Type != "" {
			out = append(out, a)
		}
	}
	return out
}
