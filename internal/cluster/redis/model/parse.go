package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// EvictsAny tells whether a policy throws any key away when there is no more room, so that writes never fail for want of it.
func EvictsAny(policy string) bool { return strings.HasPrefix(policy, "allkeys-") }

// ParseNodes reads the answer to CLUSTER NODES, or the file nodes.conf, which has the same lines and one more that
// starts with "vars". https://redis.io/docs/latest/commands/cluster-nodes/
func ParseNodes(text string) ([]Peer, error) {
	var peers []Peer
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "vars" {
			continue
		}
		p, err := parseNode(fields)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", strings.TrimSpace(line), err)
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// parseNode reads: id addr flags primary ping-sent pong-received config-epoch link-state slot...
func parseNode(f []string) (Peer, error) {
	if len(f) < 8 {
		return Peer{}, fmt.Errorf("%d fields, at least 8 expected", len(f))
	}
	p := Peer{ID: f[0], Addr: parseAddress(f[1]), Bus: parseBus(f[1]), Host: parseHost(f[1])}
	for flag := range strings.SplitSeq(f[2], ",") {
		p.setFlag(flag)
	}
	if f[3] != "-" {
		p.PrimaryID = f[3]
	}
	epoch, err := strconv.ParseUint(f[6], 10, 64)
	if err != nil {
		return Peer{}, fmt.Errorf("config epoch: %w", err)
	}
	p.Epoch = epoch
	if pong := ParseNumber(f[5]); pong > 0 {
		p.Answered = time.UnixMilli(pong)
	}
	var ranges []slots.Range
	for _, s := range f[8:] {
		if strings.HasPrefix(s, "[") {
			open, err := parseOpen(s)
			if err != nil {
				return Peer{}, err
			}
			p.addOpen(open)
			continue // A slot that is being imported or migrated.
		}
		r, err := slots.ParseRange(s)
		if err != nil {
			return Peer{}, err
		}
		ranges = append(ranges, r)
	}
	p.Slots = slots.New(ranges...)
	return p, nil
}

// parseOpen reads [77->-id] of a slot that goes to a node, or [93-<-id] of one that comes from there.
func parseOpen(text string) (Open, error) {
	text = strings.Trim(text, "[]")
	for _, arrow := range []string{"->-", "-<-"} {
		if slot, id, found := strings.Cut(text, arrow); found {
			r, err := slots.ParseRange(slot)
			return Open{slots.Set{r}, id, arrow == "-<-"}, err
		}
	}
	return Open{}, fmt.Errorf("%q is no open slot", text)
}

// addOpen adds an open slot to those that go the same way.
func (p *Peer) addOpen(o Open) {
	for i := range p.Open {
		if p.Open[i].Other == o.Other && p.Open[i].Importing == o.Importing {
			p.Open[i].Slots = slots.Union(p.Open[i].Slots, o.Slots)
			return
		}
	}
	p.Open = append(p.Open, o)
}

func (p *Peer) setFlag(flag string) {
	switch flag {
	case "myself":
		p.Myself = true
	case "slave", "replica":
		p.Replica = true
	case "fail?":
		p.Failing = true
	case "fail":
		p.Failed = true
	case "handshake":
		p.Handshake = true
	case "noaddr":
		p.NoAddr = true
	}
}

// parseAddress reads ip:port@busport[,hostname[,key=value...]]; the address may be an IPv6 one, or empty.
func parseAddress(text string) Address {
	text, _, _ = strings.Cut(text, ",")
	text, _, _ = strings.Cut(text, "@")
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return Address{}
	}
	port, err := strconv.Atoi(text[i+1:])
	if err != nil {
		return Address{}
	}
	return Address{IP: text[:i], Port: port}
}

// parseBus reads the bus port of the same field, 0 when there is none.
func parseBus(text string) int {
	text, _, _ = strings.Cut(text, ",")
	_, bus, _ := strings.Cut(text, "@")
	return int(ParseNumber(bus))
}

// parseHost reads the announced hostname of the same field, empty when there is none.
func parseHost(text string) string {
	_, rest, _ := strings.Cut(text, ",")
	host, _, _ := strings.Cut(rest, ",")
	if strings.Contains(host, "=") {
		return "" // A key=value pair: no hostname was announced.
	}
	return host
}

// ParseNode puts the answers of one server together: CLUSTER MYID, CLUSTER NODES, CLUSTER INFO and INFO.
func ParseNode(id, nodes, clusterInfo, info string) (*Node, error) {
	return NewTopology().ParseNode(id, nodes, clusterInfo, info)
}

// ParseProcess is Node.Process in an answer to INFO.
func ParseProcess(info string) string { return parseInfo(info)["run_id"] }

// ParseReplicated reads what a server of the mode Replicated says of itself: the DNS name that it announces, and INFO.
func ParseReplicated(host, info string) (*Node, error) {
	fields := parseInfo(info)
	n := &Node{ID: fields["run_id"], StateOK: true}
	if n.ID == "" || fields["role"] == "" || fields["master_replid"] == "" {
		return nil, fmt.Errorf("INFO says neither who the server is nor what its role is")
	}
	n.readInfo(fields)
	n.Replication = parseReplication(fields)
	// A copy of everything that broke off before it began leaves a replica nothing but its own count, which is that of Replication.ID.
	n.Offset = max(n.Offset, ParseNumber(fields["master_repl_offset"]))
	n.Peers = []Peer{{ID: n.ID, Host: host, Myself: true, Replica: !n.Replication.Primary}}
	return n, nil
}

func parseReplication(info map[string]string) *Replication {
	r := &Replication{Primary: info["role"] == "master", ID: info["master_replid"], FormerID: info["master_replid2"], Silence: Never, HandsOver: info[failoverState] == "failover-in-progress"}
	switch {
	case r.Primary:
	case info["master_sync_in_progress"] == "1":
		r.Silence = 0
	case info["master_link_status"] == "up":
		r.Silence = time.Duration(ParseNumber(info["master_last_io_seconds_ago"])) * time.Second
	case ParseNumber(info["master_link_down_since_seconds"]) >= 0:
		r.Silence = time.Duration(ParseNumber(info["master_link_down_since_seconds"])) * time.Second
	}
	return r
}

func (n *Node) readInfo(info map[string]string) {
	n.Engine, n.Version = v1alpha1.EngineRedis, info["redis_version"]
	if v, ok := info["valkey_version"]; ok {
		n.Engine, n.Version = v1alpha1.EngineValkey, v
	}
	n.Process, n.Stream = info["run_id"], streamOf(info)
	if clock := ParseNumber(info["server_time_usec"]); clock > 0 {
		n.Clock = time.UnixMicro(clock)
	}
	n.Loading = info["loading"] == "1" || info["async_loading"] == "1"
	n.LinkUp = info["master_link_status"] == "up" && info["master_sync_in_progress"] != "1"
	n.EverLinked = n.LinkUp || (info["role"] == "slave" && info["master_link_down_since_seconds"] != "-1")
	if n.EverLinked && !n.LinkUp {
		n.LinkDown = time.Duration(ParseNumber(info["master_link_down_since_seconds"])) * time.Second
	}
	if info["aof_enabled"] == "1" && info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0" {
		n.OnDisk, n.RewriteFailed = info["aof_last_bgrewrite_status"] == "ok", info["aof_last_bgrewrite_status"] == "err"
	}
	if info["aof_last_write_status"] == "ok" {
		n.Log = ParseNumber(info["aof_current_size"])
	}
	n.Forked = info["aof_rewrite_in_progress"] == "1" || info["rdb_bgsave_in_progress"] == "1"
	n.Memory = Memory{
		Used: ParseNumber(info["used_memory"]), Empty: ParseNumber(info["used_memory_startup"]) + ParseNumber(info["mem_replication_backlog"]),
		Max: ParseNumber(info["maxmemory"]), Resident: ParseNumber(info["used_memory_rss"]),
		Uncounted: ParseNumber(info["mem_not_counted_for_evict"]), Evicts: EvictsAny(info["maxmemory_policy"]),
	}
	n.Commands = ParseNumber(info["total_commands_processed"])
	n.Fork = time.Duration(ParseNumber(info["latest_fork_usec"])) * time.Microsecond
	n.Offset = ParseNumber(info["master_repl_offset"])
	if info["role"] == "slave" {
		n.Offset = ParseNumber(info["slave_repl_offset"])
		n.Asks = Address{info["master_host"], int(ParseNumber(info["master_port"]))}
	}
	n.countRows(info)
}

// streamOf is Node.Stream.
func streamOf(info map[string]string) string {
	offset := ParseNumber(info["master_repl_offset"])
	if info["role"] == "master" && offset > 0 && offset == ParseNumber(info["second_repl_offset"])-1 {
		return info["master_replid2"]
	}
	return info["master_replid"]
}

// countRows reads what INFO has a row for each of, and what it counts itself.
func (n *Node) countRows(info map[string]string) {
	if good, told := info["min_slaves_good_slaves"]; told {
		n.Acknowledging = ptr.To(int(ParseNumber(good)))
	}
	for key, value := range info {
		switch {
		case isDatabase(key):
			n.Keys += keysOf(value)
		case isReplica(key):
			n.Connected++
			if reports(value) {
				n.Copies++
			}
		}
	}
}

// isDatabase matches the keys of the keyspace section: db0, db1, ...
func isDatabase(key string) bool {
	digits, ok := strings.CutPrefix(key, "db")
	_, err := strconv.Atoi(digits)
	return ok && err == nil
}

// keysOf reads "keys=3,expires=0,avg_ttl=0".
func keysOf(value string) int64 {
	for part := range strings.SplitSeq(value, ",") {
		if n, ok := strings.CutPrefix(part, "keys="); ok {
			return ParseNumber(n)
		}
	}
	return 0
}

// isReplica matches the keys of the replicas of a primary: slave0, slave1, ...
func isReplica(key string) bool {
	digits, ok := strings.CutPrefix(key, "slave")
	_, err := strconv.Atoi(digits)
	return ok && err == nil
}

// reports tells whether a replica has all data and was heard of lately: "ip=10.0.0.2,port=6379,state=online,offset=42,lag=0".
func reports(value string) bool {
	online, lately := false, false
	for part := range strings.SplitSeq(value, ",") {
		online = online || part == "state=online"
		lag, is := strings.CutPrefix(part, "lag=")
		seconds, err := strconv.Atoi(lag)
		lately = lately || (is && err == nil && seconds <= int(LeastLag.Seconds()))
	}
	return online && lately
}

// ParseNumber reads a whole number as servers write it; 0 where the text is none.
func ParseNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// parseInfo reads the lines "key:value" that INFO and CLUSTER INFO answer with.
func parseInfo(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[key] = value
		}
	}
	return out
}

// ParseAck reads out of INFO how far the replica at an address said that it had got; -1: there is none.
func ParseAck(text string, addr Address) int64 {
	for _, value := range parseInfo(text) {
		rest, found := strings.CutPrefix(value, fmt.Sprintf("ip=%s,port=%d,state=online,offset=", addr.IP, addr.Port))
		offset, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.ParseInt(offset, 10, 64); found && err == nil {
			return n
		}
	}
	return -1
}

// failoverState is how far a primary has got that hands over.
const failoverState = "master_failover_state"

// HandingOver is what a server says of its part in a hand-over.
type HandingOver struct {
	Primary, Busy bool
	// History is the id of what it has.
	History string
}

// ParseHandOver reads out of INFO whether a server is a primary, and whether it is handing over.
func ParseHandOver(text string) HandingOver {
	info := parseInfo(text)
	state := info[failoverState]
	return HandingOver{info["role"] == "master", state != "" && state != "no-failover", info["master_replid"]}
}

// LeastLag is the shortest time after which a replica may count as lost: they report once a second.
const LeastLag = 2 * time.Second
