package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// Slots of a lost shard are filled from a backup before clients are served from them, as if they
// were moved from the dead owner:
//
//	an empty server of the shard   imports them: it takes keys from a client that says ASKING, and redirects all others
//	the Job                        loads it (RESTORE-ASKING), without replacing anything, so that it can be repeated
//	the server                     owns them, under the highest epoch, unless it was restarted since the Job began
//
// The other servers serve all the time. Where servers cannot import, the slots are served empty
// first, and loaded afterwards.

// serves reports whether the slots that were lost with a node, all of them, are served empty, because they are loaded afterwards. Whoever owns
// them next may be lost, too: nobody has said that for the writes that it took.
func serves(r *model.Restore, l facts.Loss) bool {
	return r != nil && slices.Contains(r.Owners, l.ID) && len(l.Slots.Minus(facts.Served(r))) == 0
}

// recordRefilled ends a restore of lost slots when all of them have an owner: one that was loaded, or the one that was believed to be lost. Where
// they are served first, those leave it whose owner has come back.
func recordRefilled(v *model.View) (cluster.Plan, bool) {
	r := v.Restore
	if facts.Fills(r) && len(unfilled(v)) == 0 {
		return noteOwned(r)
	}
	if back := cameBack(v); len(back) > 0 {
		record := r.RestoreRecord
		if record.Slots = record.Slots.Minus(back); len(record.Slots) == 0 {
			return noteOwned(r)
		}
		return cluster.Do(steps.RecordBackup{Record: record}, "slots %s were not lost: who had them is back; %s are loaded from backup %s", back, record.Slots, r.Directory)
	}
	return cluster.Pass()
}

// cameBack are slots that were to be served empty, and that are owned by who was believed to be lost with them.
func cameBack(v *model.View) (back redisslots.Set) {
	if len(facts.Served(v.Restore)) == 0 || v.Restore.Loading == nil || v.Restore.Loading.Job != nil {
		return nil
	}
	for _, p := range v.Readable {
		if slices.Contains(v.Restore.Owners, p.Node.ID) {
			back = redisslots.Union(back, p.Node.Self().Slots.And(v.Restore.Slots))
		}
	}
	return back
}

// noteOwned ends a restore, all slots of which have an owner.
func noteOwned(r *model.Restore) (cluster.Plan, bool) {
	if j := r.Loading.Job; j != nil && j.Report != nil && j.Report.Restored != nil && j.For == r.Token {
		return r.Loading.Note(*j.Report.Restored)
	}
	return cluster.Do(planner.NoteLoaded{}, "slots %s have owners again", r.Slots)
}

// unfilled are the slots that are brought back and that no server says it owns.
func unfilled(v *model.View) redisslots.Set {
	left := v.Restore.Slots
	for shard := range v.Shards {
		left = left.Minus(facts.SlotsOwned(v, shard))
	}
	return left
}

// beginRefill records a confirmed restore of slots whose owner is gone, or in place of one that
// goes on.
func beginRefill(v *model.View) (cluster.Plan, bool) {
	lost := facts.Losses(v)
	if len(lost) == 0 && !facts.Fills(v.Restore) {
		return cluster.Pass()
	}
	return recordRefill(v, lost)
}

// beginUnownedRefill records a confirmed restore of slots that no server knows an owner of.
func beginUnownedRefill(v *model.View) (cluster.Plan, bool) {
	if len(v.Unassigned()) == 0 {
		return cluster.Pass()
	}
	return recordRefill(v, nil)
}

// recordRefill returns the step that records the restore that was confirmed for a loss; none for
// another loss.
func recordRefill(v *model.View, lost []facts.Loss) (cluster.Plan, bool) {
	c := v.Confirmed
	if !facts.MayBegin(v.State) || !c.Lost {
		return cluster.Pass()
	}
	record := c.RestoreRecord
	record.Slots, record.Owners = redisslots.Union(slotsLost(lost), v.Unassigned()), idsOf(lost)
	if c.Loss != lossOf(lost, record.Slots) {
		return cluster.Pass()
	}
	why := importless(v, lost, v.Unassigned())
	record.Served, record.Emptied = why != "", v.Restore != nil && v.Restore.Slots.Overlaps(record.Slots)
	return cluster.Do(steps.RecordBackup{Record: record}, "%s is confirmed: %s", c.Noun, refilled(record, why))
}

// refill continues the restore of lost slots, also if no server knows their former owner.
func refill(v *model.View) (cluster.Plan, bool) {
	r := v.Restore
	if !facts.Fills(r) {
		return cluster.Pass()
	}
	lost := slices.DeleteFunc(facts.Losses(v), func(l facts.Loss) bool { return !l.Slots.Overlaps(r.Slots) })
	why := importless(v, lost, v.Unassigned().And(r.Slots))
	if len(lost) > 0 && !slices.ContainsFunc(lost, func(l facts.Loss) bool { return v.Spec.Approved != facts.Digest(l.ID) }) {
		why = "that was approved"
	}
	if p, ok := stopEmptying(r, why); ok && why != "" {
		return p, true
	}
	if why != "" {
		record := r.RestoreRecord
		record.Slots, record.Served = unfilled(v), true // The others are in use.
		return cluster.Do(steps.RecordBackup{Record: record}, "%s", refilled(record, why))
	}
	return load(v, lost)
}

// stopEmptying ends a Job that empties slots before these are served.
func stopEmptying(r *model.Restore, why string) (cluster.Plan, bool) {
	switch j := r.Loading.Job; {
	case !r.Emptied || j == nil || j.Ended:
		return cluster.Pass()
	case j.Leaving:
		return cluster.Wait(planner.ReasonRestoring, facts.Soon, "Job %s is being deleted", j.Name)
	default:
		return cluster.Do(planner.DropRestoreJob{Name: j.Name, UID: j.UID}, "slots %s are served before they are loaded, because %s, and Job %s must not empty them then", r.Slots, why, j.Name)
	}
}

// refuseLeftover stops before slots are served into which another backup was loaded in part: the Job empties only what nobody is served from, and
// leaves keys alone that are there. No command deletes them while the cluster is down. A server that owns or imports other slots has keys of these, too, and
// is not looked at: nobody can tell them apart by their number, and it must not lose its volume.
func refuseLeftover(v *model.View, slots redisslots.Set) (cluster.Plan, bool) {
	r := v.Restore
	if !facts.Served(r).Overlaps(slots) || !r.Emptied {
		return cluster.Pass()
	}
	for p, o := range imports(v, slots) {
		if p.Node.Keys == 0 || p.OwnsSlots() || slices.ContainsFunc(p.Node.Self().Open, func(o model.Open) bool { return len(o.Slots.Minus(r.Slots)) > 0 }) {
			continue
		}
		copies := []*model.Pod{p}
		for _, c := range v.Readable {
			if self := c.Node.Self(); self.Replica && self.PrimaryID == p.Node.ID {
				copies = append(copies, c)
			}
		}
		return cluster.Refuse(ReasonKeysNoSlots, "slots %s are to be served before backup %s is loaded into them, but %s holds %d keys that a load before has left there, perhaps of another backup, and both would mix: "+
			"delete the claims and pods of %s, which hold nothing else", o.Slots, r.Directory, p.Name, p.Node.Keys, strings.Join(model.PodNames(copies), ", "))
	}
	return cluster.Pass()
}

// load has servers import the slots, loads these, and then gives them the slots.
func load(v *model.View, lost []facts.Loss) (cluster.Plan, bool) {
	r := v.Restore
	into, missing := refills(v, unfilled(v), lost)
	if len(missing) > 0 {
		return cluster.Wait(ReasonGossip, facts.Later, "slots %s are loaded from backup %s as soon as an empty server of their shard has heard of their former owner", missing, r.Directory)
	}
	for _, to := range into {
		if p := v.ByID[to.ID]; !expects(to, p) {
			return cluster.Do(steps.ImportLost{Pod: to.Pod, ID: to.ID, Other: to.Other, Slots: to.Slots}, "slots %s are loaded into %s from backup %s before they are served; all others are served meanwhile",
				to.Slots, to.Pod, r.Directory)
		}
	}
	restored, p := r.Loading.Next(steps.LoadBackup{RestoreRecord: r.RestoreRecord, Into: into}, v.Now)
	if restored == nil {
		return p, true
	}
	loaded := strings.Fields(restored.Into)
	for _, to := range into {
		if job := r.Loading.Job; !slices.Contains(loaded, LoadedInto(to.Pod, v.ByID[to.ID].Node.Process, to.Slots)) {
			return cluster.Do(planner.DropRestoreJob{Name: job.Name, UID: job.UID}, "slots %s were loaded into another server or in part, or %s was restarted since: it is loaded again", to.Slots, to.Pod)
		}
	}
	to := into[0]
	return cluster.Do(steps.OwnLoaded{Pod: to.Pod, ID: to.ID, Slots: to.Slots}, "slots %s are loaded from backup %s: %s serves them from now on", to.Slots, r.Directory, to.Pod)
}

// expects reports whether a server imports the slots, and believes that somebody else owns them.
func expects(r steps.Refill, p *model.Pod) bool {
	var importing, owned []redisslots.Set
	for _, o := range p.Node.Self().Open {
		if o.Importing {
			importing = append(importing, o.Slots)
		}
	}
	for peer := range p.Node.All() {
		owned = append(owned, peer.Slots)
	}
	return len(r.Slots.Minus(redisslots.Union(importing...))) == 0 && len(r.Slots.Minus(redisslots.Union(owned...))) == 0
}

// refills are the servers that are to get slots: those that import them already, and for the rest an empty one of the shard. What
// was on its way to another shard when its owner died goes on to that, which has what had arrived. missing are those that no server can get.
func refills(v *model.View, left redisslots.Set, lost []facts.Loss) (into []steps.Refill, missing redisslots.Set) {
	add := func(p *model.Pod, slots redisslots.Set, other string) {
		if i := slices.IndexFunc(into, func(r steps.Refill) bool { return r.ID == p.Node.ID }); i >= 0 {
			into[i].Slots = redisslots.Union(into[i].Slots, slots)
			return
		}
		into = append(into, steps.Refill{Pod: p.Name, ID: p.Node.ID, Slots: slots, Other: other})
	}
	for p, o := range imports(v, left) {
		slots := o.Slots.And(left)
		left = left.Minus(slots)
		add(p, slots, o.Other)
	}
	for _, l := range lost {
		slots, p := l.Slots.And(left), facts.SlotTaker(v, facts.ShardOfDeparted(v, l.DepartedNode), func(p *model.Pod) bool {
			fills := slices.ContainsFunc(into, func(r steps.Refill) bool { return r.ID == p.Node.ID })
			return (fills || p.Node.Keys == 0 || p.OwnsSlots()) && facts.Primary(p.Node, l.ID) == l.ID
		})
		if len(slots) == 0 || p == nil {
			continue
		}
		left = left.Minus(slots)
		add(p, slots, l.ID)
	}
	return into, left
}

// imports yields the primaries that import some of the slots. No slot comes twice.
func imports(v *model.View, slots redisslots.Set) func(yield func(*model.Pod, model.Open) bool) {
	return func(yield func(*model.Pod, model.Open) bool) {
		left := slots
		for _, p := range v.Readable {
			for _, o := range p.Node.Self().Open {
				o.Slots = o.Slots.And(left)
				if !o.Importing || p.Node.Self().Replica || len(o.Slots) == 0 {
					continue
				}
				left = left.Minus(o.Slots)
				if !yield(p, o) {
					return
				}
			}
		}
	}
}

// importless says why slots that were lost, or that nobody knows an owner of, cannot be loaded before they are served, empty when they can.
func importless(v *model.View, lost []facts.Loss, unowned redisslots.Set) string {
	living, dead := 0, 0
	for shard := range v.Shards {
		living += len(v.Owners(shard))
	}
	for _, g := range v.DepartedNodes() {
		if len(facts.StillOwned(v, g)) > 0 {
			dead++
		}
	}
	switch {
	case len(unowned) > 0:
		return "no server knows who owned them"
	case 2*living <= living+dead:
		return "a majority of the primaries is gone"
	}
	for _, l := range lost {
		if facts.SlotTaker(v, facts.ShardOfDeparted(v, l.DepartedNode), func(p *model.Pod) bool {
			return v.Now.Sub(p.Started) < facts.Patience || facts.Primary(p.Node, l.ID) == l.ID
		}) == nil {
			return "no empty server of their shard has heard of their former owner"
		}
	}
	return ""
}

// refilled says in words how lost slots are brought back.
func refilled(r model.RestoreRecord, why string) string {
	if r.Served {
		return fmt.Sprintf("slots %s are lost, and served empty, because %s; the backup is loaded into them afterwards, and what clients have written by then stays", r.Slots, why)
	}
	return fmt.Sprintf("slots %s are lost, and are loaded before they are served; all others are served meanwhile", r.Slots)
}

func slotsLost(lost []facts.Loss) redisslots.Set {
	var all []redisslots.Set
	for _, l := range lost {
		all = append(all, l.Slots)
	}
	return redisslots.Union(all...)
}

// Refilling says which slots are lost, to tell that from another loss, and what a restore of them would do, or else why there is nothing to be
// done.
func Refilling(s model.State) (incident, replaces, missing string) {
	v := model.NewView(s)
	if s.Spec.Replicated {
		return "", "", "a cluster of the mode Replicated has no slots: leave spec.slots out in another Restore to replace everything"
	}
	if !v.Complete {
		p, _ := awaitServers(v)
		return "", "", "nobody can tell what is lost before all servers answer (" + p.Message + ")"
	}
	lost := facts.Losses(v)
	why := importless(v, lost, v.Unassigned())
	record := model.RestoreRecord{Slots: redisslots.Union(slotsLost(lost), v.Unassigned()), Served: why != ""}
	if len(record.Slots) == 0 {
		return "", "", "no slots of it are lost: leave spec.slots out in another Restore to replace everything"
	}
	text := refilled(record, why)
	return lossOf(lost, record.Slots), strings.ToUpper(text[:1]) + text[1:] + ".", ""
}

// lossOf tells losses apart: by the slots, and by the nodes that had them.
func lossOf(lost []facts.Loss, slots redisslots.Set) string {
	return facts.Digest(slots.String() + " " + strings.Join(idsOf(lost), " "))
}

// idsOf are those of the nodes that are gone, sorted.
func idsOf(lost []facts.Loss) (ids []string) {
	for _, l := range lost {
		ids = append(ids, l.ID)
	}
	slices.Sort(ids)
	return ids
}

// LoadedInto is how the Job that loads slots into a server says so: with the process, which forgets what it imports when it ends, and the slots.
func LoadedInto(pod, process string, slots redisslots.Set) string {
	return pod + "/" + process + "/" + facts.Digest(slots.String())
}

// Replacing says what a restore of everything does.
func Replacing() string {
	return "All keys and functions are deleted and the backup is loaded: until it is complete clients find a part of the data, and what they write can be lost. Users stay."
}
