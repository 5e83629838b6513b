package planner

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// The volumes of a running cluster become what spec.storage asks for:
//
//	asked for                              what happens
//	----------------------------------------------------------------------------------------------
//	more, and the volumes can grow         their claims ask for more; no pod restarts
//	more, and they cannot; less;           one member after the other leaves the cluster and joins it
//	another StorageClass                   again with a new claim, the leader last
//
// The claims are made from a template that a StatefulSet cannot change. So the set goes first, without its pods, and comes
// back with the new template around them. Its template is the decision: the quota follows it, and what the volumes have.

const (

	// enough members that one can leave and join again while the others are a quorum.
	enough = 3
)

// ResizeWords says what the conditions of a claim tell of its expansion, empty when they tell nothing.
func ResizeWords(conditions []corev1.PersistentVolumeClaimCondition) string {
	said := map[corev1.PersistentVolumeClaimConditionType]string{}
	for _, c := range conditions {
		if c.Status == corev1.ConditionTrue {
			said[c.Type] = c.Message
		}
	}
	for _, known := range []struct {
		typ   corev1.PersistentVolumeClaimConditionType
		words string
	}{
		{corev1.PersistentVolumeClaimControllerResizeError, "the volume cannot be expanded"},
		{corev1.PersistentVolumeClaimNodeResizeError, "the node cannot expand the file system"},
		{corev1.PersistentVolumeClaimFileSystemResizePending, "the volume has grown, and its node is to expand the file system"},
		{corev1.PersistentVolumeClaimResizing, "the volume is being expanded"},
	} {
		message, ok := said[known.typ]
		switch {
		case ok && message == "":
			return known.words
		case ok:
			return known.words + ": " + message
		}
	}
	return ""
}

// MovesTo is the StorageClass that volumes are to be moved to, empty when they are not.
func MovesTo(s model.State) string {
	moves := s.Set != nil && !s.Want.Storage.Takes(s.Set.Storage.Class)
	for _, c := range s.Claims {
		moves = moves || (c.Ordinal < s.Want.Size && !s.Want.Storage.Takes(c.Class))
	}
	if !moves {
		return ""
	}
	return s.Want.Storage.Class
}

// staying are the claims of the members that spec.size asks for.
func staying(s model.State) []model.Claim {
	n := min(len(s.Record.Members), s.Want.Size)
	return slices.DeleteFunc(slices.Clone(s.Claims), func(c model.Claim) bool { return c.Ordinal >= n })
}

// misfits are the claims of members that have to be replaced.
func misfits(s model.State) []model.Claim {
	return slices.DeleteFunc(staying(s), func(c model.Claim) bool { return s.Want.Misfit(c) == "" })
}

// refusedStorage says why the volumes cannot become what is asked for, and what to do; empty while they can.
func refusedStorage(s model.State) string {
	w, misfits := s.Want, misfits(s)
	switch {
	case w.NoClass:
		return fmt.Sprintf("StorageClass %s does not exist: create it, or set spec.storage.className to another one", w.Storage.Class)
	case shrinks(s) && largestClaim(s) > w.StorageQuota:
		return fmt.Sprintf("spec.storage.size is %s, which leaves %s to the database, and that has %s: delete keys and have it "+
			"defragmented, or set a larger size", model.Bytes(w.Storage.Size), model.Bytes(w.StorageQuota), model.Bytes(largestClaim(s)))
	case len(misfits) > 0 && w.Size < enough:
		return fmt.Sprintf("%s %s, spec.storage asks for %s, and the data of the only member has nowhere to stay meanwhile: set "+
			"spec.size to %d, and back when the volumes are as specified", misfits[0].Name, w.Misfit(misfits[0]), w.Storage, enough)
	}
	for _, c := range staying(s) {
		if w.Outgrows(c) && c.Refused != "" {
			return fmt.Sprintf("%s cannot be expanded from %s to %s: %s", c.Name, model.Bytes(c.Capacity), model.Bytes(w.Storage.Size), c.Refused)
		}
	}
	return ""
}

// shrinks reports whether smaller volumes are asked for than there are, or are to be.
func shrinks(s model.State) bool {
	return (s.Set != nil && s.Set.Storage.Size > s.Want.Storage.Size) ||
		slices.ContainsFunc(misfits(s), func(c model.Claim) bool { return min(c.Request, c.Capacity) > s.Want.Storage.Size })
}

// largestClaim is the size of the largest database.
func largestClaim(s model.State) (size int64) {
	for _, p := range s.Pods {
		if p.Status != nil {
			size = max(size, p.Status.DBSize)
		}
	}
	return size
}

// recreateStatefulSet gives the StatefulSet the claim template that is asked for. It restarts nobody and needs no quorum: a volume that
// cannot be made, or that is too small, may be what keeps members from running. Smaller volumes mean a smaller quota, so these
// wait until every database is known to be below it. With spec.storage.deletionPolicy Delete the claims refer to the set as their
// owner; it lets go of them first, or Kubernetes would delete them with it.
func recreateStatefulSet(s model.State) (cluster.Plan, bool) {
	if s.Set == nil || s.Want.Storage.MadeBy(s.Set.Storage) || s.Want.StorageChanged || refusedStorage(s) != "" {
		return cluster.Pass()
	}
	if shrinks(s) && s.Known() && (s.Members == nil || !allVote(s)) {
		return cluster.Pass()
	}
	if i := slices.IndexFunc(staying(s), func(c model.Claim) bool { return c.Owned && !c.Leaving }); i >= 0 || !s.Set.KeepsClaims {
		return cluster.Wait(steps.ReasonVolumes, whileWaiting, "waiting until no claim goes with the StatefulSet, which is to be made anew around its pods")
	}
	return cluster.Do(steps.RemakeSet{UID: s.Set.UID}, "spec.storage asks for %s, and the StatefulSet makes volumes of %s: it is made anew around "+
		"its pods, which run on", s.Want.Storage, s.Set.Storage)
}

// deletePendingClaims deletes a claim that has no volume yet, and so no data, and asks for another one than is wanted: its pod would wait
// for what cannot be had. One that is younger than the set was made as wanted, whatever became of it.
func deletePendingClaims(s model.State) (cluster.Plan, bool) {
	if s.Set == nil || !s.Want.Storage.MadeBy(s.Set.Storage) {
		return cluster.Pass()
	}
	for _, c := range staying(s) {
		asks := model.Storage{Size: c.Request, Class: c.Class}
		if c.Pending && !c.Leaving && c.Age > s.Set.Age && !s.Want.Storage.MadeBy(asks) {
			return cluster.Do(deleteClaim(c), "%s waits for a volume of %s, and spec.storage asks for %s", c.Name, asks, s.Want.Storage)
		}
	}
	return cluster.Pass()
}

// expandVolumes makes the claims of the members ask for larger volumes. It takes nothing away from anybody and needs no quorum: a full
// disk may be what keeps members from running.
func expandVolumes(s model.State) (cluster.Plan, bool) {
	for _, c := range staying(s) {
		if c.Expandable(s.Want) {
			return cluster.Do(steps.ExpandClaim{Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion, Size: s.Want.Storage.Size}, "spec.storage.size is %s, and %s has %s",
				model.Bytes(s.Want.Storage.Size), c.Name, model.Bytes(c.Capacity))
		}
	}
	return cluster.Pass()
}

// replaceVolumes makes a member whose volume only another one can take the place of leave, so that it joins again with a new
// volume: see rejoin. One at a time and only while all are well and vote, followers first, from the highest ordinal down, then
// the leader after it has handed over. Fewer than three members cannot spare one: grow comes first, or nothing does.
func replaceVolumes(s model.State) (cluster.Plan, bool) {
	misfits := misfits(s)
	ready := s.Set != nil && s.Want.Storage.MadeBy(s.Set.Storage) && len(s.Members) >= enough && allVote(s) && !moves(s) && !goingBack(s)
	if len(misfits) == 0 || !ready || refusedStorage(s) != "" {
		return cluster.Pass()
	}
	c := nextToReplace(s, misfits)
	why := s.Want.Misfit(c)
	if c.Age < s.Set.Age && c.Age < between {
		return cluster.Wait(steps.ReasonVolumes, between-c.Age, "%s %s although it was made for %s: its member is not replaced again before %s have passed",
			c.Name, why, s.Want.Storage, between)
	}
	return replaceMember(s, c, "volume", fmt.Sprintf("%s %s, and spec.storage asks for %s", c.Name, why, s.Want.Storage), len(misfits))
}

// nextToReplace returns the claim whose member is replaced first: a follower's of the highest ordinal, the leader's last.
func nextToReplace(s model.State, claims []model.Claim) model.Claim {
	slices.SortFunc(claims, func(a, b model.Claim) int { return b.Ordinal - a.Ordinal })
	leader := s.Leader()
	return claims[max(0, slices.IndexFunc(claims, func(c model.Claim) bool { return c.Ordinal != s.Ordinal(*leader) }))]
}

// replaceMember removes the member of a claim, so that it joins again with another claim or volume, after it has handed
// leadership over.
func replaceMember(s model.State, c model.Claim, what, why string, left int) (cluster.Plan, bool) {
	peer := s.Want.Peers[c.Ordinal]
	m := s.Member(peer.URL)
	if p, ok := handOver(s, *m, "is to get another "+what); ok {
		return p, true
	}
	return cluster.Do(removeMember(s, *m), "%s: %s leaves and joins again with another %s (%d to go)", why, peer.Name, what, left)
}

// waitForVolumes waits for what Kubernetes does by itself, and refuses what cannot be done, last: nothing else has to wait for it, and
// what else is asked for may be the cure.
func waitForVolumes(s model.State) (cluster.Plan, bool) {
	if why := refusedStorage(s); why != "" {
		return cluster.Refuse(ReasonStorage, "%s", why)
	}
	if s.Set == nil || !s.Want.Storage.MadeBy(s.Set.Storage) {
		return cluster.Wait(steps.ReasonVolumes, whileWaiting, "waiting for the StatefulSet to be made anew")
	}
	var parts []string
	all := staying(s)
	for _, c := range all {
		if part := missing(s.Want, c); part != "" {
			parts = append(parts, c.Name+" "+part)
		}
	}
	if len(parts) == 0 {
		return cluster.Pass()
	}
	return cluster.Wait(steps.ReasonVolumes, whileWaiting, "%d of %d volumes are as specified: %s", len(all)-len(parts), len(all), strings.Join(parts, "; "))
}

// missing says what a volume lacks of what is asked for, and how its expansion goes; empty when nothing.
func missing(w model.Want, c model.Claim) string {
	switch why := w.Misfit(c); {
	case why != "":
		return why
	case c.Capacity == 0 || c.Capacity >= w.Storage.Size:
		return ""
	case c.Resizing != "":
		return fmt.Sprintf("has %s of %s, %s", model.Bytes(c.Capacity), model.Bytes(w.Storage.Size), c.Resizing)
	}
	return fmt.Sprintf("has %s of %s", model.Bytes(c.Capacity), model.Bytes(w.Storage.Size))
}
