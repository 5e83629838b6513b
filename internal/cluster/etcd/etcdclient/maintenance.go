package etcdclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Limits of a look at the keys: two small questions for each group.
const (
	maxGroups = 100
	// sampleKeys of a group tell how large its keys are.
	sampleKeys = 16
)

// Defragment asks this member alone. Not conn.Defragment: it makes a connection of its own each time.
func (c *Client) Defragment(ctx context.Context) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := clientv3.RetryMaintenanceClient(conn, conn.ActiveConnection()).Defragment(ctx, &pb.DefragmentRequest{})
		if err != nil {
			return fmt.Errorf("defragment %s: %w", c.cfg.Host, clientv3.ContextError(ctx, err))
		}
		return nil
	})
}

// Compact compacts twice: what the first compaction frees counts as free only after another write, and while the quota is
// reached there may be none but the second.
func (c *Client) Compact(ctx context.Context, revision int64) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		for _, at := range []int64{revision - 1, revision} {
			if at < 1 {
				continue
			}
			if _, err := conn.Compact(ctx, at); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
				return fmt.Errorf("compact to revision %d: %w", at, err)
			}
		}
		return nil
	})
}

// Compacted asks for the revision before the present one.
func (c *Client) Compacted(ctx context.Context) (compacted bool, err error) {
	err = c.asRoot(ctx, func(conn *clientv3.Client) error {
		now, err := conn.Get(ctx, "a", clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("read the revision: %w", err)
		}
		if now.Header.Revision <= 1 {
			compacted = true
			return nil
		}
		_, err = conn.Get(ctx, "a", clientv3.WithCountOnly(), clientv3.WithRev(now.Header.Revision-1))
		if compacted = errors.Is(err, rpctypes.ErrCompacted); compacted || err == nil {
			return nil
		}
		return fmt.Errorf("read the revision before: %w", err)
	})
	return compacted, err
}

// Disarm takes an alarm back.
func (c *Client) Disarm(ctx context.Context, a model.Alarm) error {
	typ, ok := pb.AlarmType_value[a.Type]
	if !ok {
		return fmt.Errorf("etcd's client knows no alarm %s", a.Type)
	}
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		member := clientv3.AlarmMember{MemberID: a.MemberID, Alarm: pb.AlarmType(typ)}
		if _, err := conn.AlarmDisarm(ctx, &member); err != nil {
			return fmt.Errorf("disarm %s of %s: %w", a.Type, model.FormatID(a.MemberID), err)
		}
		return nil
	})
}

// HashKV asks this member alone.
func (c *Client) HashKV(ctx context.Context, revision int64) (h model.Hash, err error) {
	err = c.asRoot(ctx, func(conn *clientv3.Client) error {
		r, err := clientv3.RetryMaintenanceClient(conn, conn.ActiveConnection()).HashKV(ctx, &pb.HashKVRequest{Revision: revision})
		if err != nil {
			return fmt.Errorf("hash of %s at revision %d: %w", c.cfg.Host, revision, clientv3.ContextError(ctx, err))
		}
		h = model.Hash{Sum: r.Hash, Revision: revision, CompactRevision: r.CompactRevision}
		return nil
	})
	return h, err
}

// Largest goes from group to group: it counts the keys of each in etcd's index, and reads the first of them.
func (c *Client) Largest(ctx context.Context) (groups []model.KeyGroup, err error) {
	err = c.asRoot(ctx, func(conn *clientv3.Client) error {
		groups = nil
		for from := "\x00"; from != "" && len(groups) < maxGroups; {
			g, next, err := group(ctx, conn, from)
			if err != nil {
				return fmt.Errorf("look at the keys: %w", err)
			}
			if from = next; g.Keys > 0 {
				groups = append(groups, g)
			}
		}
		return nil
	})
	slices.SortStableFunc(groups, func(a, b model.KeyGroup) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return groups, err
}

// group returns the first group of keys from a key on, and where the next one may begin, empty when there is none.
func group(ctx context.Context, conn *clientv3.Client, from string) (g model.KeyGroup, next string, err error) {
	first, err := conn.Get(ctx, from, clientv3.WithFromKey(), clientv3.WithLimit(sampleKeys), clientv3.WithSerializable())
	if err != nil || len(first.Kvs) == 0 {
		return g, "", err
	}
	g.Prefix = groupOf(first.Kvs[0].Key)
	all, err := conn.Get(ctx, g.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable())
	if err != nil {
		return g, "", err
	}
	n, size := int64(0), 0
	for _, kv := range first.Kvs {
		if len(kv.Key) >= len(g.Prefix) && string(kv.Key[:len(g.Prefix)]) == g.Prefix {
			n, size = n+1, size+len(kv.Key)+len(kv.Value)
		}
	}
	g.Keys = all.Count
	g.Bytes = all.Count * int64(size) / n
	if next = clientv3.GetPrefixRangeEnd(g.Prefix); next <= g.Prefix {
		next = ""
	}
	return g, next, nil
}

// maxPrefix bounds what of a key is shown.
const maxPrefix = 64

// groupOf is what the keys of a group begin with: two segments of a path (/registry/pods/), or the letters at the beginning
// of a key that is none.
func groupOf(key []byte) string {
	segments := 0
	for i, b := range key[:min(len(key), maxPrefix)] {
		if b == '/' && i > 0 {
			if segments++; segments == 2 {
				return string(key[:i+1])
			}
		}
	}
	for i, b := range key {
		letter := b == '/' || ('a' <= b && b <= 'z') || ('A' <= b && b <= 'Z')
		if i == maxPrefix || !letter {
			return string(key[:i+1])
		}
	}
	return string(key)
}
