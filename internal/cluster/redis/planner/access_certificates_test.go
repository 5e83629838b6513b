package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/manifests"
)

func TestServersReloadTheirCertificateUntilTheyShowIt(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*fixture)
		want  string
	}{
		"all show it":                     {func(*fixture) {}, ""},
		"one shows another":               {func(f *fixture) { f.pod("c-1-1").Node.Certificate = "old" }, "reload the certificates of c-1-1"},
		"nobody knows which is the right": {func(f *fixture) { f.Spec.Certificate = "" }, ""},
		"while a server is away": {
			func(f *fixture) { f.pod("c-1-1").Node.Certificate = "old"; f.pod("c-0-1").Node = nil }, "reload the certificates of c-1-1",
		},
		"and a pod is not ready": {
			func(f *fixture) { f.pod("c-1-1").Node.Certificate = "old"; f.pod("c-2-1").Ready = false }, "reload the certificates of c-1-1",
		},
		"and a canary does not start": {
			func(f *fixture) {
				f.pod("c-1-1").Node.Certificate = "old"
				f.upgraded("c-0-1")
				f.neverAnswers(time.Hour)
			}, "reload the certificates of c-1-1",
		},
		"a canary does not start, and the others show it": {func(f *fixture) { f.upgraded("c-0-1"); f.neverAnswers(time.Hour) }, ""},
		"and a version is refused": {
			func(f *fixture) { f.pod("c-1-1").Node.Certificate, f.Spec.Version = "old", "8.2.0" }, "reload the certificates of c-1-1",
		},
		"and a canary does not get into sync": {
			func(f *fixture) {
				outdate(f)
				f.pod("c-1-1").Node.Certificate, f.pod("c-2-1").Outdated = "old", false
				f.unlink("c-2-1")
				f.pod("c-2-1").Node.LinkDown = time.Hour
			}, "reload the certificates of c-1-1",
		},
		"and a replica does not get into sync": {
			func(f *fixture) {
				f.pod("c-1-1").Node.Certificate = "old"
				f.unlink("c-2-1")
				f.pod("c-2-1").Node.LinkDown = time.Hour
			}, "reload the certificates of c-1-1",
		},
		"and less memory is refused": {
			func(f *fixture) { f.pod("c-1-1").Node.Certificate = "old"; f.starve() }, "reload the certificates of c-1-1",
		},
		"less memory is refused, and all show it": {func(f *fixture) { f.starve() }, ""},
		"after those that are outdated": {
			func(f *fixture) { f.pod("c-1-1").Node.Certificate = "old"; f.pod("c-0-1").Outdated = true }, "restart c-0-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := guarded()
			f.Spec.Certificate = "new"
			for i := range f.Pods {
				f.Pods[i].Node.Certificate = "new"
			}
			tc.spoil(f)
			got := ""
			if s := Next(f.State).Step; s != nil {
				got = s.String()
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestReplicatedServersReloadTheirCertificateWhileOthersAreAway(t *testing.T) {
	for name, spoil := range map[string]func(*fixture){
		"a server is away":   func(f *fixture) { f.pod("c-0-2").Node = nil },
		"a pod is not ready": func(f *fixture) { f.pod("c-0-2").Ready = false },
	} {
		f := replicated()
		f.Spec.Certificate = "new"
		for i := range f.Pods {
			f.Pods[i].Node.Certificate = "new"
		}
		spoil(f)
		if p := Next(f.State); p.Step != nil {
			t.Errorf("%s, and all show it: %s", name, p.Step)
		}
		f.pod("c-0-1").Node.Certificate = "old"
		if p := Next(f.State); p.Step == nil || p.Step.String() != "reload the certificates of c-0-1" {
			t.Errorf("%s: %v", name, p)
		}
	}
}

func TestAPodIsRestartedForOtherAuthoritiesOnlyWhereNothingProvesThem(t *testing.T) {
	b := manifests.Builder{CertificateSum: "ca2-leaf2"}
	for name, tc := range map[string]struct {
		started string
		proven  bool
		want    bool
	}{
		"the same":                       {"ca2-leaf2", false, false},
		"another certificate":            {"ca2-leaf1", false, false},
		"other authorities":              {"ca1-leaf2", false, true},
		"other authorities that show":    {"ca1-leaf1", true, false},
		"what an earlier version noted":  {"0123456789abcdef", false, true},
		"and with authorities that show": {"0123456789abcdef", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := b.Stale(map[string]string{manifests.AnnotationCertificates: tc.started}, tc.proven); got != tc.want {
				t.Errorf("%t", got)
			}
		})
	}
}
