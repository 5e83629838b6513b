package etcdrestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v2store"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/protobuf/proto"
)

// Member is what etcd is started with.
type Member struct {
	// Name of the member (--name), one of Cluster.
	Name string
	// Cluster has the URLs for peers of all members by their names (--initial-cluster).
	Cluster map[string][]string
	// Token that makes the IDs of this cluster and its members differ from those of others (--initial-cluster-token).
	Token string
}

// cluster is the new cluster, and which member of it this is.
type cluster struct {
	*membership.RaftCluster
	self *membership.Member
}

// term is that of the log of a new cluster, as etcd begins it.
const term = uint64(1)

func newCluster(m Member) (*cluster, error) {
	urls := types.URLsMap{}
	var all []string
	for name, peers := range m.Cluster {
		parsed, err := types.NewURLs(peers)
		if err != nil {
			return nil, fmt.Errorf("the URLs of member %s: %w", name, err)
		}
		urls[name] = parsed
		all = append(all, parsed.StringSlice()...)
	}
	slices.Sort(all)
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		return nil, errors.New("two members of the cluster have the same URL")
	}
	c, err := membership.NewClusterFromURLsMap(zap.NewNop(), m.Token, urls)
	if err != nil {
		return nil, fmt.Errorf("the new cluster: %w", err)
	}
	self := c.MemberByName(m.Name)
	if self == nil {
		return nil, fmt.Errorf("there is no member %q in the new cluster", m.Name)
	}
	return &cluster{c, self}, nil
}

// size is how many entries the log has: one for each member that joins.
func (c *cluster) size() uint64 { return uint64(len(c.MemberIDs())) }

// voters of the cluster.
func (c *cluster) voters() *raftpb.ConfState {
	s := &raftpb.ConfState{}
	for _, id := range c.MemberIDs() {
		s.Voters = append(s.Voters, uint64(id))
	}
	return s
}

// finish makes the database one of the new cluster.
func (db *database) finish(o Options, c *cluster, r *Result) error {
	return db.Update(func(tx *bbolt.Tx) error {
		if o.Bump > 0 {
			if err := bump(tx, r.BumpedTo); err != nil {
				return err
			}
		}
		if err := setMembers(tx, c); err != nil {
			return err
		}
		var err error
		if r.Alarms, err = empty(tx, bucketAlarm); err != nil {
			return err
		}
		if o.WithoutAuthentication {
			if err := disableAuthentication(tx); err != nil {
				return err
			}
		}
		if o.RootPassword == "" {
			return nil
		}
		return setRoot(tx, o.RootPassword)
	})
}

// disableAuthentication writes what AuthDisable of etcd writes (UnsafeSaveAuthEnabled in server/storage/schema). Users and roles stay.
func disableAuthentication(tx *bbolt.Tx) error {
	auth := tx.Bucket(bucketAuth)
	if auth == nil {
		return nil
	}
	if err := auth.Put(authEnabled, authDisabled); err != nil {
		return fmt.Errorf("switch authentication off in the database: %w", err)
	}
	return nil
}

// bump ends history at a revision that nobody has seen: an empty change has it, and everything up to it is to be compacted. etcd does that
// when it starts.
func bump(tx *bbolt.Tx, to int64) error {
	return errors.Join(
		tx.Bucket(bucketKey).Put(revisionKey(to, 0, false), []byte{}),
		tx.Bucket(bucketMeta).Put(metaScheduledCompact, revisionKey(to, 0, false)),
	)
}

// setMembers puts the members of the new cluster in the place of the old ones, and the position in the log of the new cluster in that of
// the old. A downgrade that was going on is none of the new cluster. The version of the cluster stays: etcd raises it by itself.
func setMembers(tx *bbolt.Tx, c *cluster) error {
	for _, bucket := range [][]byte{bucketMembers, bucketMembersRemoved} {
		if _, err := empty(tx, bucket); err != nil {
			return err
		}
	}
	members := tx.Bucket(bucketMembers)
	for _, m := range c.Members() {
		raw, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("encode a member: %w", err)
		}
		if err := members.Put([]byte(m.ID.String()), raw); err != nil {
			return fmt.Errorf("write a member to the database: %w", err)
		}
	}
	voters, err := json.Marshal(c.voters())
	if err != nil {
		return fmt.Errorf("encode the voters: %w", err)
	}
	versions, err := tx.CreateBucketIfNotExists(bucketCluster)
	if err != nil {
		return fmt.Errorf("change the database: %w", err)
	}
	meta := tx.Bucket(bucketMeta)
	return errors.Join(
		versions.Delete(clusterDowngrade),
		meta.Put(metaConsistentIndex, bigEndian(int64(c.size()))), //nolint:gosec // There are a few members.
		meta.Put(metaTerm, bigEndian(int64(term))),
		meta.Put(metaConfState, voters),
	)
}

// empty makes sure that there is a bucket and nothing in it. It returns how much there was.
func empty(tx *bbolt.Tx, name []byte) (n int, err error) {
	if old := tx.Bucket(name); old != nil {
		n = old.Stats().KeyN
		if err := tx.DeleteBucket(name); err != nil {
			return n, fmt.Errorf("empty the bucket %s: %w", name, err)
		}
	}
	if _, err := tx.CreateBucket(name); err != nil {
		return n, fmt.Errorf("create the bucket %s: %w", name, err)
	}
	return n, nil
}

// setRoot gives the user root a password, if there is that user. The hash differs between members, because it has salt of its own: each
// of them accepts the password.
func setRoot(tx *bbolt.Tx, password string) error {
	users := tx.Bucket(bucketAuthUsers)
	if users == nil {
		return nil
	}
	raw := users.Get(rootUser)
	if raw == nil {
		return nil
	}
	root := &authpb.User{}
	if err := proto.Unmarshal(raw, root); err != nil {
		return fmt.Errorf("%w: the user root cannot be read: %w", ErrDamaged, err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return fmt.Errorf("hash the password of root: %w", err)
	}
	root.Password, root.Options = hash, &authpb.UserAddOptions{NoPassword: false}
	if raw, err = proto.Marshal(root); err != nil {
		return fmt.Errorf("encode the user root: %w", err)
	}
	return users.Put(rootUser, raw)
}

// log writes the beginning of the log of the new cluster, in which all members join, and the snapshot of that state. etcd 3.5 and 3.6 read
// the members from the snapshot, where they are in the form of etcd's store of version 2.
func (c *cluster) log(dir string) (err error) {
	metadata, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: new(uint64(c.self.ID)), ClusterID: new(uint64(c.ID()))})
	if err != nil {
		return fmt.Errorf("encode the head of the log: %w", err)
	}
	entries, err := c.entries()
	if err != nil {
		return err
	}
	w, err := wal.Create(zap.NewNop(), filepath.Join(dir, "member", "wal"), metadata)
	if err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	state := &raftpb.HardState{Term: new(term), Vote: new(uint64(c.MemberIDs()[0])), Commit: new(c.size())}
	if err := w.Save(state, entries); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	v2 := v2store.New("/0", "/1") // Members are below the first, and keys of clients below the second.
	c.Store(v2)
	data, err := v2.SaveNoCopy()
	if err != nil {
		return fmt.Errorf("encode the members: %w", err)
	}
	snapshot := &raftpb.Snapshot{Data: data, Metadata: &raftpb.SnapshotMetadata{Index: new(c.size()), Term: new(term), ConfState: c.voters()}}
	if err := snap.New(zap.NewNop(), filepath.Join(dir, "member", "snap")).SaveSnap(snapshot); err != nil {
		return fmt.Errorf("write the snapshot of the members: %w", err)
	}
	if err := w.SaveSnapshot(&walpb.Snapshot{Index: new(c.size()), Term: new(term), ConfState: c.voters()}); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}

// entries are the members' joining, in the order of their IDs.
func (c *cluster) entries() (entries []*raftpb.Entry, err error) {
	for i, id := range c.MemberIDs() {
		member, err := json.Marshal(c.Member(id))
		if err != nil {
			return nil, fmt.Errorf("encode a member: %w", err)
		}
		data, err := proto.Marshal(&raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(uint64(id)), Context: member})
		if err != nil {
			return nil, fmt.Errorf("encode a member: %w", err)
		}
		index := uint64(i) + 1
		entries = append(entries, &raftpb.Entry{Type: raftpb.EntryConfChange.Enum(), Term: new(term), Index: new(index), Data: data})
	}
	return entries, nil
}
