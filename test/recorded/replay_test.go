package recorded

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	etcdanomalies "github.com/quorate/quorate/internal/cluster/etcd/anomalies"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	redisanomalies "github.com/quorate/quorate/internal/cluster/redis/anomalies"
	redismodel "github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
)

// what is to be found in a recording: which finding, of which measure, about whom, and between which readings it comes and goes.
type expectation struct {
	measure    *anomaly.Measure
	subject    string
	came, gone [2]int
}

// never is for what is still found at the end of a recording.
var never = [2]int{-1, -1}

func TestRecordings(t *testing.T) {
	for name, want := range map[string][]expectation{
		"etcd-idle":      nil,
		"etcd-load":      nil,
		"etcd-slow-disk": {{anomaly.FsyncTime, "orders-1", [2]int{50, 75}, [2]int{150, 185}}},
		"etcd-stopped":   {{anomaly.AnswerTime, "orders-2", [2]int{50, 75}, [2]int{108, 130}}},
		"etcd-restarts":  {{anomaly.MemberChanges, "orders-0", [2]int{104, 125}, [2]int{300, 410}}},
		"redis-idle":     nil,
		"redis-load":     nil,
		"redis-hot":      {{anomaly.ShardLoad, "carts-0", [2]int{55, 80}, [2]int{175, 200}}},
		"redis-filling": {
			{anomaly.MemoryTrend, "carts-0", [2]int{60, 100}, [2]int{155, 180}},
			{anomaly.MemoryShare, "carts-0", [2]int{120, 140}, [2]int{145, 160}},
		},
		"redis-lagging": {{anomaly.BytesBehind, "carts-0-1", [2]int{60, 85}, [2]int{105, 130}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Read(filepath.Join("testdata", name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			check(t, want, replay(t, r))
		})
	}
}

// told is what was found in a recording, by measure and subject: in which readings it came and went.
type told map[string][]int

func check(t *testing.T, want []expectation, got told) {
	t.Helper()
	for _, e := range want {
		key := string(e.measure.Finding) + " " + e.subject + " " + e.measure.What
		at := got[key]
		delete(got, key)
		gone := never[0]
		if len(at) == 2 {
			gone = at[1]
		}
		if len(at) == 0 || len(at) > 2 || at[0] < e.came[0] || at[0] > e.came[1] || gone < e.gone[0] || gone > e.gone[1] {
			t.Errorf("%s: came and went at %v, want %v and %v", key, at, e.came, e.gone)
		}
	}
	for key, at := range got {
		t.Errorf("false alarm: %s at %v", key, at)
	}
}

// replay plays a recording to a vigil, and checks on the way what has to hold of every report.
func replay(t *testing.T, r Recording) told {
	t.Helper()
	next := etcdReplay(r)
	if strings.HasPrefix(r.Scenario, "redis") {
		next = redisReplay(r)
	}
	out, last, changes := told{}, "", 0
	for i, reading := range r.Readings {
		if reading.Act != "" {
			t.Logf("%d: %s", i, reading.Act)
		}
		report := next(i, reading)
		for _, f := range slices.Concat(report.Came, report.Gone) {
			key := string(f.Measure.Finding) + " " + f.Subject + " " + f.Measure.What
			out[key] = append(out[key], i)
		}
		text := report.String() + fmt.Sprint(report.Unknown)
		if text != last {
			t.Logf("%d: %s", i, text)
			last = text
			changes++
		}
	}
	events := 0
	for _, at := range out {
		events += len(at)
	}
	if most := 4 + 2*events; changes > most {
		t.Errorf("what is said changed %d times with %d events: it is to be the same as long as nothing else is found", changes, events)
	}
	return out
}

// at is when a reading is told to have been taken. The servers are told to run for a day by then: what they have counted before does not count.
func (r Recording) at(i int) time.Time { return r.Began.Add(time.Duration(i) * r.As) }

func (r Recording) started(s Server) time.Time {
	return r.Began.Add(-24 * time.Hour).Add(time.Duration(s.Process) * time.Second)
}

func etcdReplay(r Recording) func(int, Reading) *anomaly.Report {
	var vigil etcdanomalies.Detector
	return func(i int, reading Reading) *anomaly.Report {
		s := etcdmodel.State{Now: r.at(i), Record: &etcdmodel.Record{}, Want: etcdmodel.Want{Size: len(reading.Servers)}}
		s.Want.Maintenance.Defragment = true
		for n, server := range reading.Servers {
			peer := etcdmodel.Peer{Name: server.Name, URL: fmt.Sprintf("http://%s:2380", server.Name)}
			s.Record.Members = append(s.Record.Members, peer)
			s.Want.Peers = append(s.Want.Peers, peer)
			p := etcdmodel.Pod{Name: server.Name, UID: server.Name, Ordinal: n, Ready: server.Ready, Started: r.started(server), Took: server.Took}
			if e := server.Etcd; e != nil {
				p.Status = &etcdmodel.Status{MemberID: e.ID, Leader: e.Leader, Applied: e.Applied, DBSize: e.Size, DBInUse: e.InUse}
				p.Metrics, p.Clock = e.Vitals, server.Clock
				s.Members = append(s.Members, etcdmodel.Member{ID: e.ID, PeerURL: peer.URL})
			}
			s.Pods = append(s.Pods, p)
		}
		return vigil.Next(s)
	}
}

func redisReplay(r Recording) func(int, Reading) *anomaly.Report {
	var vigil redisanomalies.Detector
	return func(i int, reading Reading) *anomaly.Report {
		s := redismodel.State{Now: r.at(i), Spec: redismodel.Spec{Name: "carts", Shards: 2, Replicas: 1}}
		for shard := range 2 {
			s.Sets = append(s.Sets, redismodel.Set{Shard: shard, Replicas: 2})
		}
		for _, server := range reading.Servers {
			p := redismodel.Pod{Name: server.Name, UID: server.Name, Ready: server.Ready, Started: r.started(server), Took: server.Took, Clock: server.Clock}
			if _, err := fmt.Sscanf(server.Name, "carts-%d-%d", &p.Shard, &p.Ordinal); err != nil {
				panic(err) // The recorder names them.
			}
			if e := server.Redis; e != nil {
				slots, err := slotsOf(e.Slots)
				if err != nil {
					panic(err)
				}
				p.Node = &redismodel.Node{
					ID: e.ID, Process: e.Process, Offset: e.Offset, Commands: e.Commands, Memory: e.Memory, LinkUp: e.LinkUp, StateOK: true,
					Clock: s.Now,
					Peers: []redismodel.Peer{{ID: e.ID, Myself: true, Replica: e.Primary != "", PrimaryID: e.Primary, Slots: slots}},
				}
			}
			s.Pods = append(s.Pods, p)
		}
		return vigil.Next(s)
	}
}

// slotsOf reads ranges such as "0-5460 10923".
func slotsOf(text string) (redisslots.Set, error) {
	var ranges []redisslots.Range
	for _, word := range strings.Fields(strings.ReplaceAll(text, ",", " ")) {
		r, err := redisslots.ParseRange(word)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, r)
	}
	return redisslots.New(ranges...), nil
}

// Every recording is played, and every finding that a recording can hold has one.
func TestAllRecordingsArePlayed(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".jsonl"))
	}
	want := []string{
		"etcd-idle", "etcd-load", "etcd-restarts", "etcd-slow-disk", "etcd-stopped",
		"redis-filling", "redis-hot", "redis-idle", "redis-lagging", "redis-load",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
