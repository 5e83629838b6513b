package planner

import "github.com/quorate/quorate/internal/cluster"

// deletion is the order of the rules for a Backup that is being deleted.
var deletion = []cluster.Phase[State]{
	cluster.NewPhase("delete", "nothing may read or write the data while it is deleted",
		cluster.NewRule("keepData", "data that is retained or goes with its claim needs no deletion", keepData),
		cluster.NewRule("stopJobs", "a Job that still writes would leave a part behind", stopJobs),
		cluster.NewRule("waitForReaders", "a restore that reads the data would fail half-way", waitForReaders),
		cluster.NewRule("removeData", "the store loses the data", removeData),
		cluster.NewRule("release", "the finalizer goes when the data is gone", release),
	),
}

// backup is the order of the rules for any other Backup.
var backup = []cluster.Phase[State]{
	cluster.NewPhase("prepare", "the finalizer is in place and leftover Jobs are gone before a Job is created",
		cluster.NewRule("protect", "the finalizer comes before the first byte, or a deletion would leave the data in the store", protect),
		cluster.NewRule("waitWhileLeaving", "a Job that is being deleted keeps its name", waitWhileLeaving),
		cluster.NewRule("dropHeld", "a pod that keeps running after its Job has ended holds volumes", dropHeld),
	),
	cluster.NewPhase("take", "the backup is taken once, and then checked",
		cluster.NewRule("takeOrFail", "without a complete backup there is nothing to check", takeOrFail),
		cluster.NewRule("check", "only a complete backup is checked", check),
	),
}

// restore is the order of the rules for a Restore.
var restore = []cluster.Phase[RestoreState]{
	cluster.NewPhase("look up", "the backup and its target are known before confirmation",
		cluster.NewRule("watchTarget", "once the cluster has begun, the Restore only watches", watchTarget),
		cluster.NewRule("lookUp", "the backup is read before the plan names it", lookUp),
		cluster.NewRule("fits", "a backup that the cluster cannot load is refused before it is confirmed", fits),
	),
	cluster.NewPhase("confirm", "data is replaced only after the user has confirmed this very plan",
		cluster.NewRule("confirm", "the plan has an identity that the confirmation repeats", confirm),
		cluster.NewRule("awaitCopy", "what the cluster has now is saved before it is replaced", awaitCopy),
		cluster.NewRule("begins", "the cluster carries the restore out itself", begins),
	),
}

// schedule is the order of the rules for a BackupSchedule.
var schedule = []cluster.Phase[ScheduleState]{
	cluster.NewPhase("recorder", "an invalid schedule is refused and an unneeded recorder deleted before backups are taken",
		cluster.NewRule("refuseSchedule", "without a valid schedule nothing is ever due", refuseSchedule),
		cluster.NewRule("stopRecorder", "a recorder that is not wanted any more must not ask for backups", stopRecorder),
	),
	cluster.NewPhase("take", "a backup that is due comes before one that is only useful",
		cluster.NewRule("takeDue", "the schedule is what the user has asked for", takeDue),
		cluster.NewRule("takeForRecorder", "recorded changes need a backup to start from", takeForRecorder),
	),
	cluster.NewPhase("keep", "backups are checked and deleted when none has to be taken",
		cluster.NewRule("checkDue", "a due check of the newest backup starts before retention deletes others", checkDue),
		cluster.NewRule("expire", "retention deletes the oldest backup that it does not keep", expire),
	),
}
