package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Role is the part that the target of a fault plays. Which pod that is turns out when it happens.
type Role string

const (
	// Lead is the leader of etcd, or the primary of a shard.
	Lead Role = "lead"
	// Follow is one of the others.
	Follow Role = "follow"
	// Newest is the pod that came last: while a cluster grows, one that is not in sync yet.
	Newest Role = "newest"
)

// Direction is which packets a cut drops.
type Direction string

// The directions of a cut.
const (
	Both Direction = "both"
	In   Direction = "in"
	Out  Direction = "out"
)

// Fault is one that is to happen.
type Fault struct {
	Kind string `json:"kind"`
	// Cluster that a pod fault is for.
	Cluster string `json:"cluster,omitempty"`
	Role    Role   `json:"role,omitempty"`
	// Pick chooses among several pods or nodes of that role, modulo their number.
	Pick      int       `json:"pick"`
	Direction Direction `json:"direction,omitempty"`
	// Skew is how far a clock is put forward, or back where it is negative.
	Skew time.Duration `json:"skew,omitempty"`
	// After is when it begins, since the round began; Hold is how long it lasts.
	After time.Duration `json:"after"`
	Hold  time.Duration `json:"hold"`
}

func (f Fault) String() string {
	text := f.Kind
	if f.Cluster != "" {
		text += " " + f.Cluster
		if f.Kind != "all-pods" {
			text += fmt.Sprintf(" (%s %d)", f.Role, f.Pick)
		}
	} else if KindOf(f.Kind).Scope == Node {
		text += fmt.Sprintf(" (worker %d)", f.Pick)
	}
	if f.Direction != "" {
		text += " " + string(f.Direction)
	}
	if f.Skew != 0 {
		text += fmt.Sprintf(" by %s", f.Skew)
	}
	text += fmt.Sprintf(" after %s", f.After)
	if f.Hold > 0 {
		text += fmt.Sprintf(" for %s", f.Hold)
	}
	return text
}

// Operation is a planned change that is to be made.
type Operation struct {
	Kind    string        `json:"kind"`
	Cluster string        `json:"cluster"`
	After   time.Duration `json:"after"`
}

func (o Operation) String() string {
	return fmt.Sprintf("%s %s after %s", o.Kind, o.Cluster, o.After)
}

// Round is what happens at a time. The next one begins when all clusters are Ready again.
type Round struct {
	Operations []Operation `json:"operations,omitempty"`
	Faults     []Fault     `json:"faults,omitempty"`
}

func (r Round) String() string {
	var parts []string
	for _, o := range r.Operations {
		parts = append(parts, o.String())
	}
	for _, f := range r.Faults {
		parts = append(parts, f.String())
	}
	return strings.Join(parts, "; ")
}

// shapes are what rounds may look like. In a quiet one no server is touched but by planned operations, so that nothing at all may be lost.
var shapes = []string{"pods", "pods", "node", "node", "quiet"}

// Draw makes a schedule. No round breaks more than the guarantee covers: one pod of each cluster, or one node, or, where that is the
// fault, all pods of a cluster with their volumes left alone; and no copy is taken for good while the number of copies changes.
func Draw(seed uint64, rounds int, clusters []Cluster) []Round {
	d := newDealer(seed, clusters)
	out := make([]Round, rounds)
	for i := range out {
		out[i] = d.round(i)
	}
	return out
}

// dealer draws without putting back, so that everything comes up before anything comes up again.
type dealer struct {
	rng      *rand.Rand
	clusters []Cluster
	bags     map[string][]int
	number   int
	// done are operations that there is no way back from, free the round from which on a cluster may have another one.
	done map[string]bool
	free map[string]int
}

func newDealer(seed uint64, clusters []Cluster) *dealer {
	return &dealer{
		rng: rand.New(rand.NewPCG(seed, 0)), clusters: clusters, // It has to be the same again.
		bags: map[string][]int{}, done: map[string]bool{}, free: map[string]int{},
	}
}

// draw takes the first number that is wanted now out of a bag. A bag that holds none is filled with all that are eligible; -1: none of
// those is wanted.
func (d *dealer) draw(bag string, eligible []int, wanted func(int) bool) int {
	for range 2 {
		for at, i := range d.bags[bag] {
			if wanted(i) {
				d.bags[bag] = append(d.bags[bag][:at:at], d.bags[bag][at+1:]...)
				return i
			}
		}
		d.rng.Shuffle(len(eligible), func(i, j int) { eligible[i], eligible[j] = eligible[j], eligible[i] })
		d.bags[bag] = append(d.bags[bag], eligible...)
	}
	return -1
}

// indexes are those of a table's rows that fit.
func indexes[R any](table []R, fits func(R) bool) []int {
	var out []int
	for i, row := range table {
		if fits(row) {
			out = append(out, i)
		}
	}
	return out
}

func (d *dealer) chance(percent int) bool { return d.rng.IntN(100) < percent }

// span draws a time between two, in whole seconds.
func (d *dealer) span(least, most time.Duration) time.Duration {
	return least + time.Duration(d.rng.IntN(int((most-least)/time.Second)+1))*time.Second
}

func (d *dealer) round(number int) Round {
	d.number = number
	shape := shapes[d.draw("shape", indexes(shapes, func(string) bool { return true }), func(int) bool { return true })]
	var r Round
	if shape == "node" {
		r.Faults = d.fault(Node, Cluster{}, r)
	}
	for _, c := range d.clusters {
		if !r.lasting() && d.chance(map[string]int{"quiet": 100, "pods": 50, "node": 30}[shape]) {
			r.Operations = append(r.Operations, d.operation(c)...)
		}
	}
	if shape == "pods" {
		for _, c := range d.clusters {
			r.Faults = d.fault(Pod, c, r)
		}
	}
	if shape == "quiet" || shape == "pods" && d.chance(40) {
		r.Faults = d.fault(World, Cluster{}, r)
	}
	return r
}

// lasting tells whether a round takes copies of data for good.
func (r Round) lasting() bool {
	return slices.ContainsFunc(r.Faults, func(f Fault) bool { return KindOf(f.Kind).Lasting })
}

// changes tells whether a round changes a cluster: with no cluster given, any.
func (r Round) changes(c Cluster) bool {
	return slices.ContainsFunc(r.Operations, func(o Operation) bool { return c.Name == "" || o.Cluster == c.Name })
}

// operation draws a planned change of a cluster, if it may have one.
func (d *dealer) operation(c Cluster) []Operation {
	if d.free[c.Name] > d.number {
		return nil
	}
	eligible := indexes(OperationKinds, func(k OperationKind) bool { return k.Only == "" || k.Only == c.Store })
	i := d.draw("operation "+c.Name, eligible, func(i int) bool { return !d.done[c.Name+" "+OperationKinds[i].Name] })
	if i < 0 {
		return nil
	}
	k := OperationKinds[i]
	d.done[c.Name+" "+k.Name] = k.Once
	if k.Slow > 0 {
		d.free[c.Name] = d.number + 1 + k.Slow
	}
	return []Operation{{Kind: k.Name, Cluster: c.Name, After: d.span(0, 4*time.Second)}}
}

// fault draws one more fault of a scope into a round, if there is one that goes with its operations.
func (d *dealer) fault(scope Scope, c Cluster, r Round) []Fault {
	eligible := indexes(Kinds, func(k Kind) bool { return k.Scope == scope })
	i := d.draw(string(scope)+" "+c.Name, eligible, func(i int) bool { return !Kinds[i].Lasting || !r.changes(c) })
	if i < 0 {
		return r.Faults
	}
	k := Kinds[i]
	f := Fault{Kind: k.Name, Cluster: c.Name, Pick: d.rng.IntN(12), After: d.span(2*time.Second, 12*time.Second)}
	if k.Most > 0 {
		f.Hold = d.span(k.Least, k.Most)
	}
	if scope == Pod {
		f.Role = d.role(c, k, r)
	}
	if k.Name == "pod-cut" {
		f.Direction = []Direction{Both, In, Out}[d.rng.IntN(3)]
	}
	if len(k.Skews) > 0 {
		f.Skew = k.Skews[d.rng.IntN(len(k.Skews))]
	}
	return append(r.Faults, f)
}

// role draws which pod it is. What comes with a growing cluster is the first choice there.
func (d *dealer) role(c Cluster, k Kind, r Round) Role {
	for _, o := range r.Operations {
		if o.Cluster == c.Name && OperationOf(o.Kind).Resizes && d.chance(50) && !k.Lasting {
			return Newest
		}
	}
	if d.chance(60) {
		return Lead
	}
	return Follow
}
