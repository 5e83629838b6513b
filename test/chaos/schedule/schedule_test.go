package schedule

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

var clusters = []Cluster{{"orders", Etcd}, {"carts", Redis}, {"sessions", Valkey}}

// seeds is how many schedules the rules are held against.
const seeds = 300

func TestASeedIsASchedule(t *testing.T) {
	for seed := range uint64(20) {
		if diff := cmp.Diff(Draw(seed, 40, clusters), Draw(seed, 40, clusters)); diff != "" {
			t.Fatalf("seed %d (-first +second):\n%s", seed, diff)
		}
		if diff := cmp.Diff(Draw(seed, 40, clusters)[:10], Draw(seed, 10, clusters)); diff != "" {
			t.Errorf("seed %d: a longer run begins in another way (-long +short):\n%s", seed, diff)
		}
		if cmp.Equal(Draw(seed, 10, clusters), Draw(seed+1, 10, clusters)) {
			t.Errorf("seeds %d and %d are the same", seed, seed+1)
		}
	}
}

// A seed that somebody has written down has to mean the same later. When this changes on purpose, change it here.
func TestASeedStaysWhatItIs(t *testing.T) {
	var got []string
	for _, r := range Draw(1, 4, clusters) {
		got = append(got, r.String())
	}
	if diff := cmp.Diff(wantOfSeed1, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var wantOfSeed1 = []string{
	"clock orders (lead 9) by -2m0s after 7s for 20s; oom carts (follow 4) after 3s; pod-delete sessions (lead 2) after 10s",
	"shards carts after 1s; kill orders (lead 2) after 2s; pod-delete carts (lead 6) after 11s; pod-cut sessions (lead 9) out after 2s for 7s; operator-stop after 9s for 25s",
	"node-cut (worker 0) after 6s for 24s",
	"scale orders after 3s; rotate carts after 2s; rotate sessions after 4s; api-stop after 8s for 12s",
}

func TestNoRoundBreaksMoreThanIsCovered(t *testing.T) {
	for seed := range uint64(seeds) {
		for i, r := range Draw(seed, 60, clusters) {
			if why := excess(r); why != "" {
				t.Errorf("seed %d, round %d: %s: %s", seed, i, why, r)
			}
		}
	}
}

// excess says what is wrong with a round, empty when nothing is.
func excess(r Round) string {
	changing := map[string]bool{}
	for _, o := range r.Operations {
		if changing[o.Cluster] {
			return "two operations on " + o.Cluster
		}
		changing[o.Cluster] = true
	}
	nodes, worlds, pods := 0, 0, map[string]int{}
	for _, f := range r.Faults {
		k := KindOf(f.Kind)
		switch k.Scope {
		case Node:
			nodes++
		case World:
			worlds++
		case Pod:
			pods[f.Cluster]++
		default:
			return "unknown kind " + f.Kind
		}
		if k.Lasting && (changing[f.Cluster] || f.Cluster == "" && len(changing) > 0) {
			return "data is taken for good from a cluster that is being changed"
		}
		if f.Hold < k.Least || f.Hold > k.Most {
			return "it lasts too long or not long enough"
		}
		if f.Cluster != "" && pods[f.Cluster] > 1 {
			return "two faults in " + f.Cluster
		}
	}
	switch {
	case nodes > 1 || worlds > 1:
		return "two faults at a time"
	case nodes == 1 && (len(pods) > 0 || worlds > 0):
		return "a node and something else"
	case nodes+worlds+len(pods) == 0:
		return "nothing is broken"
	}
	return ""
}

func TestMoreThanIsCoveredIsFound(t *testing.T) {
	kill := Fault{Kind: "kill", Cluster: "orders"}
	lost := Fault{Kind: "disk-lost", Cluster: "orders"}
	scale := Operation{Kind: "scale", Cluster: "orders"}
	for name, r := range map[string]Round{
		"two pods of a cluster": {Faults: []Fault{kill, kill}}, "a disk while the size changes": {Operations: []Operation{scale}, Faults: []Fault{lost}},
		"a node and a pod": {Faults: []Fault{kill, {Kind: "node-pause", Hold: KindOf("node-pause").Least}}},
		"nothing":          {Operations: []Operation{scale}}, "what does not exist": {Faults: []Fault{{Kind: "flood"}}},
		"forever": {Faults: []Fault{{Kind: "node-pause", Hold: 2 * KindOf("node-pause").Most}}}, "two operations": {Operations: []Operation{scale, scale}, Faults: []Fault{kill}},
	} {
		if excess(r) == "" {
			t.Errorf("%s is not found", name)
		}
	}
}

// Draws come without putting back, so that no schedule leaves anything out.
func TestEverythingComesUp(t *testing.T) {
	for seed := range uint64(seeds) {
		faults, operations := map[string]bool{}, map[string]bool{}
		for _, r := range Draw(seed, 60, clusters) {
			for _, f := range r.Faults {
				faults[f.Kind] = true
			}
			for _, o := range r.Operations {
				operations[o.Cluster+" "+o.Kind] = true
			}
		}
		for _, k := range Kinds {
			if !faults[k.Name] {
				t.Errorf("seed %d: no %s in 60 rounds", seed, k.Name)
			}
		}
		for _, c := range clusters {
			for _, k := range OperationKinds {
				if (k.Only == "" || k.Only == c.Store) && !operations[c.Name+" "+k.Name] {
					t.Errorf("seed %d: no %s of %s in 60 rounds", seed, k.Name, c.Name)
				}
			}
		}
	}
}

func TestWhatCannotBeUndoneIsDrawnOnce(t *testing.T) {
	for seed := range uint64(seeds) {
		times, busy := map[string]int{}, map[string]int{}
		for i, r := range Draw(seed, 60, clusters) {
			for _, o := range r.Operations {
				if busy[o.Cluster] > i {
					t.Errorf("seed %d, round %d: %s while a slow operation may go on", seed, i, o)
				}
				if k := OperationOf(o.Kind); k.Slow > 0 {
					busy[o.Cluster] = i + 1 + k.Slow
				}
				times[o.Cluster+" "+o.Kind]++
			}
		}
		for _, name := range []string{"carts upgrade", "sessions upgrade"} {
			if times[name] > 1 {
				t.Errorf("seed %d: %s %d times", seed, name, times[name])
			}
		}
	}
}
