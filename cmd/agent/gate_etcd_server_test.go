package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// onlyMember is the only member of a cluster, which is started with one version after the other.
type onlyMember struct {
	t         *testing.T
	data, url string
}

// start starts it, and returns the process and the file that it writes its log to.
func (m onlyMember) start(version string, flags ...string) (server *exec.Cmd, log string) {
	m.t.Helper()
	peer := "http://" + loopback.Address(m.t)
	server = exec.CommandContext(m.t.Context(), stores.Newest(m.t, version).Program(), append(flags, "--data-dir="+m.data,
		"--listen-client-urls="+m.url, "--advertise-client-urls="+m.url,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)...)
	log = filepath.Join(m.t.TempDir(), "log")
	stores.Start(m.t, server, log)
	m.t.Cleanup(func() { m.stop(server, os.Kill) })
	return server, log
}

func (m onlyMember) stop(server *exec.Cmd, how os.Signal) {
	_ = server.Process.Signal(how)
	_ = server.Wait()
}

// heeds waits until a server that runs heeds signals, which it does a moment after it answers clients: before, SIGTERM ends it at once, and
// the database lacks what only the log has.
func (m onlyMember) heeds(log string) {
	m.t.Helper()
	until(m.t, "the server heeds signals", func() error {
		said, err := os.ReadFile(log)
		if err == nil && !strings.Contains(string(said), "successfully notified init daemon") {
			err = fmt.Errorf("it says %s", said)
		}
		return err
	})
}

// agree waits until the members, which is it alone, have agreed on a version.
func (m onlyMember) agree(version string) {
	m.t.Helper()
	until(m.t, "the members agree on "+version, func() error {
		ask, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.url+"/version", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(ask)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		said, err := io.ReadAll(answer.Body)
		if err == nil && !strings.Contains(string(said), fmt.Sprintf(`"etcdcluster":%q`, version)) {
			err = fmt.Errorf("it says %s", said)
		}
		return err
	})
}

// TestEtcdItselfDoesNotGoBack: whatever the gate finds on the disk, etcd never starts from what members of a later version have agreed on,
// and the later version goes on with it.
func TestEtcdItselfDoesNotGoBack(t *testing.T) {
	for _, v := range []struct{ former, next, agreed, then string }{
		{"etcd-3.5", "etcd-3.6", "3.5.0", "3.6.0"}, {"etcd-3.6", "etcd-3.7", "3.6.0", "3.7.0"},
	} {
		before, after := minorOf(t, v.agreed), minorOf(t, v.then)
		for name, how := range map[string]struct {
			flags []string
			end   os.Signal
			found int
		}{
			"ended in order": {end: syscall.SIGTERM, found: after},
			"killed before the database knows what is in the log": {flags: []string{"--backend-batch-interval=1h"}, end: os.Kill, found: before},
		} {
			t.Run(v.next+" "+name, func(t *testing.T) {
				t.Parallel()
				m := onlyMember{t: t, data: filepath.Join(t.TempDir(), "data"), url: "http://" + loopback.Address(t)}
				server, log := m.start(v.former)
				m.agree(v.agreed)
				m.heeds(log)
				m.stop(server, syscall.SIGTERM)
				server, log = m.start(v.next, how.flags...)
				m.agree(v.then)
				m.heeds(log)
				m.stop(server, how.end)

				gate := newGate(t, model.Record{})
				gate.dataDir = m.data
				gate.letGo(model.GateReport{})
				var found model.GateReport
				if err := json.Unmarshal([]byte(gate.read(gate.terminationLog)), &found); err != nil || found.Agreed != how.found {
					t.Errorf("the database says 3.%d instead of 3.%d: %v", found.Agreed, how.found, err)
				}
				server, log = m.start(v.former)
				if err := server.Wait(); err == nil {
					t.Error("the former version ended well")
				}
				if words := lastWordsOf(t, log); found.Agreed != after && !model.RefusesVersion(words) {
					t.Errorf("neither the disk nor etcd tells why it does not start: %s", words)
				}
				m.start(v.next)
				m.agree(v.then)
			})
		}
	}
}

func minorOf(t *testing.T, version string) int {
	t.Helper()
	v, err := model.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	return v.Minor
}

// lastWordsOf is as much of a log as Kubernetes keeps of a container that failed.
func lastWordsOf(t *testing.T, log string) string {
	t.Helper()
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	const kept = 2048
	return string(raw[max(0, len(raw)-kept):])
}
