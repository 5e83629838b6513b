package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// The version that pods are made with, in the record, follows spec.version in steps of one minor version, and never leaves the
// minor version that the members have agreed on behind before all of them have arrived there:
//
//	3.5.20 ──> 3.5.35 ──> 3.6.16 ──> 3.7.3        spec.version 3.7.3
//	          (patch)    (minor)    (minor)
//
// While one member is old the agreed version stays old too, so that a half-done upgrade can be set back by the image alone
// (https://etcd.io/docs/v3.6/upgrades/upgrade_3_6/). Afterwards only etcd's downgrade leads back, by one minor version
// (https://etcd.io/docs/v3.6/downgrades/downgrading-etcd/).

const (

	// ReasonDowngrade says that a downgrade waits for the members.
	ReasonDowngrade = "DowngradeWaits"
)

const (
	// stuckPatience is how long the first member with new settings may fail to run before they are set back: longer than the
	// download of an image that can be had takes to begin.
	stuckPatience = 90 * time.Second
	// sickPatience is the same for one that runs and is not ready: it may have a long log to read.
	sickPatience = 10 * time.Minute
)

// setVersion follows spec.version at once where that stays within the minor version that pods are made with, or nothing has come
// of it: what is not well may need exactly that. A half-done upgrade is set back while a member of the old version runs, because
// the members cannot agree on the new one as long as it does. Where none can run, what is on their disks decides: see onDisk. Where members
// begin with a backup something may have come of it that does not show.
func setVersion(s model.State) (cluster.Plan, bool) {
	from, to := s.Record.Version, s.Want.Version
	switch {
	case from == to, to.Minor == from.Minor && unsaved(s): // See backUpBeforeUpgrade.
		return cluster.Pass()
	case to.Minor == from.Minor:
	case !s.Known() && s.Record.InitialBackup() == nil && s.Record.Bootstrap != model.BootstrapRecovered && !slices.ContainsFunc(s.Pods, func(p model.Pod) bool { return p.Status != nil }):
	case to.Minor == s.ClusterVersion.Minor && to.Minor < from.Minor && (runs(s, to.Minor) || goingBack(s)):
	case to.Minor == onDisk(s): // Also forward, where etcd has refused an older version.
	default:
		return cluster.Pass()
	}
	if plan, waits := waitForFormat(s, to); waits {
		return plan, true
	}
	return cluster.Do(steps.SetVersion{From: from, To: to}, "spec.version is %s, and the pods are made with %s%s", to, from, withoutSnapshot(s))
}

// waitForFormat waits until all members write their data in a format that a version can read. One that does not answer while the others go
// back may not do so yet.
func waitForFormat(s model.State, to model.Version) (cluster.Plan, bool) {
	for _, p := range s.Pods {
		switch {
		case p.Status != nil && to.Minor < p.Status.Storage.Minor:
			return cluster.Wait(ReasonDowngrade, whileWaiting, "%s still writes its data in the format of %s", p.Name, p.Status.Storage)
		case p.Status == nil && p.Fatal == "" && to.Minor < p.Version.Minor && goingBack(s):
			return cluster.Wait(ReasonDowngrade, whileWaiting,
				"%s %s, and its data may still be in the format of %s, which %s cannot read: it is waited for", p.Name, trouble(&p), p.Version, to)
		}
	}
	return cluster.Pass()
}

// onDisk is the minor version that the members have agreed on where none of them can run, by what is on their disks; 0: unknown. A pod that
// has never run etcd has not changed its disk, whatever version it is made for, and etcd never agrees on a later version than its own. What
// an earlier pod did shows on the disk, but for the last moments before it was killed: etcd itself refuses to start from a log in which the
// members agree on a later version than its own (MustDetectDowngrade in server/etcdserver/version), and changes nothing.
func onDisk(s model.State) (minor int) {
	if !s.Known() {
		return 0
	}
	for _, m := range s.Record.Members {
		p := s.PodNamed(m.Name)
		if p == nil || p.Terminating || p.Status != nil || !p.Stuck || p.Agreed == 0 {
			return 0
		}
		if p.EverRan && (p.Version.Minor > p.Agreed || s.Want.ImageOverridden) {
			return 0
		}
		minor = max(minor, p.Agreed)
	}
	return minor
}

// whyNoWayBack says why the pods do not get the wanted version where no member answers, and what helps; empty otherwise.
func whyNoWayBack(s model.State) string {
	from, to, minor := s.Record.Version, s.Want.Version, onDisk(s)
	answers := slices.ContainsFunc(s.Pods, func(p model.Pod) bool { return p.Status != nil })
	if !s.Known() {
		return otherMinor(s)
	}
	if answers || starting(s) || (to.Minor >= from.Minor && minor <= from.Minor) {
		return ""
	}
	why := fmt.Sprintf("The members have agreed on version 3.%d of the cluster", minor)
	if minor == 0 {
		minor, why = from.Minor, fmt.Sprintf("A member may have run %s", from)
	}
	cure := ""
	if b := s.Record.Snapshot; b.Backup != "" && b.From.Minor < minor {
		cure = fmt.Sprintf(", or begin another cluster with Backup %s", b.Backup)
	}
	return fmt.Sprintf(". %s, and what it leaves is not for an older one: set spec.version to a 3.%d that can be had%s", why, minor, cure)
}

// otherMinor says what helps where no member can start from the data of an earlier cluster, which is of another minor version; empty
// otherwise.
func otherMinor(s model.State) string {
	minor := 0
	for _, p := range s.Pods {
		if p.Status != nil || !p.Stuck {
			return ""
		}
		minor = max(minor, p.Agreed)
	}
	if minor == 0 || minor == s.Want.Version.Minor || s.Record.Restores() {
		return ""
	}
	return fmt.Sprintf(". By what is on their volumes the members have agreed on version 3.%d of the cluster: set spec.version to a 3.%d, "+
		"and change it when the cluster is Ready", minor, minor)
}

// runs reports whether a member of a minor version runs and is not about to end.
func runs(s model.State, minor int) bool {
	return slices.ContainsFunc(s.Pods, func(p model.Pod) bool {
		return p.Running().Minor == minor && !p.Terminating && p.Version.Minor == minor
	})
}

// goingBack reports whether the members go back to an earlier version.
func goingBack(s model.State) bool {
	return slices.ContainsFunc(s.Pods, func(p model.Pod) bool { return p.Status != nil && p.Status.Downgrade != "" })
}

// VersionMoves reports whether the plan depends on the version that the members have agreed on.
func VersionMoves(s model.State) bool {
	return s.Record.Version != s.Want.Version || slices.ContainsFunc(s.Pods, func(p model.Pod) bool {
		return p.Status != nil && p.Running().Minor != s.Record.Version.Minor
	})
}

// keepAgreedVersion keeps the version of the pods at what the members have agreed on: an older one cannot start any more. That they
// agree can come between the decision to go back and the first pod that does.
func keepAgreedVersion(s model.State) (cluster.Plan, bool) {
	from, latest := s.Record.Version, latest(s)
	if latest.Minor <= from.Minor || s.Want.ImageOverridden || s.ClusterVersion.Minor <= from.Minor {
		return cluster.Pass() // For an image of another version, see refuseVersion.
	}
	return cluster.Do(steps.SetVersion{From: from, To: latest}, "the members have agreed on version %s of the cluster: %s cannot start any more", s.ClusterVersion, from)
}

// waitForVersion lets no member go back by a minor version while it is not known whether it could.
func waitForVersion(s model.State) (cluster.Plan, bool) {
	if latest(s).Minor > s.Record.Version.Minor && s.ClusterVersion.Minor == 0 {
		return cluster.Wait(steps.ReasonUpgrade, whileWaiting, "waiting for a member to tell the version of the cluster")
	}
	return cluster.Pass()
}

// latest is the newest version that runs.
func latest(s model.State) (v model.Version) {
	for _, p := range s.Pods {
		if r := p.Running(); v.Less(r) {
			v = r
		}
	}
	return v
}

// moves reports whether another version is to be reached, from one that all members run.
func moves(s model.State) bool { return s.Record.Version != s.Want.Version && !anyOutdated(s) }

// waitForAgreement waits until the members have agreed on the version that all of them run.
func waitForAgreement(s model.State) (cluster.Plan, bool) {
	from, agreed := s.Record.Version, s.ClusterVersion
	switch {
	case !moves(s):
		return cluster.Pass()
	case agreed.Minor == 0:
		return cluster.Wait(steps.ReasonUpgrade, whileWaiting, "waiting for a member to tell the version of the cluster")
	case agreed.Minor < from.Minor && !goingBack(s):
		return cluster.Wait(steps.ReasonUpgrade, whileWaiting, "all members run %s; waiting for them to agree on version 3.%d of the cluster, which is %s",
			from, from.Minor, agreed)
	}
	return cluster.Pass()
}

// upgrade takes the next step towards a later version, when all members are well and run what they should.
func upgrade(s model.State) (cluster.Plan, bool) {
	from, to := s.Record.Version, s.Want.Version
	if !moves(s) {
		return cluster.Pass()
	}
	next := model.Hop(from, to)
	if next != to && s.Want.ImageOverridden {
		return cluster.Refuse(ReasonVersion, "spec.version %s is reached through %s, but spec.image is an image of one version only: "+
			"remove it, or set spec.version to %s and spec.image to an image of that first", to, next, next)
	}
	for _, m := range s.Members {
		p := s.Pod(m)
		v := p.Running()
		if first := model.CapabilitiesOf(v).UpgradesFrom; next.Minor > v.Minor && v.Less(first) {
			return cluster.Refuse(ReasonVersion, "%s runs etcd %s, and 3.%d can only follow %s or later: set spec.image to such a version",
				p.Name, v, v.Minor+1, first)
		}
	}
	if unsaved(s) {
		return cluster.Pass() // See backUpBeforeUpgrade.
	}
	return cluster.Do(steps.SetVersion{From: from, To: next}, "all members run %s and are well: %s is next%s%s",
		from, next, onTheWay(next, to), withoutSnapshot(s))
}

// mustFlush reports whether the next version cannot read entries that an earlier version may have left in the log: 3.6 writes one
// snapshot in ten thousand entries only.
func mustFlush(s model.State) bool {
	from, to := model.CapabilitiesOf(s.Record.Version), model.CapabilitiesOf(s.Want.Version)
	return from.ReadsLegacyLog && !from.WritesLegacyLog && !to.ReadsLegacyLog && !s.Record.Flushed && !s.Want.ImageOverridden
}

// flushLog makes the members write a snapshot, before they are upgraded to a version that cannot read older entries of their log. They
// do so when they agree on an older version of the cluster (applierMembership in server/etcdserver/apply), which is taken
// back at once.
func flushLog(s model.State) (cluster.Plan, bool) {
	switch {
	case !moves(s) || !mustFlush(s):
		return cluster.Pass()
	case !goingBack(s) && unsaved(s):
		return cluster.Pass() // See backUpBeforeUpgrade.
	case !goingBack(s):
		return cluster.Do(steps.Downgrade{To: model.Version{Major: 3, Minor: s.Record.Version.Minor - 1}, Via: via(s, model.Member{})},
			"%s cannot read what 3.5 wrote into the log: the members are made to write a snapshot, by a downgrade that is taken back", s.Want.Version)
	}
	for _, p := range s.Pods {
		if p.Status != nil && !model.CapabilitiesOf(p.Status.Storage).WritesLegacyLog {
			return cluster.Wait(steps.ReasonUpgrade, whileWaiting, "waiting for %s to write a snapshot", p.Name)
		}
	}
	return cluster.Do(steps.NoteFlushed{}, "every member has written a snapshot")
}

func onTheWay(next, to model.Version) string {
	if next == to {
		return ""
	}
	return fmt.Sprintf(", on the way to %s", to)
}

// downgrade tells the members to go back by one minor version. When they have agreed and their data has the older format,
// setVersion takes over.
func downgrade(s model.State) (cluster.Plan, bool) {
	from, to := s.Record.Version, s.Want.Version
	switch {
	case !moves(s) || to.Minor >= from.Minor:
		return cluster.Pass()
	case to.Minor < from.Minor-1:
		return cluster.Refuse(ReasonVersion, "spec.version is %s and the members run %s, but etcd goes back by one minor version only: "+
			"set spec.version to a 3.%d first", to, from, from.Minor-1)
	}
	via := via(s, model.Member{})
	for _, p := range s.Pods {
		if p.Status != nil && p.Status.Downgrade != "" {
			return cluster.Wait(ReasonDowngrade, whileWaiting, "the members prepare to go back to %s", p.Status.Downgrade)
		}
	}
	return cluster.Do(steps.Downgrade{To: to, Via: via}, "spec.version is %s, and the members have agreed on %s", to, s.ClusterVersion)
}

// cancelDowngrade ends a downgrade that is not wanted any more.
func cancelDowngrade(s model.State) (cluster.Plan, bool) {
	if s.Want.Version.Minor < s.Record.Version.Minor || mustFlush(s) {
		return cluster.Pass()
	}
	for _, p := range s.Pods {
		if p.Status == nil || p.Status.Downgrade == "" {
			continue
		}
		if v, err := model.ParseVersion(p.Status.Downgrade); err == nil && v.Minor < s.Record.Version.Minor {
			return cluster.Do(steps.CancelDowngrade{Via: via(s, model.Member{})}, "spec.version is %s, and the members prepare to go back to %s",
				s.Want.Version, v)
		}
	}
	return cluster.Pass()
}

// revertRejected sets new settings back when the first member that got them does not get well. The others still run with those that are
// proven.
func revertRejected(s model.State) (cluster.Plan, bool) {
	if s.Record.Proven == "" || s.Record.Proven == s.Want.Settings || s.Record.Rejected == s.Want.Asked {
		return cluster.Pass()
	}
	c := canary(s)
	if c == nil {
		return cluster.Pass()
	}
	patience := sickPatience
	if c.Stuck {
		patience = stuckPatience
	}
	if c.Age < patience {
		return cluster.Pass()
	}
	verdict := fmt.Sprintf("%s, the first member that got the new settings, %s after %s", c.Name, trouble(c), patience)
	return cluster.Do(steps.Reject{Asked: s.Want.Asked, Verdict: verdict}, "%s: it gets the former ones back", verdict)
}

// canary is the first and only member with the new settings, if it is not well and nothing but them can be the cause: all others
// are well, and it has its data.
func canary(s model.State) *model.Pod {
	var first *model.Pod
	for _, r := range s.Record.Members {
		p := s.PodNamed(r.Name)
		switch {
		case p == nil || p.Terminating || s.Outdated(*p) != p.Ready:
			return nil // A member with the old settings is not well, or one with the new ones is.
		case !p.Ready && first != nil:
			return nil
		case !p.Ready:
			first = p
		}
	}
	if first == nil || first.Gate != nil || first.Fatal != "" || (first.Status != nil && first.Status.Learner) {
		return nil // What a learner lacks is data, and its settings have no part in how long that takes.
	}
	if c := s.Claim(first.Ordinal); c != nil && c.Lost != "" {
		return nil
	}
	return first
}

// recordProven remembers the settings with which all members are well, to be able to go back to them. What was rejected before is forgotten then:
// whoever asks for it again has mended what was wrong.
func recordProven(s model.State) (cluster.Plan, bool) {
	forget := s.Record.Rejected != "" && s.Record.Rejected != s.Want.Asked
	if (s.Record.Proven == s.Want.Settings && !forget) || anyOutdated(s) {
		return cluster.Pass()
	}
	return cluster.Do(steps.Prove{Settings: s.Want.Settings, Forget: forget}, "all members are well with these settings")
}

func anyOutdated(s model.State) bool {
	return slices.ContainsFunc(s.Members, func(m model.Member) bool { return s.Outdated(*s.Pod(m)) })
}

// reportRejected says why the cluster is not as specified.
func reportRejected(s model.State) (cluster.Plan, bool) {
	if s.Record.Rejected == "" || s.Record.Rejected != s.Want.Asked {
		return cluster.Pass()
	}
	return cluster.Refuse(steps.ReasonCanary, "the specification was set back: %s. Change the specification; the cluster runs on with its former settings",
		s.Record.Verdict)
}

// waitForLag waits until no member is far behind: the next to be restarted may be one that the others need.
func waitForLag(s model.State) (cluster.Plan, bool) {
	var most uint64
	for _, m := range s.Members {
		most = max(most, s.Pod(m).Status.Applied)
	}
	for _, m := range s.Members {
		if p := s.Pod(m); most-p.Status.Applied > maxLag {
			return cluster.Wait(ReasonMembersNotReady, whileWaiting, "%s is %d log entries behind", p.Name, most-p.Status.Applied)
		}
	}
	return cluster.Pass()
}
