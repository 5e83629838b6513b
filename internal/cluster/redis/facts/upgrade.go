package facts

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

const (
	// canaryStarts is how long a pod with new settings is given to answer: longer than the download of an image takes.
	canaryStarts = 3 * time.Minute
	// canarySyncs is how long it is given to copy its primary.
	canarySyncs = 15 * time.Minute
)

// WantedCopies is the number of pods that a shard is to have now: one without replicas has another one while its pod is outdated.
func WantedCopies(v *model.View, shard int) int {
	n := v.Spec.Copies()
	if n == 1 && slices.ContainsFunc(v.Shards[shard], func(p *model.Pod) bool { return p.Ordinal == 0 && p.Outdated }) {
		return 2
	}
	return n
}

// GoesBack tells whether the specification asks for a version that cannot read what a shard's primary writes.
func GoesBack(v *model.View, shard int) bool {
	p := v.Primary(shard)
	return p != nil && software.Older(v.Spec.Version, p.Node.Version)
}

// LeavesOlderVersion tells whether a pod of the shard that stays could not copy a replica, if that became the primary.
func LeavesOlderVersion(v *model.View, best *model.Pod) bool {
	return slices.ContainsFunc(Staying(v, best.Shard), func(p *model.Pod) bool { return p.Node != nil && software.Older(p.Node.Version, best.Node.Version) })
}

// UnreachableVersion returns why servers cannot run spec.version, or do not; empty if they can.
func UnreachableVersion(v *model.View) string {
	for shard := range v.Shards {
		if p := v.Primary(shard); GoesBack(v, shard) {
			return fmt.Sprintf(
				"spec.version is %s, and %s, the primary of shard %d, runs %s already: an older server cannot read its data; set spec.version to %s or later",
				v.Spec.Version, p.Name, shard, p.Node.Version, p.Node.Version)
		}
	}
	for _, p := range v.Readable {
		if !p.Outdated && !software.SamePatchLine(p.Node.Version, v.Spec.Version) {
			return fmt.Sprintf("pod %s runs version %s and spec.version is %s: set spec.version or spec.image so that they agree",
				p.Name, p.Node.Version, v.Spec.Version)
		}
	}
	return ""
}

// RefusesRollout reports whether spec.version or a pod with new settings stops the rollout.
func RefusesRollout(v *model.View) bool {
	return UnreachableVersion(v) != "" || UnsyncedCanary(v) != ""
}

// SilentCanary returns which pod with new settings does not answer, and why; empty for none.
func SilentCanary(v *model.View) string {
	return unwellCanary(v, func(p *model.Pod) (string, bool) {
		return cmp.Or(p.Stuck, p.Error, p.Gate, "it does not answer"), p.Node == nil && !p.Unready.IsZero() && v.Now.Sub(p.Unready) >= canaryStarts
	})
}

// UnsyncedCanary returns which pod with new settings does not get into sync, and why; empty for
// none.
func UnsyncedCanary(v *model.View) string {
	return unwellCanary(v, func(p *model.Pod) (string, bool) {
		return "it is not in sync with its primary", p.Node != nil && p.Node.Self().Replica && !p.Node.LinkUp && !p.Started.IsZero() && Unlinked(v, p) >= canarySyncs
	})
}

// unwellCanary returns which pod with new settings is unwell while others keep their settings, and
// why; empty for none.
func unwellCanary(v *model.View, unwell func(p *model.Pod) (why string, is bool)) string {
	if !slices.ContainsFunc(v.Pods, func(p model.Pod) bool { return p.Outdated }) {
		return ""
	}
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Outdated || p.Deleting || p.NodeLost || lostDisk(v, p) || ServesWell(v, p) {
			continue // It is not for its settings.
		}
		if why, is := unwell(p); is {
			return fmt.Sprintf("pod %s has new settings and does not get well (%s); no other pod gets them: %s", p.Name, why, cure(v))
		}
	}
	return ""
}

// ServesWell tells whether another pod shows that what a pod was made from does.
func ServesWell(v *model.View, but *model.Pod) bool {
	return slices.ContainsFunc(v.Readable, func(p *model.Pod) bool {
		return p != but && !p.Outdated && p.Ready && !p.Node.Loading && (p.Node.LinkUp || !p.Node.Self().Replica)
	})
}

// cure is what to set back: to the latest version that runs with the former settings, because there is no way back from that.
func cure(v *model.View) string {
	former := ""
	for _, p := range v.Readable {
		if p.Outdated && (former == "" || software.CompareVersions(former, p.Node.Version) < 0) {
			former = p.Node.Version
		}
	}
	if former != "" && !software.SamePatchLine(former, v.Spec.Version) {
		return fmt.Sprintf("set spec.version back to %s, or correct what is wrong", former)
	}
	return "set the last change of the specification back, or correct what is wrong"
}
