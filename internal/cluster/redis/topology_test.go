package redis

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readNodes returns a node that reports an answer to CLUSTER NODES.
func readNodes(text string) (*Node, error) {
	told, err := NewTopology().read(text)
	return &Node{report: told}, err
}

func byID(a, b Peer) int { return strings.Compare(a.ID, b.ID) }

func TestATableHasEveryLineOfAnAnswer(t *testing.T) {
	want, err := ParseNodes(nodesText)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, byID)
	n, err := readNodes(nodesText)
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
	if !n.Self().Myself || n.Self().ID != "07c37dfeb235213a872192d90877d0cd55635b91" || len(n.handshakes()) != 1 {
		t.Errorf("the own line is %v, the handshakes are %v", n.Self(), n.handshakes())
	}
}

func TestServersThatReportTheSameShareOneTable(t *testing.T) {
	s := settledOf(t, 10, 3)
	v := look(s)
	if len(v.tables) != 1 || len(v.tables[0].of.lines) != 30 {
		t.Fatalf("30 servers of a settled cluster have %d tables with %d distinct lines", len(v.tables), len(v.tables[0].of.lines))
	}
	for _, p := range v.read {
		if self := p.Node.Self(); !self.Myself || self.ID != p.Node.ID {
			t.Errorf("%s takes %s for itself", p.Name, self.ID)
		}
		for peer := range p.Node.All() {
			if age := now.Sub(peer.Answered); peer.Myself != (peer.ID == p.Node.ID) || age < 0 || age >= 900_000_000 {
				t.Errorf("%s reports %+v", p.Name, peer)
			}
		}
	}
}

func TestAServerThatReportsSomethingElseHasATableOfItsOwn(t *testing.T) {
	tests := map[string]func(string) string{
		"a node has failed":     func(s string) string { return strings.Replace(s, " slave ", " slave,fail ", 1) },
		"a node is not known":   func(s string) string { _, rest, _ := strings.Cut(s, "\n"); return rest },
		"a node has moved":      func(s string) string { return strings.Replace(s, " 10.0.1.1:6379", " 10.9.9.9:6379", 1) },
		"a slot has gone":       func(s string) string { return strings.Replace(s, Share(0, 3).String(), "0-5000", 1) },
		"a node has more slots": func(s string) string { return strings.Replace(s, Share(0, 3).String(), "0-5000 5002", 1) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			topology := NewTopology()
			text := nodesOf(3, 2, 2, 0)
			changed := change(text)
			if changed == text {
				t.Fatal("nothing was changed")
			}
			a, errA := topology.read(text)
			b, errB := topology.read(changed)
			if errA != nil || errB != nil || a.table == b.table {
				t.Errorf("the tables are the same one, or %v, %v", errA, errB)
			}
		})
	}
}

// A real server's Node has no Peers, so a rule that reads them sees nothing.
func TestRulesReadPeersOnlyByMethods(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || slices.Contains([]string{"state.go", "topology.go", "replicated.go", "parse.go"}, file) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`\.Peers\b[^(]`).Match(text) {
			t.Errorf("%s reads Node.Peers: use Self, Peer or All", file)
		}
	}
}

func FuzzTopology(f *testing.F) {
	f.Add(nodesText)
	f.Add(nodesOf(3, 2, 1, 1))
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
