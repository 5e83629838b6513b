package planner

import "github.com/quorate/quorate/internal/cluster"

// Steps of a Backup.

func (Protect) Meta() cluster.Meta { return cluster.Meta{Reason: "AddingFinalizer"} }
func (Take) Meta() cluster.Meta    { return cluster.Meta{Reason: ReasonTaking} }
func (Resume) Meta() cluster.Meta  { return cluster.Meta{Reason: ReasonTaking} }
func (Check) Meta() cluster.Meta   { return cluster.Meta{Reason: ReasonVerifying} }
func (DropJob) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonStopping} }
func (Remove) Meta() cluster.Meta  { return cluster.Meta{Reason: ReasonDeleting} }
func (Release) Meta() cluster.Meta { return cluster.Meta{Reason: "Releasing"} }

// Steps of a BackupSchedule.

func (CreateBackup) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonScheduling} }
func (CheckBackup) Meta() cluster.Meta  { return cluster.Meta{Reason: ReasonVerifying} }
func (DeleteBackup) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonExpiring} }
func (StopRecorder) Meta() cluster.Meta { return cluster.Meta{Reason: "StoppingRecorder"} }

// Steps of a restore.

func (SaveCurrent) Meta() cluster.Meta    { return cluster.Meta{Reason: ReasonSaving} }
func (FindBackup) Meta() cluster.Meta     { return cluster.Meta{Reason: ReasonRestoring} }
func (DropRestoreJob) Meta() cluster.Meta { return cluster.Meta{Reason: ReasonRestoring} }
func (NoteLoaded) Meta() cluster.Meta     { return cluster.Meta{Reason: ReasonRestored} }
