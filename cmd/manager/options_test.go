package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseSaysWhatIsMissingAndReadsTheEnvironment(t *testing.T) {
	t.Setenv("WATCH_NAMESPACE", "a, b")
	t.Setenv("AGENT_IMAGE", "")
	if _, err := parse(nil); err == nil || !strings.Contains(err.Error(), "--agent-image") {
		t.Errorf("without an agent image: %v", err)
	}
	o, err := parse([]string{"--agent-image=x"})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.watched(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("namespaces %q", got)
	}
	o, err = parse([]string{"--agent-image=x", "--watch-namespaces=", "--dial=pigeon"})
	if err != nil || len(o.watched()) != 0 {
		t.Errorf("namespaces %q, %v", o.watched(), err)
	}
	if _, err := o.dialFunc(nil); err == nil || !strings.Contains(err.Error(), "port-forward") {
		t.Errorf("an unknown way to dial gave %v", err)
	}
}

func TestManagersOfOneLeaseNamespaceLetOnlyOneWork(t *testing.T) {
	o, err := parse([]string{"--agent-image=x", "--leader-election-namespace=quorate-system"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := managerOptions(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !got.LeaderElection || got.LeaderElectionNamespace != "quorate-system" || got.LeaderElectionID != "manager.quorate.dev" {
		t.Errorf("leader election %v with lease %s/%s", got.LeaderElection, got.LeaderElectionNamespace, got.LeaderElectionID)
	}
}

func TestAManagerThatDoesNotLeadSaysSo(t *testing.T) {
	var said []string
	say := func(text string, _ ...any) { said = append(said, text) }
	closed, late := make(chan struct{}), make(chan time.Time, 1)
	close(closed)
	sayWaiting(say, closed, nil)
	if len(said) != 0 {
		t.Errorf("a leader says %q", said)
	}
	late <- time.Time{}
	sayWaiting(say, nil, late)
	if len(said) != 1 || !strings.Contains(said[0], "waiting for another manager") {
		t.Errorf("a manager that waits says %q", said)
	}
}

func TestClusterDomainComesFromTheSearchList(t *testing.T) {
	tests := map[string]struct{ conf, want string }{
		"kubelet's file":        {"search quorate-system.svc.k8s.corp svc.k8s.corp k8s.corp\nnameserver 10.96.0.10\n", "k8s.corp"},
		"a laptop's file":       {"nameserver 192.0.2.1\nsearch home.example\n", "cluster.local"},
		"an empty search list":  {"search\n", "cluster.local"},
		"no file at that place": {"", "cluster.local"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			if tc.conf != "" {
				if err := os.WriteFile(path, []byte(tc.conf), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := clusterDomain(path); got != tc.want {
				t.Errorf("domain %q, want %q", got, tc.want)
			}
		})
	}
}

func TestMetricsAreForThoseThatTheAPIServerLetsUnlessToldOtherwise(t *testing.T) {
	for flag, want := range map[string]bool{"--metrics-authorization": true, "--metrics-authorization=false": false} {
		o, err := parse([]string{"--agent-image=x", flag})
		if err != nil {
			t.Fatal(err)
		}
		got, err := managerOptions(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Metrics.SecureServing || (got.Metrics.FilterProvider != nil) != want {
			t.Errorf("%s: over TLS %v, asked who reads %v", flag, got.Metrics.SecureServing, got.Metrics.FilterProvider != nil)
		}
	}
	if o, err := parse([]string{"--agent-image=x"}); err != nil || !o.authorize {
		t.Errorf("without the flag %v, %v", o.authorize, err)
	}
}

func TestNothingIsCountedWhereNoMetricsAreServed(t *testing.T) {
	for flag, want := range map[string]bool{"--metrics-bind-address=0": false, "--metrics-bind-address=:8443": true} {
		o, err := parse([]string{"--agent-image=x", flag})
		if got := o.registerer() != nil; err != nil || got != want {
			t.Errorf("%s: %t, %v", flag, got, err)
		}
	}
}

func TestTheVersionNeedsNothingElse(t *testing.T) {
	t.Setenv("AGENT_IMAGE", "")
	if o, err := parse([]string{"--version"}); err != nil || !o.version {
		t.Errorf("%+v, %v", o, err)
	}
}
