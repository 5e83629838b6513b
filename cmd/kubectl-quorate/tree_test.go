package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/cluster"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	etcdsteps "github.com/quorate/quorate/internal/cluster/etcd/steps"
	redismodel "github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	redissteps "github.com/quorate/quorate/internal/cluster/redis/steps"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// fixture is a cluster as an API server had it.
func fixture(t *testing.T, path string) clusterObject {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o, err := parseManifest(raw)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return o
}

func TestStatusIsATree(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			v := viewOf(fixture(t, file), nil)
			var out bytes.Buffer
			s := newSession(streams{out: &out, err: &out})
			if err := s.draw(&out, []clusterView{v}, v.Namespace); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", out.String())
			out.Reset()
			if done, err := s.write("json", v); !done || err != nil {
				t.Fatalf("-o json: %t, %v", done, err)
			}
			golden(t, name+".json", out.String())
		})
	}
}

func TestColoursAreForATerminalAlone(t *testing.T) {
	v := viewOf(fixture(t, "testdata/redis-replicated.yaml"), map[string]string{"carts-0-1": "12 B behind"})
	for terminal, want := range map[bool]bool{true: true, false: false} {
		var out bytes.Buffer
		s := newSession(streams{out: &out, terminal: terminal})
		if err := s.draw(&out, []clusterView{v}, v.Namespace); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "\x1b["); got != want {
			t.Errorf("on a terminal (%t) there are colours: %t", terminal, got)
		}
		if !strings.Contains(out.String(), "12 B behind") {
			t.Errorf("the lag is not shown:\n%s", out.String())
		}
	}
}

func TestLongMessagesAreCutToTheTerminal(t *testing.T) {
	var out bytes.Buffer
	rows := []row{{branch: "├─ ", cells: []cell{{"a", plain}, {strings.Repeat("wörter ", 30), plain}}}}
	if err := render(&out, rows, false, 60); err != nil {
		t.Fatal(err)
	}
	if n := len([]rune(strings.TrimRight(out.String(), "\n"))); n > 60 || !strings.Contains(out.String(), "…") {
		t.Errorf("%d characters: %s", n, out.String())
	}
}

func TestTheBarShowsWhereSlotsAre(t *testing.T) {
	for slots, want := range map[string]string{
		"":            strings.Repeat("░", 32),
		"0-16383":     strings.Repeat("█", 32),
		"0-511 16383": "█" + strings.Repeat("░", 30) + "▒",
	} {
		parsed, err := redisslots.Parse(slots)
		if err != nil {
			t.Fatal(err)
		}
		if got := slotsBar(parsed); got != want {
			t.Errorf("%q is %s, want %s", slots, got, want)
		}
	}
}

// step is one that a planner could have decided on.
type step struct{ text, reason string }

func (s step) String() string     { return s.text }
func (s step) Meta() cluster.Meta { return cluster.Meta{Reason: s.reason} }

func TestPlansAreTold(t *testing.T) {
	orders := fixture(t, "testdata/etcd-scaling.yaml")
	then := cluster.Plan{Step: step{"move leadership from orders-0 to orders-1", "MovingLeader"}, Reason: "MovingLeader", Message: "orders-0 leaves"}
	for name, seen := range map[string]*outlook{
		"step":    {plan: then, unseen: []string{"nodes: you may not read them"}},
		"besides": {plan: cluster.Plan{Step: step{"defragment orders-2", "Defragmenting"}, Reason: "Defragmenting", Message: "half of it is free", Fallback: &then}},
		"wait":    {plan: cluster.Plan{Reason: "WaitingForLearner", Message: "orders-3 is yet to catch up", After: 2 * time.Second}},
		"stalled": {plan: cluster.Plan{Reason: "QuorumLost", Message: "two of three members are lost", Stalled: true}},
		"settled": {plan: cluster.Decide[int](0, nil, nil)},
		"paused":  {plan: cluster.Pause(then)},
		"hold":    {err: cluster.Hold{Reason: "PreviousCluster", Message: "Secret orders-ca is being deleted"}},
		"refusal": {err: cluster.Refusal{Reason: "InvalidSpec", Message: "spec.version: use 3.6"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := render(&out, planRows(planOutput(orders, seen)), false, 0); err != nil {
				t.Fatal(err)
			}
			golden(t, "plan-"+name+".txt", out.String())
		})
	}
}

func TestAManifestIsReadStrictly(t *testing.T) {
	for name, tc := range map[string]struct{ text, words string }{
		"another kind":   {"{apiVersion: v1, kind: Pod, metadata: {name: x}}", "v1 Pod"},
		"a wrong field":  {"{apiVersion: quorate.dev/v1alpha1, kind: EtcdCluster, metadata: {name: x}, spec: {sise: 3}}", "sise"},
		"no name":        {"{apiVersion: quorate.dev/v1alpha1, kind: EtcdCluster, spec: {size: 3}}", "metadata.name"},
		"another casing": {"{apiVersion: quorate.dev/v1alpha1, kind: etcdcluster, metadata: {name: x}}", "etcdcluster"},
	} {
		if _, err := parseManifest([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%s: %v, want an error with %q", name, err, tc.words)
		}
	}
}

func TestOnlyWhoMayLeadIsPromoted(t *testing.T) {
	s := &etcdmodel.State{Pods: []etcdmodel.Pod{
		{Name: "orders-0", Status: &etcdmodel.Status{MemberID: 1, Leader: 1}},
		{Name: "orders-1", Status: &etcdmodel.Status{MemberID: 2, Leader: 1}},
		{Name: "orders-2", Status: &etcdmodel.Status{MemberID: 3, Leader: 1, Learner: true}},
		{Name: "orders-3"},
		{Name: "orders-4", Status: &etcdmodel.Status{MemberID: 5, Leader: 4}},
	}}
	if got, err := promotion(&outlook{etcd: s}, "orders-1"); err != nil || !slices.Equal(got, []cluster.Step{etcdsteps.MoveLeader{From: "orders-0", To: 2, Pod: "orders-1"}}) {
		t.Errorf("a follower: %v, %v", got, err)
	}
	if got, err := promotion(&outlook{etcd: s}, "orders-0"); err != nil || got != nil {
		t.Errorf("the leader: %v, %v", got, err)
	}
	for pod, words := range map[string]string{"orders-2": "learner", "orders-3": "no member that answers", "orders-4": "leader does not answer"} {
		if got, err := promotion(&outlook{etcd: s}, pod); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, %v", pod, got, err)
		}
	}
	busy := &outlook{etcd: s, plan: cluster.Plan{Reason: "ScalingOut", Message: "a member joins"}}
	if got, err := promotion(busy, "orders-1"); err == nil || !strings.Contains(err.Error(), "a member joins") {
		t.Errorf("while the operator works: %v, %v", got, err)
	}
}

func TestAReplicaIsPromotedThatHasEverything(t *testing.T) {
	slots := redisslots.New(redisslots.Range{To: 16383})
	peer := func(id, primary string) redismodel.Peer {
		p := redismodel.Peer{ID: id, Replica: primary != "", PrimaryID: primary}
		if !p.Replica {
			p.Slots = slots
		}
		return p
	}
	pod := func(shard, ordinal int, id, primary string) redismodel.Pod {
		self := peer(id, primary)
		self.Myself = true
		node := &redismodel.Node{ID: id, LinkUp: true, OnDisk: true, Peers: []redismodel.Peer{self}}
		if id == "a" {
			node.Peers = append(node.Peers, peer("b", "a"), peer("c", "a"), peer("f", "a"), peer("h", "a"))
		}
		return redismodel.Pod{Name: fmt.Sprintf("carts-%d-%d", shard, ordinal), Shard: shard, Ordinal: ordinal, Ready: true, Node: node}
	}
	s := &redismodel.State{
		Spec: redismodel.Spec{Shards: 1, Replicas: 6, NodeTimeout: 5 * time.Second}, Now: time.Now(),
		Pods: []redismodel.Pod{
			pod(0, 0, "a", ""), pod(0, 1, "b", "a"), pod(0, 2, "c", "a"), pod(1, 1, "d", "gone"), pod(1, 2, "e", "a"),
			{Name: "carts-1-3"},
			pod(0, 4, "f", "a"), pod(0, 5, "g", "a"), pod(0, 6, "h", "a"),
		},
	}
	s.Pods[2].Node.LinkUp = false
	s.Pods[6].Stood = s.Now.Add(-time.Second)
	s.Pods[8].Ready = false
	if got, err := promotion(&outlook{redis: s}, "carts-0-1"); err != nil || !slices.Equal(got, []cluster.Step{redissteps.Failover{From: "carts-0-0", To: "carts-0-1"}}) {
		t.Errorf("a replica: %v, %v", got, err)
	}
	if got, err := promotion(&outlook{redis: s}, "carts-0-0"); err != nil || got != nil {
		t.Errorf("the primary: %v, %v", got, err)
	}
	for pod, words := range map[string]string{
		"carts-0-2": "has not all data", "carts-1-1": "does not answer", "carts-1-2": "another shard", "carts-1-3": "no server that answers",
		"carts-0-4": "stood for election less than 21s ago (four node timeouts), and the servers do not elect it again before that: 20s are left",
		"carts-0-5": "the other servers do not know it as a replica yet. Wait a moment, and try again", "carts-0-6": "it is not ready",
	} {
		if got, err := promotion(&outlook{redis: s}, pod); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, %v", pod, got, err)
		}
	}
}

func TestAGuardedPrimaryIsLetOffForItsPromotion(t *testing.T) {
	slots := redisslots.New(redisslots.Range{To: 16383})
	node := func(id, primary string) *redismodel.Node {
		self := redismodel.Peer{ID: id, Myself: true, Replica: primary != "", PrimaryID: primary}
		if primary == "" {
			self.Slots = slots
		}
		peers := []redismodel.Peer{self}
		if primary == "" {
			peers = append(peers, redismodel.Peer{ID: "b", Replica: true, PrimaryID: id})
		}
		return &redismodel.Node{ID: id, LinkUp: primary != "", OnDisk: true, Peers: peers, Config: map[string]string{"min-replicas-to-write": "1"}}
	}
	s := &redismodel.State{
		Spec: redismodel.Spec{Shards: 1, Replicas: 1, MinReplicas: 1},
		Pods: []redismodel.Pod{{Name: "carts-0-0", Node: node("a", "")}, {Name: "carts-0-1", Ordinal: 1, Ready: true, Node: node("b", "a")}},
	}
	got, err := promotion(&outlook{redis: s}, "carts-0-1")
	want := []cluster.Step{
		redissteps.GuardShards{Guards: []redissteps.GuardWrites{{Pod: "carts-0-0"}, {Pod: "carts-0-1"}}}, redissteps.Failover{From: "carts-0-0", To: "carts-0-1"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	paused := &outlook{redis: s, paused: true}
	if got, err := promotion(paused, "carts-0-1"); err == nil || !strings.Contains(err.Error(), "spec.paused") {
		t.Errorf("while nobody holds the primary to it again: %v, %v", got, err)
	}
}

func TestTheOutputIsYAMLOrJSON(t *testing.T) {
	var out bytes.Buffer
	s := newSession(streams{out: &out})
	if done, err := s.write("yaml", map[string]int{"a": 1}); !done || err != nil || yaml.Unmarshal(out.Bytes(), &map[string]int{}) != nil {
		t.Errorf("-o yaml: %t, %v: %s", done, err, out.String())
	}
	if done, err := s.write("wide", nil); !done || err == nil || !strings.Contains(err.Error(), "json or yaml") {
		t.Errorf("-o wide: %t, %v", done, err)
	}
}
