package etcd

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster"
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
	// ReasonVolumes says that volumes are on their way to what spec.storage asks for.
	ReasonVolumes = "VolumesChanging"
	// enough members that one can leave and join again while the others are a quorum.
	enough = 3
)

// Storage is what volumes are asked for with.
type Storage struct {
	// Size in bytes, 0 without volumes.
	Size int64
	// Class is the StorageClass, empty for the default one of the Kubernetes cluster.
	Class string
}

func (s Storage) String() string {
	if s.Class == "" {
		return bytes(s.Size)
	}
	return bytes(s.Size) + " of StorageClass " + s.Class
}

// madeBy reports whether claims that are made with the other storage are as asked for.
func (s Storage) madeBy(other Storage) bool { return s.Size == other.Size && s.takes(other.Class) }

// takes reports whether a volume of the given class is of the one that is asked for. Without one asked for, any is: a default
// class that changes moves no data.
func (s Storage) takes(class string) bool { return s.Class == "" || s.Class == class }

// RemakeSet deletes the StatefulSet and leaves its pods running, if it still is the one that was decided on. It is made anew
// with the wanted claim template, and adopts them.
type RemakeSet struct{ UID string }

// ExpandClaim makes a claim ask for a larger volume, if it still is what was decided on.
type ExpandClaim struct {
	Name, UID, ResourceVersion string
	Size                       int64
}

func (RemakeSet) String() string     { return "make the StatefulSet anew around its pods" }
func (s ExpandClaim) String() string { return "expand claim " + s.Name + " to " + bytes(s.Size) }

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
func (s State) MovesTo() string {
	moves := s.Set != nil && !s.Want.Storage.takes(s.Set.Storage.Class)
	for _, c := range s.Claims {
		moves = moves || (c.Ordinal < s.Want.Size && !s.Want.Storage.takes(c.Class))
	}
	if !moves {
		return ""
	}
	return s.Want.Storage.Class
}

// Outgrows reports whether a volume is smaller than what is asked for, and its claim has not asked for more yet.
func (w Want) Outgrows(c Claim) bool {
	return w.Storage.takes(c.Class) && c.Capacity > 0 && c.Capacity < w.Storage.Size && c.Request < w.Storage.Size &&
		!c.Leaving && c.Lost == ""
}

// expandable reports whether a claim can be made to ask for the larger volume that is wanted.
func (c Claim) expandable(w Want) bool { return w.Outgrows(c) && !c.Rigid && c.Refused == "" }

// grows reports whether the volume of a claim is being expanded, or is about to be.
func (c Claim) grows(w Want) bool { return c.Capacity < c.Request || c.expandable(w) }

// misfit says how a volume differs from what is asked for so that only another one can take its place, empty when it does not.
// Where more was asked for than there is, what there is counts: the expansion was taken back.
func (w Want) misfit(c Claim) string {
	switch {
	case w.Storage.Size == 0 || c.Capacity == 0 || c.Leaving || c.Lost != "":
		return ""
	case !w.Storage.takes(c.Class):
		return "is of StorageClass " + c.Class
	case min(c.Request, c.Capacity) > w.Storage.Size:
		return "has " + bytes(min(c.Request, c.Capacity))
	case w.Outgrows(c) && c.Rigid:
		return "has " + bytes(c.Capacity) + " and cannot be expanded"
	}
	return ""
}

// staying are the claims of the members that spec.size asks for.
func (s State) staying() []Claim {
	n := min(len(s.Record.Members), s.Want.Size)
	return slices.DeleteFunc(slices.Clone(s.Claims), func(c Claim) bool { return c.Ordinal >= n })
}

// misfits are the claims of members that have to be replaced.
func (s State) misfits() []Claim {
	return slices.DeleteFunc(s.staying(), func(c Claim) bool { return s.Want.misfit(c) == "" })
}

// refusedStorage says why the volumes cannot become what is asked for, and what to do; empty while they can.
func (s State) refusedStorage() string {
	w, misfits := s.Want, s.misfits()
	switch {
	case w.NoClass:
		return fmt.Sprintf("StorageClass %s does not exist: create it, or set spec.storage.className to another one", w.Storage.Class)
	case s.shrinks() && s.largest() > w.StorageQuota:
		return fmt.Sprintf("spec.storage.size is %s, which leaves %s to the database, and that has %s: delete keys and have it "+
			"defragmented, or set a larger size", bytes(w.Storage.Size), bytes(w.StorageQuota), bytes(s.largest()))
	case len(misfits) > 0 && w.Size < enough:
		return fmt.Sprintf("%s %s, spec.storage asks for %s, and the data of the only member has nowhere to stay meanwhile: set "+
			"spec.size to %d, and back when the volumes are as specified", misfits[0].Name, w.misfit(misfits[0]), w.Storage, enough)
	}
	for _, c := range s.staying() {
		if w.Outgrows(c) && c.Refused != "" {
			return fmt.Sprintf("%s cannot be expanded from %s to %s: %s", c.Name, bytes(c.Capacity), bytes(w.Storage.Size), c.Refused)
		}
	}
	return ""
}

// shrinks reports whether smaller volumes are asked for than there are, or are to be.
func (s State) shrinks() bool {
	return (s.Set != nil && s.Set.Storage.Size > s.Want.Storage.Size) ||
		slices.ContainsFunc(s.misfits(), func(c Claim) bool { return min(c.Request, c.Capacity) > s.Want.Storage.Size })
}

// largest is the size of the largest database.
func (s State) largest() (size int64) {
	for _, p := range s.Pods {
		if p.View != nil {
			size = max(size, p.View.DBSize)
		}
	}
	return size
}

// recreateStatefulSet gives the StatefulSet the claim template that is asked for. It restarts nobody and needs no quorum: a volume that
// cannot be made, or that is too small, may be what keeps members from running. Smaller volumes mean a smaller quota, so these
// wait until every database is known to be below it. With spec.storage.deletionPolicy Delete the claims refer to the set as their
// owner; it lets go of them first, or Kubernetes would delete them with it.
func recreateStatefulSet(s State) (cluster.Plan, bool) {
	if s.Set == nil || s.Want.Storage.madeBy(s.Set.Storage) || s.Want.StorageChanged || s.refusedStorage() != "" {
		return cluster.Pass()
	}
	if s.shrinks() && s.known() && (s.Members == nil || !s.allVote()) {
		return cluster.Pass()
	}
	if i := slices.IndexFunc(s.staying(), func(c Claim) bool { return c.Owned && !c.Leaving }); i >= 0 || !s.Set.KeepsClaims {
		return cluster.Wait(ReasonVolumes, whileWaiting, "waiting until no claim goes with the StatefulSet, which is to be made anew around its pods")
	}
	return cluster.Do(RemakeSet{s.Set.UID}, "spec.storage asks for %s, and the StatefulSet makes volumes of %s: it is made anew around "+
		"its pods, which run on", s.Want.Storage, s.Set.Storage)
}

// deletePendingClaims deletes a claim that has no volume yet, and so no data, and asks for another one than is wanted: its pod would wait
// for what cannot be had. One that is younger than the set was made as wanted, whatever became of it.
func deletePendingClaims(s State) (cluster.Plan, bool) {
	if s.Set == nil || !s.Want.Storage.madeBy(s.Set.Storage) {
		return cluster.Pass()
	}
	for _, c := range s.staying() {
		asks := Storage{c.Request, c.Class}
		if c.Pending && !c.Leaving && c.Age > s.Set.Age && !s.Want.Storage.madeBy(asks) {
			return cluster.Do(c.deletion(), "%s waits for a volume of %s, and spec.storage asks for %s", c.Name, asks, s.Want.Storage)
		}
	}
	return cluster.Pass()
}

// expandVolumes makes the claims of the members ask for larger volumes. It takes nothing away from anybody and needs no quorum: a full
// disk may be what keeps members from running.
func expandVolumes(s State) (cluster.Plan, bool) {
	for _, c := range s.staying() {
		if c.expandable(s.Want) {
			return cluster.Do(ExpandClaim{c.Name, c.UID, c.ResourceVersion, s.Want.Storage.Size}, "spec.storage.size is %s, and %s has %s",
				bytes(s.Want.Storage.Size), c.Name, bytes(c.Capacity))
		}
	}
	return cluster.Pass()
}

// replaceVolumes makes a member whose volume only another one can take the place of leave, so that it joins again with a new
// volume: see rejoin. One at a time and only while all are well and vote, followers first, from the highest ordinal down, then
// the leader after it has handed over. Fewer than three members cannot spare one: grow comes first, or nothing does.
func replaceVolumes(s State) (cluster.Plan, bool) {
	misfits := s.misfits()
	ready := s.Set != nil && s.Want.Storage.madeBy(s.Set.Storage) && len(s.Members) >= enough && s.allVote() && !s.moves() && !s.goingBack()
	if len(misfits) == 0 || !ready || s.refusedStorage() != "" {
		return cluster.Pass()
	}
	c := s.nextToReplace(misfits)
	why := s.Want.misfit(c)
	if c.Age < s.Set.Age && c.Age < between {
		return cluster.Wait(ReasonVolumes, between-c.Age, "%s %s although it was made for %s: its member is not replaced again before %s have passed",
			c.Name, why, s.Want.Storage, between)
	}
	return s.replaceMember(c, "volume", fmt.Sprintf("%s %s, and spec.storage asks for %s", c.Name, why, s.Want.Storage), len(misfits))
}

// nextToReplace returns the claim whose member is replaced first: a follower's of the highest ordinal, the leader's last.
func (s State) nextToReplace(claims []Claim) Claim {
	slices.SortFunc(claims, func(a, b Claim) int { return b.Ordinal - a.Ordinal })
	leader := s.leader()
	return claims[max(0, slices.IndexFunc(claims, func(c Claim) bool { return c.Ordinal != s.Ordinal(*leader) }))]
}

// replaceMember removes the member of a claim, so that it joins again with another claim or volume, after it has handed
// leadership over.
func (s State) replaceMember(c Claim, what, why string, left int) (cluster.Plan, bool) {
	peer := s.Want.Peers[c.Ordinal]
	m := s.member(peer.URL)
	if p, ok := s.handOver(*m, "is to get another "+what); ok {
		return p, true
	}
	return cluster.Do(s.removal(*m), "%s: %s leaves and joins again with another %s (%d to go)", why, peer.Name, what, left)
}

// waitForVolumes waits for what Kubernetes does by itself, and refuses what cannot be done, last: nothing else has to wait for it, and
// what else is asked for may be the cure.
func waitForVolumes(s State) (cluster.Plan, bool) {
	if why := s.refusedStorage(); why != "" {
		return cluster.Refuse(ReasonStorage, "%s", why)
	}
	if s.Set == nil || !s.Want.Storage.madeBy(s.Set.Storage) {
		return cluster.Wait(ReasonVolumes, whileWaiting, "waiting for the StatefulSet to be made anew")
	}
	var parts []string
	all := s.staying()
	for _, c := range all {
		if part := s.Want.missing(c); part != "" {
			parts = append(parts, c.Name+" "+part)
		}
	}
	if len(parts) == 0 {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonVolumes, whileWaiting, "%d of %d volumes are as specified: %s", len(all)-len(parts), len(all), strings.Join(parts, "; "))
}

// missing says what a volume lacks of what is asked for, and how its expansion goes; empty when nothing.
func (w Want) missing(c Claim) string {
	switch why := w.misfit(c); {
	case why != "":
		return why
	case c.Capacity == 0 || c.Capacity >= w.Storage.Size:
		return ""
	case c.Resizing != "":
		return fmt.Sprintf("has %s of %s, %s", bytes(c.Capacity), bytes(w.Storage.Size), c.Resizing)
	}
	return fmt.Sprintf("has %s of %s", bytes(c.Capacity), bytes(w.Storage.Size))
}
