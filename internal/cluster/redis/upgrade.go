package redis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// A newer server reads what an older one wrote, and copies an older primary; not the other way round. So all replicas of a
// shard run the newer version before it is handed to one of them, and once it was there is no way back:
//
//	c-0-0 8.0 primary      c-0-0 8.0 primary      c-0-0 8.0 replica      c-0-0 8.2 replica
//	c-0-1 8.0 replica ──>  c-0-1 8.2 replica ──>  c-0-1 8.2 primary ──>  c-0-1 8.2 primary
//	            a restart              a failover             a restart
//
// A shard without replicas gets one for that time: it is handed to the pod that is new, and handed back.

const (
	// canaryStarts is how long a pod with new settings is given to answer: longer than the download of an image takes.
	canaryStarts = 3 * time.Minute
	// canarySyncs is how long it is given to copy its primary.
	canarySyncs = 15 * time.Minute
)

// Older tells whether one version is of an earlier minor than another. One that cannot be read proves nothing.
func Older(a, b string) bool {
	x, errX := ParseVersion(a)
	y, errY := ParseVersion(b)
	return errX == nil && errY == nil && cmp.Or(cmp.Compare(x.Major, y.Major), cmp.Compare(x.Minor, y.Minor)) < 0
}

// target is the number of pods that a shard is to have now: one without replicas has another one while its pod is outdated.
func (v *view) target(shard int) int {
	n := v.Spec.Copies()
	if n == 1 && slices.ContainsFunc(v.shards[shard], func(p *Pod) bool { return p.Ordinal == 0 && p.Outdated }) {
		return 2
	}
	return n
}

// goesBack tells whether the specification asks for a version that cannot read what a shard's primary writes.
func (v *view) goesBack(shard int) bool {
	p := v.primary(shard)
	return p != nil && Older(v.Spec.Version, p.Node.Version)
}

// leavesBehind tells whether a pod of the shard that stays could not copy a replica, if that became the primary.
func (v *view) leavesBehind(best *Pod) bool {
	return slices.ContainsFunc(v.staying(best.Shard), func(p *Pod) bool { return p.Node != nil && Older(p.Node.Version, best.Node.Version) })
}

// leftBehind tells whether a replica is not connected to a primary that it is too old for.
func (v *view) leftBehind(p *Pod) bool {
	primary := v.head(p.Shard)
	return primary != nil && p != primary && p.Node != nil && !p.Node.LinkUp && Older(p.Node.Version, primary.Node.Version)
}

// refuseVersion stops where the version cannot be reached.
func refuseVersion(v *view) (cluster.Plan, bool) {
	return refuseIf(ReasonVersion, v.unreachableVersion())
}

// unreachableVersion returns why servers cannot run spec.version, or do not; empty if they can.
func (v *view) unreachableVersion() string {
	for shard := range v.shards {
		if p := v.primary(shard); v.goesBack(shard) {
			return fmt.Sprintf(
				"spec.version is %s, and %s, the primary of shard %d, runs %s already: an older server cannot read its data; set spec.version to %s or later",
				v.Spec.Version, p.Name, shard, p.Node.Version, p.Node.Version)
		}
	}
	for _, p := range v.read {
		if !p.Outdated && !samePatchLine(p.Node.Version, v.Spec.Version) {
			return fmt.Sprintf("pod %s runs version %s and spec.version is %s: set spec.version or spec.image so that they agree",
				p.Name, p.Node.Version, v.Spec.Version)
		}
	}
	return ""
}

// refusesRollout reports whether spec.version or a pod with new settings stops the rollout.
func (v *view) refusesRollout() bool { return v.unreachableVersion() != "" || v.unsyncedCanary() != "" }

// refuseIf returns a refusal with a message; none if that is empty.
func refuseIf(reason, message string) (cluster.Plan, bool) {
	if message == "" {
		return cluster.Pass()
	}
	return cluster.Refuse(reason, "%s", message)
}

// refuseCanary tells when a pod with new settings does not answer. The others wait for it, and keep the old ones.
func refuseCanary(v *view) (cluster.Plan, bool) { return refuseIf(ReasonCanary, v.silentCanary()) }

// silentCanary returns which pod with new settings does not answer, and why; empty for none.
func (v *view) silentCanary() string {
	return v.unwellCanary(func(p *Pod) (string, bool) {
		return cmp.Or(p.Stuck, p.Error, p.Gate, "it does not answer"), p.Node == nil && !p.Unready.IsZero() && v.Now.Sub(p.Unready) >= canaryStarts
	})
}

// refuseUnsynced tells when it answers and does not get into sync.
func refuseUnsynced(v *view) (cluster.Plan, bool) { return refuseIf(ReasonCanary, v.unsyncedCanary()) }

// unsyncedCanary returns which pod with new settings does not get into sync, and why; empty for
// none.
func (v *view) unsyncedCanary() string {
	return v.unwellCanary(func(p *Pod) (string, bool) {
		return "it is not in sync with its primary", p.Node != nil && p.Node.Self().Replica && !p.Node.LinkUp && !p.Started.IsZero() && v.unlinked(p) >= canarySyncs
	})
}

// unwellCanary returns which pod with new settings is unwell while others keep their settings, and
// why; empty for none.
func (v *view) unwellCanary(unwell func(p *Pod) (why string, is bool)) string {
	if !slices.ContainsFunc(v.Pods, func(p Pod) bool { return p.Outdated }) {
		return ""
	}
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Outdated || p.Deleting || p.NodeLost || v.lostDisk(p) || v.works(p) {
			continue // It is not for its settings.
		}
		if why, is := unwell(p); is {
			return fmt.Sprintf("pod %s has new settings and does not get well (%s); no other pod gets them: %s", p.Name, why, v.cure())
		}
	}
	return ""
}

// works tells whether another pod shows that what a pod was made from does.
func (v *view) works(but *Pod) bool {
	return slices.ContainsFunc(v.read, func(p *Pod) bool {
		return p != but && !p.Outdated && p.Ready && !p.Node.Loading && (p.Node.LinkUp || !p.Node.Self().Replica)
	})
}

// cure is what to set back: to the latest version that runs with the former settings, because there is no way back from that.
func (v *view) cure() string {
	former := ""
	for _, p := range v.read {
		if p.Outdated && (former == "" || compareVersions(former, p.Node.Version) < 0) {
			former = p.Node.Version
		}
	}
	if former != "" && !samePatchLine(former, v.Spec.Version) {
		return fmt.Sprintf("set spec.version back to %s, or correct what is wrong", former)
	}
	return "set the last change of the specification back, or correct what is wrong"
}

// surge gives outdated shards without replicas one for the time of their restart. The first one has to prove the new template
// alone; then so many follow at a time that the others can outvote them.
func surge(v *view) (cluster.Plan, bool) {
	most := max(1, (len(v.shards)-1)/2)
	if !v.proven() {
		most = 1
	}
	var step ScaleShards
	for shard := range v.shards {
		if to := v.target(shard); v.size(shard) < to && len(step.Sets) < most && !v.idle(shard) {
			step.Sets = append(step.Sets, v.resize(shard, to))
		}
	}
	if len(step.Sets) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "primaries without replicas are to be restarted: each gets one for that time, so that its data stays in service")
}
