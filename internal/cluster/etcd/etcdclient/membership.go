package etcdclient

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Members reads the member list through the quorum.
func (c *Client) Members(ctx context.Context) ([]model.Member, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	r, err := conn.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("member list of %s: %w", c.cfg.Host, err)
	}
	out, err := membersOf((*pb.MemberListResponse)(r))
	if err != nil {
		return nil, fmt.Errorf("member list of %s: %w", c.cfg.Host, err)
	}
	return out, nil
}

func membersOf(r *pb.MemberListResponse) ([]model.Member, error) {
	if n := len(r.Members); n > maxMembers {
		return nil, fmt.Errorf("it has %d members", n)
	}
	out := make([]model.Member, 0, len(r.Members))
	for _, m := range r.Members {
		out = append(out, member(m))
	}
	return out, nil
}

func member(m *pb.Member) model.Member {
	out := model.Member{ID: m.ID, Name: m.Name, Learner: m.IsLearner, Published: len(m.ClientURLs) > 0}
	if len(m.PeerURLs) > 0 {
		out.PeerURL = m.PeerURLs[0]
	}
	return out
}

// MoveLeader makes another voter the leader.
func (c *Client) MoveLeader(ctx context.Context, to uint64) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		if _, err := conn.MoveLeader(ctx, to); err != nil {
			return fmt.Errorf("move leader: %w", err)
		}
		return nil
	})
}

// AddLearner adds a member without a vote.
func (c *Client) AddLearner(ctx context.Context, peerURL string) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.MemberAddAsLearner(ctx, []string{peerURL})
		if errors.Is(err, rpctypes.ErrPeerURLExist) || errors.Is(err, rpctypes.ErrMemberExist) {
			return nil
		}
		return reconfiguration(err, "add "+peerURL+" as learner")
	})
}

// Promote gives a learner its vote.
func (c *Client) Promote(ctx context.Context, id uint64) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.MemberPromote(ctx, id)
		switch {
		case errors.Is(err, rpctypes.ErrMemberNotLearner):
			return nil
		case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
			return model.ErrNotInSync
		}
		return reconfiguration(err, "promote "+model.FormatID(id))
	})
}

// RemoveMember takes a member out of the cluster.
func (c *Client) RemoveMember(ctx context.Context, id uint64) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.MemberRemove(ctx, id)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		return reconfiguration(err, "remove member "+model.FormatID(id))
	})
}

// UpdatePeer changes the peer URL of a member.
func (c *Client) UpdatePeer(ctx context.Context, id uint64, peerURL string) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.MemberUpdate(ctx, id, []string{peerURL})
		return reconfiguration(err, "change the peer URL of "+model.FormatID(id))
	})
}

// reconfiguration says what failed, and tells apart what etcd refuses for the moment only.
func reconfiguration(err error, what string) error {
	for _, e := range []error{rpctypes.ErrUnhealthy, rpctypes.ErrMemberNotEnoughStarted, rpctypes.ErrTooManyLearners} {
		if errors.Is(err, e) {
			return fmt.Errorf("%s: %w: %w", what, model.ErrNotNow, err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
