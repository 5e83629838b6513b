package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// Slots of a lost shard are filled from a backup before anybody is served from them, as if they were moved from the dead owner:
//
//	an empty server of the shard   imports them: it takes keys from who asks for that, and sends everybody else away
//	the Job                        loads it (RESTORE-ASKING), without replacing anything, so that it can be done again
//	the server                     owns them, under the highest epoch, unless it was restarted since the Job began
//
// The others serve all the time. Where servers cannot import, the slots are served empty first, and loaded afterwards.

// ReasonRefill is the reason of ImportLost and OwnLoaded.
const ReasonRefill = "RefillingSlots"

// Refill is a server that is to get lost slots, and those.
type Refill struct {
	Pod, ID string
	Slots   Slots
	// other is the node that they are said to come from.
	other string
}

// ImportLost makes a server take the keys of lost slots.
type ImportLost struct {
	Pod, ID string
	// Other is the id of the dead owner, which they are said to come from. A living one would keep saying that it has no such slots, and
	// servers of Valkey then end the import, or own the slots at once.
	Other string
	Slots Slots
}

// OwnLoaded makes a server that was loaded the owner of the slots.
type OwnLoaded struct {
	Pod, ID string
	Slots   Slots
}

// Server is the one that the step is for.
func (s ImportLost) Server() (pod, id string) { return s.Pod, s.ID }

// Server is the one that the step is for.
func (s OwnLoaded) Server() (pod, id string) { return s.Pod, s.ID }

func (s ImportLost) String() string { return fmt.Sprintf("import slots %s on %s", s.Slots, s.Pod) }
func (s OwnLoaded) String() string  { return fmt.Sprintf("give slots %s to %s", s.Slots, s.Pod) }

// Run makes the server import the slots, and believe that the other one owns them: it takes no key of a slot that nobody owns, and who
// came after the owner had died never hears what that owned. Nobody else does of what it believes.
func (s ImportLost) Run(ctx context.Context, m Mover) error {
	if err := m.SetSlots(ctx, s.Slots, SlotImporting, s.Other); err != nil {
		return err
	}
	return m.SetSlots(ctx, s.Slots, SlotOwner, s.Other)
}

// Run makes the server own the slots, which gives it the highest epoch.
func (s OwnLoaded) Run(ctx context.Context, m Mover) error {
	return m.SetSlots(ctx, s.Slots, SlotOwner, s.ID)
}

// loss is slots whose owner is gone for good and left no copy.
type loss struct {
	ghost
	slots Slots
}

// fills reports whether lost slots are being loaded before they are served.
func (r *Restore) fills() bool { return r != nil && r.Loading != nil && len(r.Slots) > 0 && !r.Served }

// serves reports whether the slots that were lost with a node, all of them, are served empty, because they are loaded afterwards. Whoever owns
// them next may be lost, too: nobody has said that for the writes that it took.
func (r *Restore) serves(l loss) bool {
	return r != nil && slices.Contains(r.Owners, l.id) && len(l.slots.Minus(r.served())) == 0
}

// served are the slots that are served empty, because they are loaded afterwards.
func (r *Restore) served() Slots {
	if r == nil || !r.Served {
		return nil
	}
	return r.Slots
}

// recordRefilled ends a restore of lost slots when all of them have an owner: one that was loaded, or the one that was believed to be lost. Where
// they are served first, those leave it whose owner has come back.
func recordRefilled(v *view) (cluster.Plan, bool) {
	r := v.Restore
	if r.fills() && len(v.unfilled()) == 0 {
		return r.noteOwned()
	}
	if back := v.cameBack(); len(back) > 0 {
		record := r.RestoreRecord
		if record.Slots = record.Slots.Minus(back); len(record.Slots) == 0 {
			return r.noteOwned()
		}
		return cluster.Do(RecordBackup{record}, "slots %s were not lost: who had them is back; %s are loaded from backup %s", back, record.Slots, r.Directory)
	}
	return cluster.Pass()
}

// cameBack are slots that were to be served empty, and that are owned by who was believed to be lost with them.
func (v *view) cameBack() (back Slots) {
	if len(v.Restore.served()) == 0 || v.Restore.Loading == nil || v.Restore.Loading.Job != nil {
		return nil
	}
	for _, p := range v.read {
		if slices.Contains(v.Restore.Owners, p.Node.ID) {
			back = Union(back, p.Node.Self().Slots.And(v.Restore.Slots))
		}
	}
	return back
}

// noteOwned ends a restore, all slots of which have an owner.
func (r *Restore) noteOwned() (cluster.Plan, bool) {
	if j := r.Loading.Job; j != nil && j.Report != nil && j.Report.Restored != nil && j.For == r.Token {
		return r.Loading.Note(*j.Report.Restored)
	}
	return cluster.Do(planner.NoteLoaded{}, "slots %s have owners again", r.Slots)
}

// unfilled are the slots that are brought back and that no server says it owns.
func (v *view) unfilled() Slots {
	left := v.Restore.Slots
	for shard := range v.shards {
		left = left.Minus(v.owned(shard))
	}
	return left
}

// losses are the slots whose owner is gone and left neither a copy nor an heir.
func (v *view) losses() (lost []loss) {
	for _, g := range v.ghosts() {
		if slots := v.stillOwned(g); len(slots) > 0 && v.successor(g) == nil && v.heir(g) == nil {
			lost = append(lost, loss{g, slots})
		}
	}
	return lost
}

// beginRefill records a confirmed restore of slots whose owner is gone, or in place of one that
// goes on.
func beginRefill(v *view) (cluster.Plan, bool) {
	lost := v.losses()
	if len(lost) == 0 && !v.Restore.fills() {
		return cluster.Pass()
	}
	return v.recordRefill(lost)
}

// beginUnownedRefill records a confirmed restore of slots that no server knows an owner of.
func beginUnownedRefill(v *view) (cluster.Plan, bool) {
	if len(v.unassigned()) == 0 {
		return cluster.Pass()
	}
	return v.recordRefill(nil)
}

// recordRefill returns the step that records the restore that was confirmed for a loss; none for
// another loss.
func (v *view) recordRefill(lost []loss) (cluster.Plan, bool) {
	c := v.Confirmed
	if !v.mayBegin() || !c.Lost {
		return cluster.Pass()
	}
	record := c.RestoreRecord
	record.Slots, record.Owners = Union(slotsLost(lost), v.unassigned()), idsOf(lost)
	if c.Loss != lossOf(lost, record.Slots) {
		return cluster.Pass()
	}
	why := v.importless(lost, v.unassigned())
	record.Served, record.Emptied = why != "", v.Restore != nil && v.Restore.Slots.Overlaps(record.Slots)
	return cluster.Do(RecordBackup{record}, "%s is confirmed: %s", c.Noun, refilled(record, why))
}

// refill continues the restore of lost slots, also if no server knows their former owner.
func refill(v *view) (cluster.Plan, bool) {
	r := v.Restore
	if !r.fills() {
		return cluster.Pass()
	}
	lost := slices.DeleteFunc(v.losses(), func(l loss) bool { return !l.slots.Overlaps(r.Slots) })
	why := v.importless(lost, v.unassigned().And(r.Slots))
	if len(lost) > 0 && !slices.ContainsFunc(lost, func(l loss) bool { return v.Spec.Approved != digest(l.id) }) {
		why = "that was approved"
	}
	if p, ok := r.stopEmptying(why); ok && why != "" {
		return p, true
	}
	if why != "" {
		record := r.RestoreRecord
		record.Slots, record.Served = v.unfilled(), true // The others are in use.
		return cluster.Do(RecordBackup{record}, "%s", refilled(record, why))
	}
	return v.load(lost)
}

// stopEmptying ends a Job that empties slots before these are served.
func (r *Restore) stopEmptying(why string) (cluster.Plan, bool) {
	switch j := r.Loading.Job; {
	case !r.Emptied || j == nil || j.Ended:
		return cluster.Pass()
	case j.Leaving:
		return cluster.Wait(planner.ReasonRestoring, soon, "Job %s is being deleted", j.Name)
	default:
		return cluster.Do(planner.DropRestoreJob{Name: j.Name, UID: j.UID}, "slots %s are served before they are loaded, because %s, and Job %s must not empty them then", r.Slots, why, j.Name)
	}
}

// refuseLeftover stops before slots are served into which another backup was loaded in part: the Job empties only what nobody is served from, and
// leaves keys alone that are there. No command deletes them while the cluster is down. A server that owns or imports other slots has keys of these, too, and
// is not looked at: nobody can tell them apart by their number, and it must not lose its volume.
func (v *view) refuseLeftover(slots Slots) (cluster.Plan, bool) {
	r := v.Restore
	if !r.served().Overlaps(slots) || !r.Emptied {
		return cluster.Pass()
	}
	for p, o := range v.imports(slots) {
		if p.Node.Keys == 0 || p.ownsSlots() || slices.ContainsFunc(p.Node.Self().Open, func(o Open) bool { return len(o.Slots.Minus(r.Slots)) > 0 }) {
			continue
		}
		copies := []*Pod{p}
		for _, c := range v.read {
			if self := c.Node.Self(); self.Replica && self.PrimaryID == p.Node.ID {
				copies = append(copies, c)
			}
		}
		return cluster.Refuse(ReasonKeysNoSlots, "slots %s are to be served before backup %s is loaded into them, but %s holds %d keys that a load before has left there, perhaps of another backup, and both would mix: "+
			"delete the claims and pods of %s, which hold nothing else", o.Slots, r.Directory, p.Name, p.Node.Keys, strings.Join(names(copies), ", "))
	}
	return cluster.Pass()
}

// load has servers import the slots, loads these, and then gives them the slots.
func (v *view) load(lost []loss) (cluster.Plan, bool) {
	r := v.Restore
	into, missing := v.refills(v.unfilled(), lost)
	if len(missing) > 0 {
		return cluster.Wait(ReasonGossip, later, "slots %s are loaded from backup %s as soon as an empty server of their shard has heard of their former owner", missing, r.Directory)
	}
	for _, to := range into {
		if p := v.byID[to.ID]; !to.expects(p) {
			return cluster.Do(ImportLost{to.Pod, to.ID, to.other, to.Slots}, "slots %s are loaded into %s from backup %s before they are served; all others are served meanwhile",
				to.Slots, to.Pod, r.Directory)
		}
	}
	restored, p := r.Loading.Next(LoadBackup{r.RestoreRecord, into}, v.Now)
	if restored == nil {
		return p, true
	}
	loaded := strings.Fields(restored.Into)
	for _, to := range into {
		if job := r.Loading.Job; !slices.Contains(loaded, LoadedInto(to.Pod, v.byID[to.ID].Node.Process, to.Slots)) {
			return cluster.Do(planner.DropRestoreJob{Name: job.Name, UID: job.UID}, "slots %s were loaded into another server or in part, or %s was restarted since: it is loaded again", to.Slots, to.Pod)
		}
	}
	to := into[0]
	return cluster.Do(OwnLoaded{to.Pod, to.ID, to.Slots}, "slots %s are loaded from backup %s: %s serves them from now on", to.Slots, r.Directory, to.Pod)
}

// expects reports whether a server imports the slots, and believes that somebody else owns them.
func (r Refill) expects(p *Pod) bool {
	var importing, owned []Slots
	for _, o := range p.Node.Self().Open {
		if o.Importing {
			importing = append(importing, o.Slots)
		}
	}
	for peer := range p.Node.All() {
		owned = append(owned, peer.Slots)
	}
	return len(r.Slots.Minus(Union(importing...))) == 0 && len(r.Slots.Minus(Union(owned...))) == 0
}

// refills are the servers that are to get slots: those that import them already, and for the rest an empty one of the shard. What
// was on its way to another shard when its owner died goes on to that, which has what had arrived. missing are those that no server can get.
func (v *view) refills(left Slots, lost []loss) (into []Refill, missing Slots) {
	add := func(p *Pod, slots Slots, other string) {
		if i := slices.IndexFunc(into, func(r Refill) bool { return r.ID == p.Node.ID }); i >= 0 {
			into[i].Slots = Union(into[i].Slots, slots)
			return
		}
		into = append(into, Refill{p.Name, p.Node.ID, slots, other})
	}
	for p, o := range v.imports(left) {
		slots := o.Slots.And(left)
		left = left.Minus(slots)
		add(p, slots, o.Other)
	}
	for _, l := range lost {
		slots, p := l.slots.And(left), v.taker(v.homeOf(l.ghost), func(p *Pod) bool {
			fills := slices.ContainsFunc(into, func(r Refill) bool { return r.ID == p.Node.ID })
			return (fills || p.Node.Keys == 0 || p.ownsSlots()) && p.Node.primary(l.id) == l.id
		})
		if len(slots) == 0 || p == nil {
			continue
		}
		left = left.Minus(slots)
		add(p, slots, l.id)
	}
	return into, left
}

// imports yields the primaries that import some of the slots. No slot comes twice.
func (v *view) imports(slots Slots) func(yield func(*Pod, Open) bool) {
	return func(yield func(*Pod, Open) bool) {
		left := slots
		for _, p := range v.read {
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

// taker is a server of a shard that could own lost slots of it, because it copies nobody, and that fits; nil when there is none. Where one owns
// others of them, the rest have become its replicas before.
func (v *view) taker(shard int, fits func(p *Pod) bool) *Pod {
	if shard < 0 || shard >= len(v.shards) {
		return nil
	}
	i := slices.IndexFunc(v.shards[shard], func(p *Pod) bool { return !p.Node.Self().Replica && !p.Node.Loading && fits(p) })
	if i < 0 {
		return nil
	}
	return v.shards[shard][i]
}

// primary is the id of a primary that a server knows: the wanted one if it knows that, or else one that owns slots, if there is any, and so
// does not become a replica while slots are said to come from it. It is empty when there is none.
func (n *Node) primary(wanted string) string {
	owner, other := "", ""
	for o := range n.All() {
		switch {
		case o.Myself || o.Replica || o.Handshake:
		case o.ID == wanted:
			return wanted
		case len(o.Slots) > 0:
			owner = cmp.Or(owner, o.ID)
		default:
			other = cmp.Or(other, o.ID)
		}
	}
	return cmp.Or(owner, other)
}

// importless says why slots that were lost, or that nobody knows an owner of, cannot be loaded before they are served, empty when they can.
func (v *view) importless(lost []loss, unowned Slots) string {
	living, dead := 0, 0
	for shard := range v.shards {
		living += len(v.owners(shard))
	}
	for _, g := range v.ghosts() {
		if len(v.stillOwned(g)) > 0 {
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
		if v.taker(v.homeOf(l.ghost), func(p *Pod) bool { return v.Now.Sub(p.Started) < patience || p.Node.primary(l.id) == l.id }) == nil {
			return "no empty server of their shard has heard of their former owner"
		}
	}
	return ""
}

// refilled says in words how lost slots are brought back.
func refilled(r RestoreRecord, why string) string {
	if r.Served {
		return fmt.Sprintf("slots %s are lost, and served empty, because %s; the backup is loaded into them afterwards, and what clients have written by then stays", r.Slots, why)
	}
	return fmt.Sprintf("slots %s are lost, and are loaded before they are served; all others are served meanwhile", r.Slots)
}

func slotsLost(lost []loss) Slots {
	var all []Slots
	for _, l := range lost {
		all = append(all, l.slots)
	}
	return Union(all...)
}

// Refilling says which slots are lost, to tell that from another loss, and what a restore of them would do, or else why there is nothing to be
// done.
func Refilling(s State) (incident, replaces, missing string) {
	v := look(s)
	if s.Spec.Replicated {
		return "", "", "a cluster of the mode Replicated has no slots: leave spec.slots out in another Restore to replace everything"
	}
	if !v.complete {
		p, _ := v.awaitServers()
		return "", "", "nobody can tell what is lost before all servers answer (" + p.Message + ")"
	}
	lost := v.losses()
	why := v.importless(lost, v.unassigned())
	record := RestoreRecord{Slots: Union(slotsLost(lost), v.unassigned()), Served: why != ""}
	if len(record.Slots) == 0 {
		return "", "", "no slots of it are lost: leave spec.slots out in another Restore to replace everything"
	}
	text := refilled(record, why)
	return lossOf(lost, record.Slots), strings.ToUpper(text[:1]) + text[1:] + ".", ""
}

// lossOf tells losses apart: by the slots, and by the nodes that had them.
func lossOf(lost []loss, slots Slots) string {
	return digest(slots.String() + " " + strings.Join(idsOf(lost), " "))
}

// idsOf are those of the nodes that are gone, sorted.
func idsOf(lost []loss) (ids []string) {
	for _, l := range lost {
		ids = append(ids, l.id)
	}
	slices.Sort(ids)
	return ids
}

// LoadedInto is how the Job that loads slots into a server says so: with the process, which forgets what it imports when it ends, and the slots.
func LoadedInto(pod, process string, slots Slots) string {
	return pod + "/" + process + "/" + digest(slots.String())
}

// Replacing says what a restore of everything does.
func Replacing() string {
	return "All keys and functions are deleted and the backup is loaded: until it is complete clients find a part of the data, and what they write can be lost. Users stay."
}
