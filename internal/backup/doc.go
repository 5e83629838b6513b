// Package backup keeps backups where users want them: an S3 bucket, a bucket of Google or Azure, a
// directory. It defines what is stored and how it is proven whole. It must not know Kubernetes, nor
// when a backup is taken or deleted (package planner), nor how a data store is read or filled
// (packages etcdsnapshot, etcdhistory, etcdrestore and redisdump).
//
// A backup is a directory of parts, and of a manifest that is written last. What has no manifest is no backup:
//
//	fill ──> sha256, size ──> zstd ──> age ──> sha256, size ──> upload        any number of parts, in any order
//	              │                                 │
//	              └────────────> Part <─────────────┘
//	                              │
//	                           Manifest ──> manifest.json                      the last write of a backup, the first delete
//
// Everything streams, so memory use does not depend on the size of a part: an upload holds at most four pieces of it (see partSize).
// docs/backup-format.md describes what is stored, for those who have to read it without Quorate.
package backup
