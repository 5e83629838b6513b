package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// gateFixture is the file system of a gate: record, configuration and an empty data directory.
type gateFixture struct {
	etcdGate
	t *testing.T
}

func newGate(t *testing.T, r model.Record) gateFixture {
	t.Helper()
	dir := t.TempDir()
	g := gateFixture{t: t, etcdGate: etcdGate{
		self: "orders-0", configDir: filepath.Join(dir, "config"), runDir: filepath.Join(dir, "run"),
		dataDir: filepath.Join(dir, "volume", "data"), tlsDir: filepath.Join(dir, "no-tls"),
		terminationLog: filepath.Join(dir, "termination-log"), patience: 10 * time.Millisecond, version: "3.6.16", out: io.Discard,
	}}
	for key, value := range r.Data() {
		g.write(filepath.Join(g.configDir, key), value)
	}
	g.write(filepath.Join(g.configDir, "orders-0.3.6.16.yaml"), "name: orders-0\n")
	g.write(filepath.Join(g.runDir, ".keep"), "")
	return g
}

func (g gateFixture) write(path, text string) {
	g.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g gateFixture) read(path string) string {
	g.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(raw)
}

// peer answers for the members of a cluster the way etcd's peer port does.
func peer(t *testing.T, id string, members []gate.PeerMember) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/members" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("X-Etcd-Cluster-ID", id)
		if err := json.NewEncoder(w).Encode(members); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestTheGateLetsAFounderStart(t *testing.T) {
	g := newGate(t, model.Record{Bootstrap: model.BootstrapNew, Members: []model.Peer{
		{Name: "orders-0", URL: "http://127.0.0.1:1"}, {Name: "orders-1", URL: "http://127.0.0.1:1"},
	}})
	if err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := g.read(filepath.Join(g.runDir, "etcd.yaml")); got != "name: orders-0\ninitial-cluster-state: new\n" {
		t.Errorf("%s", got)
	}
	if _, err := os.Stat(g.dataDir); err != nil {
		t.Error(err)
	}
}

// TestTheGateLetsAMemberStartWhoseDatabaseCannotBeRead: what is wrong with it is etcd's to say.
func TestTheGateLetsAMemberStartWhoseDatabaseCannotBeRead(t *testing.T) {
	for name, db := range map[string]string{"none": "", "too short": "half a database", "noise": strings.Repeat("noise", 20_000)} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, model.Record{Bootstrap: model.BootstrapRetained, Members: []model.Peer{{Name: "orders-0", URL: "http://127.0.0.1:1"}}})
			g.write(filepath.Join(g.dataDir, "member", "wal", "0000000000000000-0000000000000000.wal"), "x")
			if db != "" {
				g.write(filepath.Join(g.dataDir, "member", "snap", "db"), db)
			}
			if err := g.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r, ok := model.ParseGateReport(g.read(g.terminationLog)); !ok || r.Reason != model.GateStart || r.Agreed != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestTheGateHoldsAMemberThatLostItsDisk(t *testing.T) {
	self := model.Peer{Name: "orders-0", URL: "http://orders-0:2380"}
	other := model.Peer{Name: "orders-1"}
	other.URL = peer(t, "c1", []gate.PeerMember{
		{Name: self.Name, PeerURLs: []string{self.URL}, ClientURLs: []string{"http://orders-0:2379"}},
		{Name: other.Name, ClientURLs: []string{"http://orders-1:2379"}},
	})
	g := newGate(t, model.Record{Bootstrap: model.BootstrapNew, Members: []model.Peer{self, other}})
	err := g.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the disk was lost") {
		t.Fatalf("%v", err)
	}
	report, ok := model.ParseGateReport(g.read(g.terminationLog))
	if !ok || report.Reason != model.GateLostDisk {
		t.Errorf("%+v", report)
	}
	if _, err := os.Stat(filepath.Join(g.runDir, "etcd.yaml")); err == nil {
		t.Error("it wrote a configuration all the same")
	}
}

func TestAGateThatWaitedNeverFounds(t *testing.T) {
	self := model.Peer{Name: "orders-0", URL: "http://orders-0:2380"}
	started := []gate.PeerMember{
		{Name: self.Name, PeerURLs: []string{self.URL}, ClientURLs: []string{"http://orders-0:2379"}},
		{Name: "orders-1", ClientURLs: []string{"http://orders-1:2379"}},
	}
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("X-Etcd-Cluster-ID", "c1")
		if err := json.NewEncoder(w).Encode(started); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	g := newGate(t, model.Record{Bootstrap: model.BootstrapNew, Members: []model.Peer{self, {Name: "orders-1", URL: srv.URL}}})
	g.patience = 10 * time.Second
	if err := g.run(t.Context()); err == nil || !strings.Contains(err.Error(), "fresh copy") {
		t.Errorf("%v after %d questions", err, asked)
	}
}

func TestTheGateAsksNobodyAboutADiskWithALog(t *testing.T) {
	asked := false
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(srv.Close)
	g := newGate(t, model.Record{Bootstrap: model.BootstrapRetained, Members: []model.Peer{
		{Name: "orders-0", URL: "http://orders-0:2380"}, {Name: "orders-1", URL: srv.URL},
	}})
	g.write(filepath.Join(g.dataDir, "member", "wal", "0000000000000000-0000000000000000.wal"), "x")
	if err := g.run(t.Context()); err != nil || asked {
		t.Errorf("%v, asked: %t", err, asked)
	}
}

func TestTheGateSetsAnInterruptedStartAside(t *testing.T) {
	g := newGate(t, model.Record{Bootstrap: model.BootstrapNew, Members: []model.Peer{{Name: "orders-0", URL: "http://127.0.0.1:1"}}})
	g.write(filepath.Join(g.dataDir, "member", "snap", "db"), "half a database")
	g.write(filepath.Join(g.dataDir, "member", "wal.tmp", "0.wal"), "half a log")
	if err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(g.dataDir, "interrupted-*", "snap", "db"))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if disk, err := inspectDisk(g.dataDir); err != nil || disk != gate.DiskEmpty {
		t.Errorf("%v, %v", disk, err)
	}
}

func TestAPeerThatTalksNonsenseIsNoInformation(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no cluster id": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) },
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Etcd-Cluster-ID", "c1")
			w.WriteHeader(http.StatusInternalServerError)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Etcd-Cluster-ID", "c1")
			_, _ = w.Write([]byte("<html>"))
		},
		"more members than a cluster has": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Etcd-Cluster-ID", "c1")
			_, _ = w.Write([]byte("[" + strings.Repeat(`{"name":"a"},`, maxPeerMembers) + `{"name":"a"}]`))
		},
		"a name of 1 MiB": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Etcd-Cluster-ID", "c1")
			_, _ = w.Write([]byte(`[{"name":"` + strings.Repeat("a", maxPeerAnswer) + `"}]`))
		},
	} {
		srv := httptest.NewServer(handler)
		if a := askPeer(t.Context(), srv.Client(), model.Peer{Name: "p", URL: srv.URL}); a != nil {
			t.Errorf("%s: %+v", name, a)
		}
		srv.Close()
	}
}

// recoveredWithout is the record of a cluster that goes on without the member of the fixture.
func recoveredWithout(self model.Peer, other model.Peer) model.Record {
	return model.Record{
		Bootstrap: model.BootstrapNew, ClusterID: 0xc1, Members: []model.Peer{self, other},
		Recovery: model.Recovery{Incident: "3f9a2c", Phase: model.RecoveryOver, Survivor: other.Name},
	}
}

func TestTheGateKeepsWhatAMemberHadBeforeARecovery(t *testing.T) {
	for name, change := range map[string]func(*model.Recovery){
		"which is over": func(*model.Recovery) {},
		"and after which another loss is reported": func(r *model.Recovery) {
			*r = model.Recovery{Incident: "abcdef", Phase: model.RecoveryReported, Former: r.Incident}
		},
	} {
		t.Run(name, func(t *testing.T) { keepsWhatItHad(t, change) })
	}
}

func keepsWhatItHad(t *testing.T, change func(*model.Recovery)) {
	t.Helper()
	self, other := model.Peer{Name: "orders-0", URL: "http://orders-0:2380"}, model.Peer{Name: "orders-1"}
	other.URL = peer(t, "c1", []gate.PeerMember{
		{PeerURLs: []string{self.URL}},
		{Name: other.Name, PeerURLs: []string{"http://orders-1:2380"}, ClientURLs: []string{"http://orders-1:2379"}},
	})
	record := recoveredWithout(self, other)
	change(&record.Recovery)
	g := newGate(t, record)
	log := filepath.Join("member", "wal", "0000000000000000-0000000000000000.wal")
	g.write(filepath.Join(g.dataDir, log), "what it had")
	if err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := g.read(filepath.Join(g.volume(), "before-3f9a2c", log)); got != "what it had" {
		t.Errorf("kept: %q", got)
	}
	if got := g.read(filepath.Join(g.runDir, "etcd.yaml")); !strings.Contains(got, "initial-cluster-state: existing") {
		t.Errorf("%s", got)
	}
	g.write(filepath.Join(g.dataDir, log), "what it got since")
	if err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := g.read(filepath.Join(g.dataDir, log)); got != "what it got since" {
		t.Errorf("after a restart it has %q", got)
	}
}

func TestTheGateHoldsEverybodyWhileARecoveryLooksForASurvivor(t *testing.T) {
	r := recoveredWithout(model.Peer{Name: "orders-0", URL: "http://127.0.0.1:1"}, model.Peer{Name: "orders-1", URL: "http://127.0.0.1:1"})
	r.Recovery.Phase, r.Recovery.Survivor = model.RecoveryHeld, ""
	g := newGate(t, r)
	g.write(filepath.Join(g.dataDir, "member", "wal", "0000000000000000-0000000000000000.wal"), "no log at all")
	if err := g.run(t.Context()); err == nil {
		t.Fatal("it starts")
	}
	report, ok := model.ParseGateReport(g.read(g.terminationLog))
	if !ok || report.Reason != model.GateHeld || report.Log != nil || !strings.Contains(report.Message, "cannot be read") {
		t.Errorf("%+v", report)
	}
	if _, err := os.Stat(filepath.Join(g.volume(), epochFile)); err == nil {
		t.Error("the volume bears an incident that is not over")
	}
}

func TestACopyIsComplete(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	g := gateFixture{t: t}
	g.write(filepath.Join(from, "member", "snap", "db"), strings.Repeat("x", 100_000))
	g.write(filepath.Join(from, "member", "wal", "0.wal"), "log")
	size, err := treeSize(from)
	if err != nil || size != 100_003 {
		t.Errorf("%d, %v", size, err)
	}
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	if g.read(filepath.Join(to, "member", "wal", "0.wal")) != "log" || len(g.read(filepath.Join(to, "member", "snap", "db"))) != 100_000 {
		t.Error("the copy differs")
	}
}

// A cluster that was deleted while it began anew has set aside what it had, and has nothing else.
func TestTheGateDoesNotTakeDataThatWasSetAsideForNothing(t *testing.T) {
	g := newGate(t, model.Record{Bootstrap: model.BootstrapRetained, Members: []model.Peer{{Name: "orders-0", URL: "http://127.0.0.1:1"}}})
	log := filepath.Join("member", "wal", "0000000000000000-0000000000000000.wal")
	g.write(filepath.Join(g.dataDir, log), "what it had")
	if err := g.setAsideFor("abc123-20260501T000000Z"); err != nil {
		t.Fatal(err)
	}
	err := g.run(t.Context())
	report, ok := model.ParseGateReport(g.read(g.terminationLog))
	if err == nil || !ok || report.Reason != model.GateAside || !strings.Contains(report.Message, "before-abc123-20260501T000000Z") {
		t.Fatalf("%v, %+v", err, report)
	}
	if err := os.Rename(filepath.Join(g.volume(), "before-abc123-20260501T000000Z"), g.dataDir); err != nil {
		t.Fatal(err)
	}
	if err := g.run(t.Context()); err != nil {
		t.Errorf("moved back: %v", err)
	}
}
