package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/redistest"
)

// readNodes returns a node that reports an answer to CLUSTER NODES.
func readNodes(text string) (*Node, error) {
	told, err := NewTopology().read(text)
	return &Node{report: told}, err
}

func byID(a, b Peer) int { return strings.Compare(a.ID, b.ID) }

func TestATableHasEveryLineOfAnAnswer(t *testing.T) {
	want, err := ParseNodes(redistest.NodesText)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, byID)
	n, err := readNodes(redistest.NodesText)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, slices.SortedFunc(n.All(), byID)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for _, p := range want {
		got, known := n.Peer(p.ID)
		if p.Handshake == known || (known && !cmp.Equal(got, p)) {
			t.Errorf("Peer(%s) = %v, %v", p.ID, got, known)
		}
	}
	if !n.Self().Myself || n.Self().ID != "07c37dfeb235213a872192d90877d0cd55635b91" || len(n.Handshakes()) != 1 {
		t.Errorf("the own line is %v, the handshakes are %v", n.Self(), n.Handshakes())
	}
}

func TestServersThatReportTheSameShareOneTable(t *testing.T) {
	topology, tables := NewTopology(), map[*Table]bool{}
	for i := range 10 * 3 {
		id := redistest.NodeID(i/3, i%3)
		n, err := topology.ParseNode(id, redistest.Nodes(10, 3, i/3, i%3), "cluster_state:ok", "")
		if err != nil {
			t.Fatal(err)
		}
		tables[n.report.Table] = true
		if self := n.Self(); !self.Myself || self.ID != id {
			t.Errorf("%s takes %s for itself", id, self.ID)
		}
		for peer := range n.All() {
			if age := redistest.Now.Sub(peer.Answered); peer.Myself != (peer.ID == id) || age < 0 || age >= 900_000_000 {
				t.Errorf("%s reports %+v", id, peer)
			}
		}
	}
	for one := range tables {
		if len(tables) != 1 || len(one.of.lines) != 30 {
			t.Fatalf("30 servers of a settled cluster have %d tables, one with %d distinct lines", len(tables), len(one.of.lines))
		}
	}
}

func TestAServerThatReportsSomethingElseHasATableOfItsOwn(t *testing.T) {
	tests := map[string]func(string) string{
		"a node has failed":     func(s string) string { return strings.Replace(s, " slave ", " slave,fail ", 1) },
		"a node is not known":   func(s string) string { _, rest, _ := strings.Cut(s, "\n"); return rest },
		"a node has moved":      func(s string) string { return strings.Replace(s, " 10.0.1.1:6379", " 10.9.9.9:6379", 1) },
		"a slot has gone":       func(s string) string { return strings.Replace(s, slots.Share(0, 3).String(), "0-5000", 1) },
		"a node has more slots": func(s string) string { return strings.Replace(s, slots.Share(0, 3).String(), "0-5000 5002", 1) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			topology := NewTopology()
			text := redistest.Nodes(3, 2, 2, 0)
			changed := change(text)
			if changed == text {
				t.Fatal("nothing was changed")
			}
			a, errA := topology.read(text)
			b, errB := topology.read(changed)
			if errA != nil || errB != nil || a.Table == b.Table {
				t.Errorf("the tables are the same one, or %v, %v", errA, errB)
			}
		})
	}
}

func FuzzTopology(f *testing.F) {
	f.Add(redistest.NodesText)
	f.Add(redistest.Nodes(3, 2, 1, 1))
	f.Add("a b c d e f 1 h 5-3")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := readNodes(text)
		peers, wanted := ParseNodes(text)
		if (err == nil) != (wanted == nil) {
			t.Fatalf("%q: %v instead of %v", text, err, wanted)
		}
		if err != nil {
			return
		}
		for _, p := range peers {
			first := peers[slices.IndexFunc(peers, func(o Peer) bool { return o.ID == p.ID && o.Handshake == p.Handshake })]
			if got, ok := n.Peer(p.ID); !p.Handshake && !first.Myself && !p.Myself && (!ok || !got.Answered.Equal(first.Answered) || got.key() != first.key()) {
				t.Errorf("%q: Peer(%s) = %+v instead of %+v", text, p.ID, got, first)
			}
		}
	})
}
