package etcdrestore

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Buckets and keys of etcd's database (server/storage/schema in etcd; server/mvcc/buckets in 3.5).
var (
	bucketKey            = []byte("key")
	bucketMeta           = []byte("meta")
	bucketLease          = []byte("lease")
	bucketAlarm          = []byte("alarm")
	bucketCluster        = []byte("cluster")
	bucketMembers        = []byte("members")
	bucketMembersRemoved = []byte("members_removed")
	bucketAuth           = []byte("auth")
	bucketAuthUsers      = []byte("authUsers")

	metaScheduledCompact = []byte("scheduledCompactRev")
	metaFinishedCompact  = []byte("finishedCompactRev")
	metaConsistentIndex  = []byte("consistent_index")
	metaTerm             = []byte("term")
	metaConfState        = []byte("confState")
	metaStorageVersion   = []byte("storageVersion")

	clusterDowngrade = []byte("downgrade")
	clusterVersion   = []byte("clusterVersion")
	rootUser         = []byte("root")

	authEnabled, authDisabled = []byte("authEnabled"), []byte{0}
)

const (
	// A change is stored under its revision: main in 8 bytes, '_', sub in 8 bytes, and 't' if it deletes.
	revisionSize  = 17
	tombstoneSize = 18
	tombstoneMark = 't'
)

// revisionKey is what a change is stored under.
func revisionKey(main, sub int64, tombstone bool) []byte {
	key := binary.BigEndian.AppendUint64(make([]byte, 0, tombstoneSize), uint64(main)) //nolint:gosec // Revisions are not negative.
	key = append(key, '_')
	key = binary.BigEndian.AppendUint64(key, uint64(sub)) //nolint:gosec // Revisions are not negative.
	if tombstone {
		key = append(key, tombstoneMark)
	}
	return key
}

// parseRevision tells the main revision of a stored change, and whether it deletes.
func parseRevision(key []byte) (main int64, tombstone, ok bool) {
	tombstone = len(key) == tombstoneSize && key[revisionSize] == tombstoneMark
	if len(key) != revisionSize && !tombstone || key[8] != '_' {
		return 0, false, false
	}
	main = mainRevision(key)
	sub := int64(binary.BigEndian.Uint64(key[9:])) //nolint:gosec // What does not fit is negative, and fails.
	return main, tombstone, main > 0 && sub >= 0
}

// mainRevision of 8 or more bytes; 0 if there are fewer.
func mainRevision(raw []byte) int64 {
	if len(raw) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(raw)) //nolint:gosec // etcd counts in int64 itself.
}

func bigEndian(v int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(v)) //nolint:gosec // The bytes of a negative one are what is wanted.
}

// kvFields finds in an mvccpb.KeyValue what has to be known of a stored change, without a copy of it.
func kvFields(raw []byte) (key []byte, version int64, ok bool) {
	const keyField, versionField = 1, 4
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return nil, 0, false
		}
		raw = raw[n:]
		switch {
		case number == keyField && kind == protowire.BytesType:
			key, n = protowire.ConsumeBytes(raw)
		case number == versionField && kind == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(raw)
			version = int64(v) //nolint:gosec // etcd counts in int64 itself.
		default:
			n = protowire.ConsumeFieldValue(number, kind, raw)
		}
		if n < 0 {
			return nil, 0, false
		}
		raw = raw[n:]
	}
	return key, version, true
}
