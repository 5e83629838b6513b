// Package etcdlog reads and ends the write-ahead log of an etcd member that does not run. It is for
// one purpose: the quorum is lost for good, and one member is to go on alone. It must not open the
// log of a member that runs, and must not decide which member goes on.
package etcdlog

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Errors for logs that must not be gone on with.
var (
	// ErrNoVote is for a log by which its own member has no vote, or has been removed.
	ErrNoVote = errors.New("by its log the member has no vote in the cluster")
	// ErrEmpty is for a log without an entry or snapshot: the member has never been part of a quorum.
	ErrEmpty = errors.New("the log holds nothing")
)

// journal is an open log and what it says.
type journal struct {
	*wal.WAL
	self   uint64
	state  *raftpb.HardState
	voters map[uint64]bool // true for a voter, false for a learner
	end    model.LogEnd
}

// End says how far the log in a data directory goes, committed or not. It changes nothing.
func End(dataDir string) (model.LogEnd, error) {
	j, err := open(dataDir, wal.OpenForRead)
	if err != nil {
		return model.LogEnd{}, err
	}
	_ = j.Close() // It has nothing to write, and complains that it has not opened the directory.
	return j.end, j.mayLead()
}

// GoOnAlone writes to the log in a data directory that all that it holds is committed, and that every other member has been
// removed. That is what etcd's --force-new-cluster writes, but for two differences: entries at the end of the log are kept that
// the member does not know to be committed, because clients may have been told that they are; and etcd starts as ever
// afterwards, so that nothing can do it a second time. Done again, it changes nothing.
//
// Source: bootstrapWALFromSnapshot in server/etcdserver/bootstrap.go of etcd 3.6 and 3.7, restartAsStandaloneNode in
// server/etcdserver/raft.go of 3.5.
func GoOnAlone(dataDir string) (err error) {
	j, err := open(dataDir, wal.Open)
	if errors.Is(err, io.ErrUnexpectedEOF) && wal.Repair(zap.NewNop(), walDir(dataDir)) {
		j, err = open(dataDir, wal.Open) // The last write was cut short, so nobody has been told of it.
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := j.mayLead(); err != nil {
		return err
	}
	entries, err := j.removals()
	if err != nil {
		return err
	}
	commit := j.end.Index + uint64(len(entries))
	state := &raftpb.HardState{Term: proto.Uint64(j.term()), Vote: proto.Uint64(j.state.GetVote()), Commit: &commit}
	if err := j.Save(state, entries); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	if err := j.Sync(); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}

func walDir(dataDir string) string { return filepath.Join(dataDir, "member", "wal") }

func open(dataDir string, openAt func(*zap.Logger, string, *walpb.Snapshot) (*wal.WAL, error)) (*journal, error) {
	dir, quiet := walDir(dataDir), zap.NewNop()
	snapshots, err := wal.ValidSnapshotEntries(quiet, dir)
	if err != nil {
		return nil, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	if len(snapshots) == 0 {
		return nil, ErrEmpty
	}
	last := snapshots[len(snapshots)-1]
	w, err := openAt(quiet, dir, last)
	if err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", dir, err)
	}
	meta, state, entries, err := w.ReadAll()
	if err != nil {
		_ = w.Close() // What is wrong with the log says more.
		return nil, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	j := &journal{WAL: w, state: state, voters: map[uint64]bool{}, end: model.LogEnd{Term: last.GetTerm(), Index: last.GetIndex()}}
	if err := j.replay(meta, last, entries); err != nil {
		_ = w.Close()
		return nil, err
	}
	return j, nil
}

// replay finds out who is a member by the log, and how far it goes.
func (j *journal) replay(meta []byte, from *walpb.Snapshot, entries []*raftpb.Entry) error {
	var m pb.Metadata
	if err := proto.Unmarshal(meta, &m); err != nil {
		return fmt.Errorf("whose log it is cannot be read: %w", err)
	}
	j.self = m.GetNodeID()
	for _, id := range from.GetConfState().GetVoters() {
		j.voters[id] = true
	}
	for _, id := range from.GetConfState().GetLearners() {
		j.voters[id] = false
	}
	for _, e := range entries {
		j.end = model.LogEnd{Term: e.GetTerm(), Index: e.GetIndex()}
		if e.GetType() != raftpb.EntryConfChange {
			continue
		}
		var c raftpb.ConfChange
		if err := proto.Unmarshal(e.GetData(), &c); err != nil {
			return fmt.Errorf("entry %d of the log cannot be read: %w", e.GetIndex(), err)
		}
		switch c.GetType() {
		case raftpb.ConfChangeAddNode:
			j.voters[c.GetNodeId()] = true
		case raftpb.ConfChangeAddLearnerNode:
			j.voters[c.GetNodeId()] = false
		case raftpb.ConfChangeRemoveNode:
			delete(j.voters, c.GetNodeId())
		case raftpb.ConfChangeUpdateNode:
		}
	}
	return nil
}

func (j *journal) mayLead() error {
	switch {
	case j.end.Index == 0:
		return ErrEmpty
	case !j.voters[j.self]:
		return ErrNoVote
	}
	return nil
}

// term is the latest that the member knows of.
func (j *journal) term() uint64 { return max(j.end.Term, j.state.GetTerm()) }

// removals are entries that remove everybody else.
func (j *journal) removals() ([]*raftpb.Entry, error) {
	var others []uint64
	for id := range j.voters {
		if id != j.self {
			others = append(others, id)
		}
	}
	slices.Sort(others)
	var out []*raftpb.Entry
	for i, id := range others {
		change := raftpb.ConfChangeRemoveNode
		data, err := proto.Marshal(&raftpb.ConfChange{Type: &change, NodeId: proto.Uint64(id)})
		if err != nil {
			return nil, fmt.Errorf("encode a change of the members: %w", err)
		}
		typ := raftpb.EntryConfChange
		out = append(out, &raftpb.Entry{
			Type: &typ, Term: proto.Uint64(j.term()), Index: proto.Uint64(j.end.Index + uint64(i) + 1), Data: data,
		})
	}
	return out, nil
}
