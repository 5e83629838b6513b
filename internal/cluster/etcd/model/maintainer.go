package model

import (
	"context"
)

// Maintainer are the verbs of a Client that look after the database of a member.
type Maintainer interface {
	// Defragment gives the free space of this member's database back to the file system. Meanwhile the member answers
	// nobody, but goes on to store what the others agree on. The member does not stop when the context ends.
	Defragment(ctx context.Context) error
	// Compact throws the history before a revision away, in all members. They do so in the background. One that has been
	// thrown away already is no error.
	Compact(ctx context.Context, revision int64) error
	// Compacted reports whether there is no history before the present revision.
	Compacted(ctx context.Context) (bool, error)
	// Disarm takes an alarm back. One that is not raised is no error.
	Disarm(ctx context.Context, a Alarm) error
	// HashKV reads the whole database of this member up to a revision.
	HashKV(ctx context.Context, revision int64) (Hash, error)
	// Largest returns the groups of keys that take the most space, by an estimate from a sample.
	Largest(ctx context.Context) ([]KeyGroup, error)
}

// Hash of the data of a member. Two can be compared when both revisions are the same.
type Hash struct {
	Sum                       uint32
	Revision, CompactRevision int64
}

// KeyGroup is what the keys that begin alike take.
type KeyGroup struct {
	Prefix string
	Keys   int64
	// Bytes of keys and values, without their history.
	Bytes int64
}
