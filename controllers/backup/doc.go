// Package backup reconciles Backups and BackupSchedules. The kinds of clusters say how a Job
// reads their data: they implement SourceKind. Data never passes through the operator.
package backup
