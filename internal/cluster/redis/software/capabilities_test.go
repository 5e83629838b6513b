package software

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
)

// can lists what a version can do.
func can(t *testing.T, engine v1alpha1.RedisEngine, version string) []string {
	t.Helper()
	c, err := Release{engine, version}.Capabilities()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, fact := range []struct {
		name string
		is   bool
	}{
		{"name", c.AnnouncesName},
		{"listpacks", c.SetListpacks},
		{"literal ACL", c.LiteralACL},
		{"slot stats", c.SlotStats},
		{string(c.SlotMigration), c.SlotMigration != SlotMigrationNone},
	} {
		if fact.is {
			out = append(out, fact.name)
		}
	}
	return out
}

func TestCapabilitiesOfEachLine(t *testing.T) {
	names := []string{"name", "listpacks"}
	literal := append(slices.Clone(names), "literal ACL")
	stats := append(slices.Clone(literal), "slot stats")
	for name, tc := range map[string]struct {
		engine   v1alpha1.RedisEngine
		versions []string
		want     []string
		rdb      int
	}{
		"redis before 7.0": {v1alpha1.EngineRedis, []string{"6.2.14", "0.0.0"}, nil, 0},
		"redis 7.0":        {v1alpha1.EngineRedis, []string{"7.0.0", "7.0.15", "7.1.242"}, nil, 10},
		"redis 7.2":        {v1alpha1.EngineRedis, []string{"7.2.0", "7.2.5"}, names, 11},
		"redis 7.4":        {v1alpha1.EngineRedis, []string{"7.4.0", "7.4.7-alpine", "7.9.240"}, names, 12},
		"redis 8.0":        {v1alpha1.EngineRedis, []string{"8.0.0", "8.0.2", "8.1.240"}, literal, 12},
		"redis 8.2":        {v1alpha1.EngineRedis, []string{"8.2.0", "8.2.6"}, stats, 12},
		"redis 8.4":        {v1alpha1.EngineRedis, []string{"8.4.0", "8.4.0-rc1"}, append(slices.Clone(stats), "CLUSTER MIGRATION"), 12},
		"redis 8.6":        {v1alpha1.EngineRedis, []string{"8.6.0"}, append(slices.Clone(stats), "CLUSTER MIGRATION"), 13},
		"redis 8.8":        {v1alpha1.EngineRedis, []string{"8.8.1", "9.0.0", "255.255.255"}, append(slices.Clone(stats), "CLUSTER MIGRATION"), 14},
		"valkey 7.2":       {v1alpha1.EngineValkey, []string{"7.2.11"}, names, 11},
		"valkey 8.0":       {v1alpha1.EngineValkey, []string{"8.0.0"}, stats, 11},
		"valkey 8.1":       {v1alpha1.EngineValkey, []string{"8.1.1"}, stats, 11},
		"valkey 9.0":       {v1alpha1.EngineValkey, []string{"9.0.0"}, append(slices.Clone(stats), "CLUSTER MIGRATESLOTS"), 80},
		"valkey 9.1":       {v1alpha1.EngineValkey, []string{"9.1.2"}, append(slices.Clone(stats), "CLUSTER MIGRATESLOTS"), 80},
		"valkey 9.2":       {v1alpha1.EngineValkey, []string{"9.2.0", "10.0.0"}, append(slices.Clone(stats), "CLUSTER MIGRATESLOTS"), 81},
		"no engine":        {"", []string{"8.0.2"}, nil, 0},
	} {
		for _, version := range tc.versions {
			if diff := gocmp.Diff(tc.want, can(t, tc.engine, version)); diff != "" {
				t.Errorf("%s: %s can do (-want +got):\n%s", name, version, diff)
			}
			if c, err := (Release{tc.engine, version}).Capabilities(); err != nil || c.RDB != tc.rdb {
				t.Errorf("%s: %s writes RDB version %d (%v), want %d", name, version, c.RDB, err, tc.rdb)
			}
		}
	}
}

func TestAVersionThatCannotBeReadHasNoCapability(t *testing.T) {
	for _, engine := range []v1alpha1.RedisEngine{v1alpha1.EngineRedis, v1alpha1.EngineValkey} {
		for _, version := range []string{"", "8", "unstable", "8.x.0"} {
			if c, err := (Release{engine, version}).Capabilities(); err == nil || c != (Capabilities{}) {
				t.Errorf("%s %q: %+v, %v", engine, version, c, err)
			}
		}
	}
}

func TestTheLinesOfAnEngineAscend(t *testing.T) {
	all := Lines()
	for i, l := range all[1:] {
		before := all[i]
		if l.Engine == before.Engine && (cmp.Or(l.Major-before.Major, l.Minor-before.Minor) <= 0 || l.RDB < before.RDB) {
			t.Errorf("%s follows %s", l, before)
		}
	}
	for _, engine := range []v1alpha1.RedisEngine{v1alpha1.EngineRedis, v1alpha1.EngineValkey} {
		if FirstWith(engine, func(c Capabilities) bool { return c.SlotMigration != SlotMigrationNone }) == nil {
			t.Errorf("no line of %s migrates slots", engine)
		}
	}
	if l := FirstWith(v1alpha1.EngineValkey, func(c Capabilities) bool { return c.SlotMigration == SlotMigrationPull }); l != nil {
		t.Errorf("%s has a command of Redis", l)
	}
}

// rule returns the pattern or prefix between two parts of a CEL rule of the API.
func rule(t *testing.T, before, after string) string {
	t.Helper()
	raw, err := os.ReadFile("../../../../api/v1alpha1/rediscluster_types.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(raw), before)
	text, _, ended := strings.Cut(rest, after)
	if !found || !ended {
		t.Fatalf("no rule of the API has %s", before)
	}
	return text
}

// CEL cannot ask the table.
func TestTheRulesOfTheAPIAgreeWithTheTable(t *testing.T) {
	accepted := map[v1alpha1.RedisEngine]*regexp.Regexp{}
	for _, engine := range []v1alpha1.RedisEngine{v1alpha1.EngineRedis, v1alpha1.EngineValkey} {
		accepted[engine] = regexp.MustCompile(rule(t, "`self.engine != '"+string(engine)+"' || self.version.matches('", "')"))
	}
	noLoad := regexp.MustCompile(rule(t, "self.rebalance.by != 'Load' || self.engine != 'redis' || !self.version.matches('", "')"))
	noListpacks := rule(t, "`self.engine != 'redis' || !self.version.startsWith('", "')")
	lines := 0
	for _, l := range Lines() {
		version := fmt.Sprintf("%d.%d.0", l.Major, l.Minor)
		if !accepted[l.Engine].MatchString(version) {
			continue
		}
		lines++
		if load := l.Engine != v1alpha1.EngineRedis || !noLoad.MatchString(version); load != l.SlotStats {
			t.Errorf("%s: the API accepts spec.rebalance.by Load: %t, and there is CLUSTER SLOT-STATS: %t", l, load, l.SlotStats)
		}
		if listpacks := l.Engine != v1alpha1.EngineRedis || !strings.HasPrefix(version, noListpacks); listpacks != l.SetListpacks {
			t.Errorf("%s: the API accepts set-max-listpack-entries: %t, and the server: %t", l, listpacks, l.SetListpacks)
		}
	}
	if want := len(Lines()) - 1; lines != want { // Valkey 7.2 wrote backups, and is not run.
		t.Errorf("the API accepts %d lines of the table, want %d", lines, want)
	}
}
