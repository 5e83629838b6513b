package model

import (
	"strings"
)

// fatalWords are what etcd says when it cannot start from the data that it finds, however often it tries. From 3.5.35, 3.6.16
// and 3.7.3: server/storage/wal, server/etcdserver/api/snap, server/etcdserver/bootstrap.go and raft.go, bbolt's db.go and
// freelist.go, api/v3/membership. A wrong configuration and missing memory are not among them, nor is a full disk,
// whose data is whole: see DiskFull.
var fatalWords = []string{
	"walpb: crc mismatch", "wal: crc mismatch", "wal: slice bounds out of range", "wal: snapshot mismatch", "wal: snapshot not found",
	"[wal] max entry size limit exceeded", "wal: file not found",
	"panic: cannot use none as id", // The beginning of the log, which says whose it is, cannot be read.
	"snap: crc mismatch", "snap: snapshot file doesn't exist",
	"failed to recover v3 backend from snapshot", "failed to find database snapshot file",
	"invalid database", "checksum error", "file size too small",
	"freepages: failed to get all reachable pages", "bbolt.(*freelist)", "bbolt.(*shared)", "assertion failed: Page expected to be",
	"the member has been permanently removed from the cluster",
	"has already been bootstrapped", "member count is unequal",
}

// refusals are what etcd says at its end when the members have agreed on a later minor version than its own. A panic is longer than what
// is kept of it, so that its trace has to do. From MustDetectDowngrade in 3.6.16 and 3.7.3, mustDetectDowngrade in 3.5.35, and newPlan in
// server/storage/schema.
var refusals = []string{"server version is lower than determined cluster version", "(*applierMembership).ClusterVersionSet("}

// RefusesVersion reports whether etcd did not start because the members have agreed on a later minor version, out of what it said at its
// end.
func RefusesVersion(lastWords string) bool {
	return said(refusals, lastWords) != ""
}

// fullWords are the errors of the operating system that there is no room, ENOSPC and EDQUOT.
var fullWords = []string{"no space left on device", "disk quota exceeded"}

// DiskFull returns what etcd or bbolt said at its end of a disk that has no room left; empty when it said nothing of the kind.
func DiskFull(lastWords string) string {
	return said(fullWords, lastWords)
}

// FatalStart returns the word for which etcd will never start from its data, out of what it said at its end; empty when there is
// none.
func FatalStart(lastWords string) string { return said(fatalWords, lastWords) }

// said returns the first of the words that are in a text, empty for none.
func said(words []string, text string) string {
	for _, w := range words {
		if strings.Contains(text, w) {
			return w
		}
	}
	return ""
}
