package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
