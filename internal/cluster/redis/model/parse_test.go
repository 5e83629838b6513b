package model

import (
	stdcmp "cmp"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/redistest"
)

func TestParseNodes(t *testing.T) {
	got, err := ParseNodes(redistest.NodesText)
	if err != nil {
		t.Fatal(err)
	}
	want := []Peer{
		{
			ID: "07c37dfeb235213a872192d90877d0cd55635b91", Addr: Address{"10.0.0.1", 6379}, Bus: BusPort, Myself: true,
			Host: "carts-0-0.carts-peers.shop.svc.cluster.local", Epoch: 4, Answered: time.UnixMilli(1426238317239),
			Slots: slots.Set{{From: 0, To: 5460}, {From: 10923, To: 10923}},
			Open:  []Open{{slots.Set{{From: 93, To: 93}}, "292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f", true}},
		},
		{
			ID: "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1", Addr: Address{"fd00::2", 6379}, Bus: BusPort, Replica: true,
			PrimaryID: "07c37dfeb235213a872192d90877d0cd55635b91", Failed: true, Epoch: 2,
		},
		{ID: "292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f", Failing: true, NoAddr: true, Epoch: 3, Slots: slots.Set{{From: 10924, To: 16383}}, Answered: time.UnixMilli(1426238317000)},
		{ID: "e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca", Addr: Address{"10.0.0.4", 6379}, Bus: BusPort, Handshake: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseNode(t *testing.T) {
	self := "aa 10.0.0.1:6379@16379 myself,slave bb 0 0 4 connected\n"
	tests := map[string]struct {
		info string
		want Node
	}{
		"a replica in sync": {
			"redis_version:7.0.15\r\nrole:slave\r\nmaster_host:10.0.0.2\r\nmaster_port:6379\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\nslave_repl_offset:77\r\nmaster_repl_offset:78\r\ndb0:keys=3,expires=0,avg_ttl=0\r\n",
			Node{Version: "7.0.15", LinkUp: true, Asks: Address{"10.0.0.2", 6379}, EverLinked: true, Offset: 77, Keys: 3},
		},
		"a server with all of its data on disk": {
			"aof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_bgrewrite_status:ok\r\n",
			Node{OnDisk: true},
		},
		"a server that rewrites its file": {
			"aof_enabled:1\r\naof_rewrite_in_progress:1\r\naof_rewrite_scheduled:0\r\naof_last_bgrewrite_status:ok\r\n", Node{Forked: true},
		},
		"a server that writes its log": {"aof_current_size:123\r\naof_last_write_status:ok\r\nrdb_bgsave_in_progress:1\r\n", Node{Log: 123, Forked: true}},
		"a server that cannot":         {"aof_current_size:123\r\naof_last_write_status:err\r\nrdb_bgsave_in_progress:0\r\n", Node{}},
		"a server that is about to": {
			"aof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:1\r\naof_last_bgrewrite_status:ok\r\n", Node{},
		},
		"a server that failed to": {
			"aof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_bgrewrite_status:err\r\n", Node{RewriteFailed: true},
		},
		"a server that failed to, and tries again": {
			"aof_enabled:1\r\naof_rewrite_in_progress:1\r\naof_rewrite_scheduled:0\r\naof_last_bgrewrite_status:err\r\n", Node{Forked: true},
		},
		"a server that copies its primary": {
			"aof_enabled:0\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_bgrewrite_status:ok\r\n", Node{},
		},
		"a replica that never was": {
			"role:slave\r\nmaster_link_status:down\r\nmaster_link_down_since_seconds:-1\r\nslave_repl_offset:1\r\n",
			Node{Offset: 1},
		},
		"a replica that lost its primary": {
			"role:slave\r\nmaster_link_status:down\r\nmaster_link_down_since_seconds:12\r\nslave_repl_offset:9\r\n",
			Node{Offset: 9, EverLinked: true, LinkDown: 12 * time.Second},
		},
		"a primary that was a replica, and has been written to": {
			"role:master\r\nmaster_replid:new\r\nmaster_replid2:old\r\nmaster_repl_offset:9\r\nsecond_repl_offset:9\r\n", Node{Offset: 9, Stream: "new"},
		},
		"one that has not": {
			"role:master\r\nmaster_replid:new\r\nmaster_replid2:old\r\nmaster_repl_offset:9\r\nsecond_repl_offset:10\r\n", Node{Offset: 9, Stream: "old"},
		},
		"a primary that has always been one": {
			"role:master\r\nmaster_replid:own\r\nmaster_replid2:0000\r\nmaster_repl_offset:0\r\nsecond_repl_offset:-1\r\n", Node{Stream: "own"},
		},
		"a replica that copies": {
			"role:slave\r\nmaster_link_status:up\r\nmaster_replid:its\r\nmaster_replid2:0000\r\nslave_repl_offset:9\r\nmaster_repl_offset:9\r\nsecond_repl_offset:10\r\n",
			Node{Offset: 9, LinkUp: true, EverLinked: true, Stream: "its"},
		},
		"a primary whose writes wait for replicas": {
			"role:master\r\nconnected_slaves:1\r\nmin_slaves_good_slaves:0\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=5,lag=7\r\nmaster_repl_offset:9\r\n",
			Node{Offset: 9, Connected: 1, Acknowledging: new(int)},
		},
		"a primary whose replicas do not all report": {
			"role:master\r\nconnected_slaves:4\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=5,lag=0\r\nslave1:ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0\r\n" +
				"slave2:ip=10.0.0.4,port=6379,state=online,offset=5,lag=60\r\nslave3:ip=10.0.0.5,port=6379,state=online,offset=5,lag=1\r\nmaster_repl_offset:9\r\n",
			Node{Offset: 9, Connected: 4, Copies: 2},
		},
		"valkey, while it loads": {
			"redis_version:7.2.4\r\nserver_time_usec:1426238317239000\r\nvalkey_version:9.1.2\r\nloading:1\r\nrole:slave\r\nmaster_link_down_since_seconds:-1\r\ndb0:keys=3\r\ndb12:keys=4,expires=1\r\ndbx:keys=9\r\n",
			Node{Engine: v1alpha1.EngineValkey, Version: "9.1.2", Clock: time.UnixMilli(1426238317239), Loading: true, Keys: 7},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseNode("aa", self, "cluster_state:ok\r\n", tc.info)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.ID, tc.want.StateOK, tc.want.Peers = "aa", true, got.Peers
			tc.want.Engine = stdcmp.Or(tc.want.Engine, v1alpha1.EngineRedis)
			if diff := cmp.Diff(&tc.want, got, cmpopts.IgnoreUnexported(Node{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseAck(t *testing.T) {
	const text = "role:master\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=1200,lag=0\r\n" +
		"slave1:ip=10.0.0.3,port=6379,state=online,offset=77,lag=1,type=replica\r\nslave2:ip=10.0.0.4,port=6379,state=wait_bgsave,offset=0,lag=0\r\n"
	for ip, want := range map[string]int64{"10.0.0.2": 1200, "10.0.0.3": 77, "10.0.0.4": -1, "10.0.0.5": -1} {
		if got := ParseAck(text, Address{IP: ip, Port: ClientPort}); got != want {
			t.Errorf("%s has got to %d instead of %d", ip, got, want)
		}
	}
}

func TestParseNodeInsistsOnItself(t *testing.T) {
	for _, nodes := range []string{"", "bb 10.0.0.1:6379@16379 master - 0 0 4 connected\n", "aa 10.0.0.1:6379 myself"} {
		if _, err := ParseNode("aa", nodes, "", ""); err == nil {
			t.Errorf("%q was accepted", nodes)
		}
	}
}

// FuzzInfo reads answers to INFO as both modes do: none may panic, and no number may leave its range.
func FuzzInfo(f *testing.F) {
	f.Add("role:master\r\nrun_id:aa\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=1200,lag=0\r\n", redistest.NodesText, "cluster_state:ok\r\n")
	f.Add("role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:up\r\n", "", "cluster_known_nodes:-1\r\n")
	f.Add("role\r\n:\r\nslave0:=,=\r\nslave99999999999999999999:ip=\r\nused_memory:-9223372036854775808\r\n", "a :@ myself - 0 0 1 connected 99999", ":")
	f.Fuzz(func(t *testing.T, info, nodes, state string) {
		ParseProcess(info)
		ParseHandOver(info)
		ParseAck(info, Address{IP: "10.0.0.2", Port: ClientPort})
		if n, err := ParseReplicated("carts-0-0", info); err == nil && n == nil {
			t.Errorf("neither a server nor an error out of %q", info)
		}
		id := ""
		if peers, err := ParseNodes(nodes); err == nil {
			for _, p := range peers {
				if p.Myself {
					id = p.ID
				}
			}
		}
		n, err := ParseNode(id, nodes, state, info)
		if err != nil {
			return
		}
		n.Self()
		n.RunsIn("carts-0-0", "carts", "shop")
	})
}

func TestAServerIsKnownByTheNameThatItAnnounces(t *testing.T) {
	const line = "07c37dfeb235213a872192d90877d0cd55635b91 10.0.0.1:6379@16379%s myself,master - 0 0 1 connected 0-5460"
	tests := map[string]struct {
		aux  string
		want bool
	}{
		"its own name":          {",c-0-1.c-peers.ns.svc.cluster.local", true},
		"its own name and more": {",c-0-1.c-peers.ns.svc.cluster.local,shard-id=69bc080733d1355567173199cff4a6a039a2f024", true},
		"that of another pod":   {",c-0-10.c-peers.ns.svc.cluster.local", false},
		"that of the same pod name in another namespace": {",c-0-1.c-peers.other.svc.cluster.local", false},
		"no name":                  {"", true},
		"no name but a shard's id": {",,shard-id=69bc080733d1355567173199cff4a6a039a2f024", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			peers, err := ParseNodes(fmt.Sprintf(line, tc.aux))
			if err != nil {
				t.Fatal(err)
			}
			n := Node{ID: peers[0].ID, Peers: peers}
			if got := n.RunsIn("c-0-1", "c", "ns"); got != tc.want {
				t.Errorf("RunsIn = %v with announced name %q, want %v", got, peers[0].Host, tc.want)
			}
		})
	}
}
