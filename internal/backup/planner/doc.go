// Package planner decides what happens to a Backup, a BackupSchedule and a Restore: ordered rules turn an observed
// state into one step, a wait or a refusal. It must not read or write anything: no Kubernetes API, no store, no clock.
// It must not build manifests either; package job does.
package planner
