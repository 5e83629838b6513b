package model_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/etcdtest"
)

func TestCapabilitiesOfEachMinorVersion(t *testing.T) {
	first36 := etcdtest.Version(t, "3.5.26")
	early := model.Capabilities{WritesLegacyLog: true, ReadsLegacyLog: true, UpgradesFrom: first36, Newest: etcdtest.V35}
	later := func(change func(*model.Capabilities)) model.Capabilities {
		out := early
		out.Supported = true
		change(&out)
		return out
	}
	on36 := model.Capabilities{
		Supported: true, RestrictsPeers: true, PeerNameLists: true, SkipsClientSAN: true, FeatureGates: true, ReadsLegacyLog: true,
		UpgradesFrom: etcdtest.Version(t, "3.6.0"), Newest: etcdtest.V36,
	}
	on37 := on36
	on37.ReadsLegacyLog, on37.UpgradesFrom, on37.Newest = false, etcdtest.Version(t, "3.7.0"), etcdtest.V37
	after := model.Capabilities{RestrictsPeers: true, PeerNameLists: true, SkipsClientSAN: true, FeatureGates: true}
	for text, want := range map[string]model.Capabilities{
		"3.4.30": {WritesLegacyLog: true, ReadsLegacyLog: true},
		"3.5.10": early,
		"3.5.11": later(func(*model.Capabilities) {}),
		"3.5.14": later(func(c *model.Capabilities) { c.RestrictsPeers = true }),
		"3.5.15": later(func(c *model.Capabilities) { c.RestrictsPeers, c.PeerNameLists = true, true }),
		"3.5.35": later(func(c *model.Capabilities) { c.RestrictsPeers, c.PeerNameLists = true, true }),
		"3.6.0":  on36,
		"3.6.16": on36,
		"3.7.0":  on37,
		"3.7.3":  on37,
		"3.8.0":  after,
		"4.0.0":  after,
	} {
		if diff := cmp.Diff(want, model.CapabilitiesOf(etcdtest.Version(t, text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if diff := cmp.Diff(model.Capabilities{WritesLegacyLog: true, ReadsLegacyLog: true}, model.CapabilitiesOf(model.Version{})); diff != "" {
		t.Errorf("no version (-want +got):\n%s", diff)
	}
	if first, last := model.Minors(); first != 5 || last != 7 {
		t.Errorf("the minor versions are %d to %d", first, last)
	}
	if got := model.Supported(); got != "3.5 (from 3.5.11), 3.6 or 3.7" {
		t.Errorf("the supported versions are %q", got)
	}
}

// An upgrade passes through releases that the tests run.
func TestTheNewestReleasesAreThoseUnderTest(t *testing.T) {
	raw, err := os.ReadFile("../../../../hack/versions.env")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if key, text, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.HasPrefix(key, "ETCD_3_") {
			tested[key] = text
		}
	}
	if len(tested) < 3 {
		t.Fatalf("the versions are %v", tested)
	}
	for key, text := range tested {
		if v := etcdtest.Version(t, text); model.CapabilitiesOf(v).Newest != v {
			t.Errorf("%s is %s, and upgrades pass through %s", key, v, model.CapabilitiesOf(v).Newest)
		}
	}
}

func TestDataOfTheSameMinorVersionOrTheOneBeforeRuns(t *testing.T) {
	for _, tc := range []struct {
		runs, wrote string
		want        bool
	}{
		{"3.5.35", "3.5.9", true}, {"3.6.16", "3.5.35", true}, {"3.5.35", "3.6.16", false}, {"3.7.3", "3.5.35", false}, {"3.7.0", "3.7.3", true}, {"4.6.0", "3.6.0", false},
	} {
		if got := model.RunsDataOf(etcdtest.Version(t, tc.runs), etcdtest.Version(t, tc.wrote)); got != tc.want {
			t.Errorf("etcd %s runs data of %s: %t", tc.runs, tc.wrote, got)
		}
	}
}

// CEL cannot ask the table.
func TestTheRulesOfTheAPIAgreeWithTheTable(t *testing.T) {
	raw, err := os.ReadFile("../../../../api/v1alpha1/etcdcluster_types.go")
	if err != nil {
		t.Fatal(err)
	}
	rule := func(before string) *regexp.Regexp {
		_, rest, found := strings.Cut(string(raw), before)
		text, _, ended := strings.Cut(rest, "')")
		if !found || !ended {
			t.Fatalf("no rule of the API has %s", before)
		}
		return regexp.MustCompile(text)
	}
	accepted := rule("`self.matches('")
	exposed := rule("`self.?tls.?mode.orValue('Managed') == 'Disabled' || !self.version.matches('")
	for _, text := range []string{"3.4.30", "3.5.10", "3.5.11", "3.5.13", "3.5.14", "3.5.35", "3.6.0", "3.6.16", "3.7.0", "3.7.3", "3.8.0", "4.0.0"} {
		can := model.CapabilitiesOf(etcdtest.Version(t, text))
		if accepted.MatchString(text) != can.Supported {
			t.Errorf("%s is supported: %t, and the API accepts it: %t", text, can.Supported, !can.Supported)
		}
		if can.Supported && exposed.MatchString(text) == can.RestrictsPeers {
			t.Errorf("%s restricts peers: %t, and the API accepts it with TLS: %t", text, can.RestrictsPeers, !can.RestrictsPeers)
		}
	}
}
