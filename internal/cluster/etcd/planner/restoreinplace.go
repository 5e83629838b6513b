package planner

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// A restore in place replaces the data of an existing cluster with a backup. It goes through the
// phases of a recovery (see model.Recovery), without a survivor:
//
//	Held      every member ends, and none starts.
//	Started   the record has no cluster id any more. The gates quarantine the data of their
//	          members, and fill the disks from the backup.
//	Over      the members have founded the cluster from the backup.
//
// The record holds what is restored from the first phase on, so that later changes of the Restore
// have no effect.

// restoreFails reports whether no member can be filled from the backup of a restore in place:
// another backup may take its place.
func restoreFails(s model.State) bool {
	fails := false
	for _, p := range s.Pods {
		if p.Status != nil || p.EverRan {
			return false
		}
		fails = fails || (p.Gate != nil && p.Gate.Reason == model.GateRestore)
	}
	return fails && restoresInPlace(s)
}

// newestRevision that watchers and caches of the cluster may have seen, as far as is known.
func newestRevision(s model.State) int64 {
	newest := s.Maintenance.Newest.Revision
	for _, p := range s.Pods {
		if p.Status != nil {
			newest = max(newest, p.Status.Revision)
		}
	}
	if r := s.Record.Restore; r != nil {
		newest = max(newest, r.Revision+r.Bump, r.AtLeast+r.Bump)
	}
	return newest
}

// restoreInPlace records the start of a restore in place, once that was confirmed.
func restoreInPlace(s model.State) (cluster.Plan, bool) {
	a := s.Want.RestoreInPlace
	if a == nil || s.Record.RestoresFrom(a.Restore.Token) || (!s.Known() && !restoreFails(s)) || (s.Known() && restoresInPlace(s)) {
		return cluster.Pass()
	}
	restore := a.Restore
	restore.Bump += max(0, newestRevision(s)-restore.AtLeast)
	incident := a.Plan + "-" + s.Now.UTC().Format("20060102T150405Z")
	held := model.Recovery{Incident: incident, Phase: model.RecoveryHeld, Since: s.Now.UTC().Truncate(time.Second), Restore: &restore}
	return cluster.Do(steps.SetRecovery{To: held}, "%s is confirmed: all members end, and begin anew with %s", a.Noun, a.Restore.Directory)
}

// holdForRestore ends every member, and goes on when all start gates hold in pods that clients are not sent to.
func holdForRestore(s model.State, r model.Recovery) (cluster.Plan, bool) {
	for i, m := range s.Record.Members {
		p, c := s.PodNamed(m.Name), s.Claim(i)
		switch {
		case c != nil && c.Lost != "" && !c.Leaving:
			return cluster.Do(deleteClaim(*c), "%s has lost its volume (%s), and begins anew with another one", m.Name, c.Lost)
		case isHeld(p) && !leaving(c):
			continue
		case p != nil && (leaving(c) || p.EverRan || !p.Drained || p.Gate != nil) && (!p.Terminating || p.Gone):
			return cluster.Do(deletePod(*p), "%s ends, because the cluster begins anew with %s", p.Name, r.Restore.Directory)
		}
		return cluster.Wait(steps.ReasonRestoring, whileWaiting, "the cluster begins anew with %s when no member runs any more: %s %s", r.Restore.Directory, m.Name, trouble(p))
	}
	next := r
	next.Phase = model.RecoveryStarted
	return cluster.Do(steps.StartRestore{To: next}, "no member runs any more: each sets aside what it has, and begins with %s", r.Restore.Directory)
}

// isHeld reports whether a pod does nothing but wait until no member runs any more, and has no clients afterwards either.
func isHeld(p *model.Pod) bool {
	return p != nil && !p.EverRan && p.Drained && !p.Terminating && p.Gate != nil && p.Gate.Reason == model.GateHeld
}

// foundFromBackup replaces the pods whose gates do not know yet that they may go on. Everything else is as in a new cluster.
func foundFromBackup(s model.State) (cluster.Plan, bool) {
	for _, p := range s.Pods {
		if p.Gate != nil && p.Gate.Reason == model.GateHeld && (!p.Terminating || p.Gone) {
			return cluster.Do(deletePod(p), "%s was held back until no member ran any more", p.Name)
		}
	}
	return cluster.Pass()
}

// finishRestoreInPlace lets clients come back, last.
func finishRestoreInPlace(s model.State) (cluster.Plan, bool) {
	if !s.Record.RestoresInPlace() {
		return cluster.Pass()
	}
	over := s.Record.Recovery
	over.Phase = model.RecoveryOver
	return cluster.Do(steps.SetRecovery{To: over}, "the cluster began anew with %s; what its members had is in %s of their volumes", over.Restore.Directory, model.CopyName(over.Incident))
}

func restoresInPlace(s model.State) bool { return s.Record != nil && s.Record.RestoresInPlace() }

// otherBackup says what can be done where the backup cannot be restored, empty while it may.
func otherBackup(s model.State) string {
	if !restoreFails(s) {
		return ""
	}
	return fmt.Sprintf(", which fails (what they had is in %s of their volumes; to go on with another backup, delete this Restore and confirm another one)",
		model.CopyName(s.Record.Recovery.Incident))
}
