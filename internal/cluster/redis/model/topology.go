package model

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// Topology interns what the servers of one observation report in CLUSTER NODES. It parses each distinct line once, and servers that
// report the same lines share one table. All servers together report the square of their number in lines: 1,000 servers 164 MiB of
// text, nearly all of it equal.
//
// Its readers may work in parallel. What they have read is immutable: rules use it after all readers have ended.
type Topology struct {
	mu sync.Mutex
	// numbers are the columns of tables, by node id.
	numbers map[string]int
	// lines are the distinct lines, without what only the own line of a server has and without times.
	lines []topologyLine
	// parsed finds a line by its values, raw by its text without times.
	parsed, raw map[string]int
	// tables finds those with equal lines by their hash.
	tables map[uint64][]*Table
}

// topologyLine is one state of one node, and the number of that node.
type topologyLine struct {
	peer Peer
	node int
}

// Table is the lines of all nodes that one server reports, or several.
type Table struct {
	of *Topology
	// at has the number of a line plus one by the number of its node; 0: the server does not know the node.
	at []int32
}

// report is what one server reports of all nodes, itself included.
type report struct {
	*Table
	// self is the own line, and own the number of its node; -1: there is none.
	self Peer
	own  int
	// answered is when a node last answered, by its number, in nanoseconds since 1970; 0: never.
	answered []int64
	// handshakes are the nodes whose id is not known yet. Each server makes up another one.
	handshakes []Peer
}

// NewTopology returns one without lines.
func NewTopology() *Topology {
	return &Topology{numbers: map[string]int{}, parsed: map[string]int{}, raw: map[string]int{}, tables: map[uint64][]*Table{}}
}

// reader parses the answer of one server to CLUSTER NODES.
type reader struct {
	of *Topology
	report
	at  []int32
	key []byte
}

func (t *Topology) reader() *reader {
	return &reader{of: t, report: report{own: -1}}
}

// read parses a whole answer to CLUSTER NODES.
func (t *Topology) read(text string) (*report, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.reader()
	for line := range strings.SplitSeq(text, "\n") {
		if err := r.line(strings.TrimSpace(line)); err != nil {
			return nil, err
		}
	}
	return r.share(), nil
}

// line parses one line, unless its text has been parsed before, apart from the times.
func (r *reader) line(text string) error {
	before, pong, after, ok := splitTimes(text)
	if !ok {
		_, err := r.parse(text)
		return err
	}
	r.key = append(append(r.key[:0], before...), after...)
	if line, known := r.of.raw[string(r.key)]; known {
		r.put(line, ParseNumber(pong)*int64(time.Millisecond))
		return nil
	}
	line, err := r.parse(text)
	if err == nil && line >= 0 {
		r.of.raw[string(r.key)] = line
	}
	return err
}

// splitTimes divides a line into what stands before and after the times ping-sent and pong-received,
// which differ from server to server. It is not ok when the fields are not divided by single spaces.
func splitTimes(line string) (before, pong, after string, ok bool) {
	const timesAt = 4
	end := -1
	for range timesAt {
		space := strings.IndexByte(line[end+1:], ' ')
		if space <= 0 {
			return "", "", "", false
		}
		end += 1 + space
	}
	_, rest, _ := strings.Cut(line[end+1:], " ")
	pong, after, ok = strings.Cut(rest, " ")
	return line[:end], pong, after, ok && pong != "" && after != "" && after[0] != ' '
}

// parse parses one line and returns its number; -1: it is one that no other server can have, or none.
func (r *reader) parse(text string) (int, error) {
	fields := strings.Fields(strings.Clone(text)) // What is kept of a line must not hold the whole answer.
	if len(fields) == 0 || fields[0] == "vars" {
		return -1, nil
	}
	p, err := parseNode(fields)
	if err != nil {
		return -1, fmt.Errorf("line %q: %w", text, err)
	}
	return r.add(p), nil
}

// add notes what the server reports of one node, and returns the number of the line; -1: it is one that no other server can have.
func (r *reader) add(p Peer) int {
	if p.Handshake {
		r.handshakes = append(r.handshakes, p)
		return -1
	}
	line := r.of.intern(p)
	r.put(line, nanoseconds(p.Answered))
	if !p.Myself {
		return line
	}
	if r.own < 0 {
		r.self, r.own = p, r.of.lines[line].node
	}
	return -1
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// put notes a line of the server. Of two lines with one id the first one counts.
func (r *reader) put(line int, answered int64) {
	node := r.of.lines[line].node
	if missing := node + 1 - len(r.at); missing > 0 {
		r.at = append(r.at, make([]int32, missing)...)
		r.answered = append(r.answered, make([]int64, missing)...)
	}
	if r.at[node] == 0 {
		r.at[node], r.answered[node] = int32(line+1), answered //nolint:gosec // as many as servers have reported
	}
}

// intern returns the number of a line.
func (t *Topology) intern(p Peer) int {
	p.Myself, p.Open, p.Answered = false, nil, time.Time{}
	key := p.key()
	if line, ok := t.parsed[key]; ok {
		return line
	}
	node, ok := t.numbers[p.ID]
	if !ok {
		node = len(t.numbers)
		t.numbers[p.ID] = node
	}
	t.lines = append(t.lines, topologyLine{p, node})
	t.parsed[key] = len(t.lines) - 1
	return len(t.lines) - 1
}

// key is a text that two lines have in common if and only if they are equal.
func (p *Peer) key() string {
	return fmt.Sprintf("%q %q %d %d %q %t %q %t %t %t %d %s", p.ID, p.Addr.IP, p.Addr.Port, p.Bus, p.Host, p.Replica, p.PrimaryID, p.Failing, p.Failed, p.NoAddr,
		p.Epoch, p.Slots)
}

// share has the report use the table of an earlier server, if that has the same lines.
func (r *reader) share() *report {
	hash := uint64(len(r.at))
	for _, line := range r.at {
		hash = (hash ^ uint64(line)) * 1099511628211 //nolint:gosec // a hash
	}
	same := r.of.tables[hash]
	if i := slices.IndexFunc(same, func(t *Table) bool { return slices.Equal(t.at, r.at) }); i >= 0 {
		r.Table = same[i]
	} else {
		r.Table = &Table{r.of, slices.Clip(r.at)}
		r.of.tables[hash] = append(same, r.Table)
	}
	r.answered = slices.Clip(r.answered)
	out := r.report
	return &out
}

// reported returns a copy of a node that has its peers in a table; the node itself when it has.
func (t *Topology) reported(n *Node) *Node {
	if n == nil || n.report != nil {
		return n
	}
	r := t.reader()
	for _, p := range n.Peers {
		r.add(p)
	}
	out := *n
	out.report = r.share()
	return &out
}

// number returns the number of a node; -1: nothing is known of it.
func (t *Table) number(id string) int {
	if node, ok := t.of.numbers[id]; ok && node < len(t.at) && t.at[node] > 0 {
		return node
	}
	return -1
}

// Line returns what the table has of a node, by its number. It is shared.
func (t *Table) Line(node int) *Peer { return &t.of.lines[t.at[node]-1].peer }

// Nodes lists the numbers of all nodes in the table.
func (t *Table) Nodes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for node, line := range t.at {
			if line > 0 && !yield(node) {
				return
			}
		}
	}
}

// peer returns what the server reports of a node, by its number.
func (r *report) peer(node int) Peer {
	if node == r.own {
		return r.self
	}
	p := *r.Line(node)
	if r.answered[node] > 0 {
		p.Answered = time.Unix(0, r.answered[node])
	}
	return p
}

// All lists the lines of all nodes that the server knows, itself included.
func (n *Node) All() iter.Seq[Peer] {
	if n.report == nil {
		return slices.Values(n.Peers)
	}
	return func(yield func(Peer) bool) {
		for node := range n.report.Nodes() {
			if !yield(n.report.peer(node)) {
				return
			}
		}
		for _, p := range n.report.handshakes {
			if !yield(p) {
				return
			}
		}
	}
}

// Handshakes lists the nodes that the server is about to get to know.
func (n *Node) Handshakes() []Peer {
	if n.report != nil {
		return n.report.handshakes
	}
	return slices.DeleteFunc(slices.Clone(n.Peers), func(p Peer) bool { return !p.Handshake })
}

// owned are all slots that have an owner.
func (t *Table) owned() slots.Set {
	var owned []slots.Set
	for node := range t.Nodes() {
		owned = append(owned, t.Line(node).Slots)
	}
	return slots.Union(owned...)
}

// ownership is who owns which slots, comparable between tables.
func (t *Table) ownership() string {
	var rows []string
	for node := range t.Nodes() {
		if p := t.Line(node); len(p.Slots) > 0 {
			rows = append(rows, p.ID+" "+p.Slots.String())
		}
	}
	slices.Sort(rows)
	return strings.Join(rows, "\n")
}

// ParseNode puts the answers of one server together: CLUSTER MYID, CLUSTER NODES, CLUSTER INFO and INFO.
func (t *Topology) ParseNode(id, nodes, clusterInfo, info string) (*Node, error) {
	told, err := t.read(nodes)
	if err != nil {
		return nil, fmt.Errorf("CLUSTER NODES: %w", err)
	}
	n := &Node{ID: strings.TrimSpace(id), report: told}
	if told.own < 0 || told.self.ID != n.ID {
		return nil, fmt.Errorf("CLUSTER NODES has no line of the node %s itself", n.ID)
	}
	n.StateOK = parseInfo(clusterInfo)["cluster_state"] == "ok"
	n.readInfo(parseInfo(info))
	return n, nil
}

// Table returns the table that the server reports, nil if Peers has it. Servers that report the same
// share one.
func (n *Node) Table() *Table {
	if n.report == nil {
		return nil
	}
	return n.report.Table
}
