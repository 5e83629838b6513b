package etcd

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// A cluster that exists begins anew with a backup in the phases of a recovery (see Recovery), but that nobody goes on:
//
//	Held      every member ends, and none starts.
//	Started   the cluster has no identity any more. The gates set aside what their members have, and fill the disks from the backup.
//	Over      the members have founded the cluster anew.
//
// What is restored is part of the record from the first phase on: what becomes of the Restore meanwhile changes nothing.

// Anew is a backup that a cluster which exists is to begin anew with.
type Anew struct {
	// Noun is who asks for it, for people.
	Noun string
	// Plan that was confirmed. With the time it is the incident that volumes bear afterwards.
	Plan    string
	Restore Restore
}

// BeganWith reports whether the cluster was founded with the backup of the token.
func (r Record) BeganWith(token string) bool {
	return r.ClusterID != 0 && r.Restore != nil && r.Restore.Token == token && !r.BeginsAnew()
}

// BeginsWith reports whether the cluster is about to be founded anew with the backup of the token: there is no way back.
func (r Record) BeginsWith(token string) bool {
	return (r.Restore != nil && r.Restore.Token == token) || (r.Recovery.Anew != nil && r.Recovery.Anew.Token == token)
}

// Unsuited says why a backup of one version cannot be restored into pods of another, empty when it can.
func Unsuited(backup string, pods Version) string {
	from, err := ParseVersion(backup)
	if err == nil && RunsDataOf(pods, from) {
		return ""
	}
	return fmt.Sprintf("it is of etcd %s, which can be restored into the same minor version or the next one, and the pods are of %s", backup, pods)
}

// Replaces says what becomes of what the members have when a cluster begins anew.
func Replaces(members int, persistent bool, name string) string {
	kept := "What they have now goes with their pods, because there is no spec.storage."
	if persistent {
		kept = fmt.Sprintf("What they have now is set aside as %s-<time> on their volumes, which need room for both.", CopyName(name))
	}
	return fmt.Sprintf("All %d members end, clients are cut off until they are back, and what was written since the backup is not in it. %s", members, kept)
}

// restoreFails reports whether the cluster begins anew with a backup that no member can be filled from: another one may take its place.
func (s State) restoreFails() bool {
	fails := false
	for _, p := range s.Pods {
		if p.View != nil || p.EverRan {
			return false
		}
		fails = fails || (p.Gate != nil && p.Gate.Reason == GateRestore)
	}
	return fails && s.beginsAnew()
}

// newestRevision that watchers and caches of the cluster may have seen, as far as is known.
func (s State) newestRevision() int64 {
	newest := s.Upkeep.Newest.Revision
	for _, p := range s.Pods {
		if p.View != nil {
			newest = max(newest, p.View.Revision)
		}
	}
	if r := s.Record.Restore; r != nil {
		newest = max(newest, r.Revision+r.Bump, r.AtLeast+r.Bump)
	}
	return newest
}

// StartAnew takes the identity from a cluster none of whose members runs, so that they found it anew with a backup.
type StartAnew struct{ To Recovery }

func (s StartAnew) String() string { return "begin anew with " + s.To.Anew.Directory }

// Edit makes members with an empty disk found the cluster.
func (s StartAnew) Edit(r *Record) {
	r.Recovery, r.Restore = s.To, s.To.Anew
	r.Bootstrap, r.ClusterID, r.Flushed, r.Snapshot = BootstrapNew, 0, false, Snapshot{}
}

// restoreInPlace writes down that the cluster begins anew with a backup, once that was confirmed.
func restoreInPlace(s State) (cluster.Plan, bool) {
	a := s.Want.Anew
	if a == nil || s.Record.BeginsWith(a.Restore.Token) || (!s.known() && !s.restoreFails()) || (s.known() && s.beginsAnew()) {
		return cluster.Pass()
	}
	restore := a.Restore
	restore.Bump += max(0, s.newestRevision()-restore.AtLeast)
	incident := a.Plan + "-" + s.Now.UTC().Format("20060102T150405Z")
	held := Recovery{Incident: incident, Phase: RecoveryHeld, Since: s.Now.UTC().Truncate(time.Second), Anew: &restore}
	return cluster.Do(SetRecovery{held}, "%s is confirmed: all members end, and begin anew with %s", a.Noun, a.Restore.Directory)
}

// holdAnew ends every member, and goes on when all start gates hold in pods that clients are not sent to.
func (s State) holdAnew(r Recovery) (cluster.Plan, bool) {
	for i, m := range s.Record.Members {
		p, c := s.podNamed(m.Name), s.claim(i)
		switch {
		case c != nil && c.Lost != "" && !c.Leaving:
			return cluster.Do(c.deletion(), "%s has lost its volume (%s), and begins anew with another one", m.Name, c.Lost)
		case p.held() && !c.leaving():
			continue
		case p != nil && (c.leaving() || p.EverRan || !p.Drained || p.Gate != nil) && (!p.Terminating || p.Gone):
			return cluster.Do(p.deletion(), "%s ends, because the cluster begins anew with %s", p.Name, r.Anew.Directory)
		}
		return cluster.Wait(ReasonRestoring, whileWaiting, "the cluster begins anew with %s when no member runs any more: %s %s", r.Anew.Directory, m.Name, trouble(p))
	}
	next := r
	next.Phase = RecoveryStarted
	return cluster.Do(StartAnew{next}, "no member runs any more: each sets aside what it has, and begins with %s", r.Anew.Directory)
}

// held reports whether a pod does nothing but wait until no member runs any more, and has no clients afterwards either.
func (p *Pod) held() bool {
	return p != nil && !p.EverRan && p.Drained && !p.Terminating && p.Gate != nil && p.Gate.Reason == GateHeld
}

// foundAnew replaces the pods whose gates do not know yet that they may go on. Everything else is as in a new cluster.
func (s State) foundAnew() (cluster.Plan, bool) {
	for _, p := range s.Pods {
		if p.Gate != nil && p.Gate.Reason == GateHeld && (!p.Terminating || p.Gone) {
			return cluster.Do(p.deletion(), "%s was held back until no member ran any more", p.Name)
		}
	}
	return cluster.Pass()
}

// BeginsAnew reports whether a cluster that had clients before is being founded anew: the client Service leads to no member until its identity
// is recorded and authentication is as specified.
func (r Record) BeginsAnew() bool {
	return r.Recovery.Anew != nil && (r.Recovery.Phase == RecoveryHeld || r.Recovery.Phase == RecoveryStarted)
}

// BeginWith is the backup that members with an empty disk begin with, or are about to, nil for none.
func (r Record) BeginWith() *Restore {
	switch {
	case r.BeginsAnew():
		return r.Recovery.Anew
	case r.Restores():
		return r.Restore
	}
	return nil
}

// finishRestoreInPlace lets clients come back, last.
func finishRestoreInPlace(s State) (cluster.Plan, bool) {
	if !s.Record.BeginsAnew() {
		return cluster.Pass()
	}
	over := s.Record.Recovery
	over.Phase = RecoveryOver
	return cluster.Do(SetRecovery{over}, "the cluster began anew with %s; what its members had is in %s of their volumes", over.Anew.Directory, CopyName(over.Incident))
}

func (s State) beginsAnew() bool { return s.Record != nil && s.Record.BeginsAnew() }

// otherBackup says what can be done where the backup cannot be restored, empty while it may.
func (s State) otherBackup() string {
	if !s.restoreFails() {
		return ""
	}
	return fmt.Sprintf(", which fails (what they had is in %s of their volumes; to go on with another backup, delete this Restore and confirm another one)",
		CopyName(s.Record.Recovery.Incident))
}
