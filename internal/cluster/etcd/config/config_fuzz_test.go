package config_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/etcdtest"
)

// fuzzVersions are what members run on the way to a version, and that one.
var fuzzVersions = [][2]string{
	{"3.5.35", "3.5.35"}, {"3.6.16", "3.6.16"}, {"3.7.3", "3.7.3"}, {"3.5.35", "3.6.16"}, {"3.6.16", "3.7.3"},
}

// nasty are values that a file could make something else of.
var nasty = []string{
	"", " ", "1", "true", "yes", "no", "~", "null", "0x1F", "1_000", "1e3", "- a", "a: b", "a #b", "*a", "&a", "!a", "%a", "@a", "`a`", "{a: b}", "[a]", "'", `"`, `\`,
	"a\nname: b", "a\r\nname: b", "a\x00", "a\u0085name: b", "a\u2028name: b", "\ufeffa", "ü", "\xff", "...", "---", "a,b", ",", "1s", "//0.0.0.0:1",
	"initial-cluster: x", strings.Repeat("a b ", 64), strings.Repeat("x", 256), "CompactHashCheck=false", "\u00a0CompactHashCheck=false", "\vAllBeta=true",
}

// FuzzConfig holds the file that a member reads against what was asked for: that parameter and no other, with that value, and what belongs
// to the operator as it is without it.
func FuzzConfig(f *testing.F) {
	for _, value := range nasty {
		for version, key := range []string{"experimental-distributed-tracing-service-name", "feature-gates", "distributed-tracing-address", "tls-min-version"} {
			f.Add(key, value, uint8(version))
		}
	}
	for _, key := range []string{
		"Data-Dir", "data_dir", "name", " name", "name ", "NAME", "initial-cluster: x\nmax-txn-ops", "experimental-max-txn-ops", "max-txn-ops", "max-wals",
		"pre-vote", "cipher-suites", "grpc-keepalive-time", "grpc-keepalive-interval", "quota-backend-bytes", "feature-gates", "client-transport-security",
	} {
		f.Add(key, "1", uint8(1))
	}
	f.Fuzz(func(t *testing.T, key, value string, versions uint8) {
		pair := fuzzVersions[int(versions)%len(fuzzVersions)]
		v, wanted := etcdtest.Version(t, pair[0]), etcdtest.Version(t, pair[1])
		common, err := config.Common(extraOf(key, value), v, wanted)
		if err != nil {
			var refusal cluster.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != v1alpha1.ReasonInvalidSpec {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		without, err := config.Common(nil, v, wanted)
		if err != nil {
			t.Fatal(err)
		}
		for _, ipv6 := range []bool{false, true} {
			onlyAdds(t, parsed(t, without, v, ipv6), parsed(t, common, v, ipv6), key, value)
		}
		again, err := config.Common(extraOf(key, value), v, wanted)
		if diff := cmp.Diff(fileOf(t, common, v, false), fileOf(t, again, v, false)); diff != "" || err != nil {
			t.Errorf("another time it is another file (%v):\n%s", err, diff)
		}
	})
}

func extraOf(key, value string) *v1alpha1.EtcdConfig {
	return &v1alpha1.EtcdConfig{Extra: map[string]v1alpha1.ConfigValue{key: v1alpha1.ConfigValue(value)}}
}

// fileOf is what a member reads that joins others.
func fileOf(t *testing.T, common map[string]any, v model.Version, ipv6 bool) string {
	t.Helper()
	members := model.Peers("orders", "shop", "cluster.local", 3, true)
	text, err := config.MemberConfig(common, config.Layout{
		Name: "orders", Namespace: "shop", UID: "u-1", Domain: "cluster.local", TLS: v1alpha1.TLSManaged, Auth: true, Version: v, Members: members,
	}, members[1])
	if err != nil {
		t.Fatal(err)
	}
	return gate.FinishConfig(text, gate.Decision{State: "existing", Members: members[:2]}, ipv6)
}

// parsed is that file as etcd reads it, with the same library.
func parsed(t *testing.T, common map[string]any, v model.Version, ipv6 bool) map[string]any {
	t.Helper()
	text := fileOf(t, common, v, ipv6)
	var out map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("etcd cannot read it: %v\n%s", err, text)
	}
	return out
}

// onlyAdds fails unless one file is the other one with the parameter.
func onlyAdds(t *testing.T, before, after map[string]any, key, value string) {
	t.Helper()
	gates := "feature-gates"
	if got, ok := after[gates].(string); ok {
		checkGates(t, got)
	}
	var changed []string
	for name := range after {
		if !cmp.Equal(before[name], after[name]) {
			changed = append(changed, name)
		}
		delete(before, name)
	}
	if len(before) > 0 {
		t.Errorf("%v are not there any more", slices.Collect(maps.Keys(before)))
	}
	bare := strings.TrimPrefix(key, "experimental-")
	for _, name := range changed {
		if strings.TrimPrefix(name, "experimental-") != bare {
			t.Errorf("%s becomes %v because of %q: %q", name, after[name], key, value)
			continue
		}
		if name == gates {
			if !strings.Contains(after[name].(string), value) {
				t.Errorf("the gates are %q, asked for were %q", after[name], value)
			}
			continue
		}
		if got := asked(after[name], value); got != value {
			t.Errorf("%s is %v, asked for was %q", name, after[name], value)
		}
	}
}

// asked is a value of the file in the words of the specification, if those mean the same.
func asked(got any, value string) string {
	switch got := got.(type) {
	case string:
		return got
	case bool:
		if b, err := strconv.ParseBool(value); err == nil && b == got {
			return value
		}
	case float64: // A number of JSON: a count, or nanoseconds.
		if n, err := strconv.ParseUint(value, 10, 63); err == nil && float64(n) == got {
			return value
		}
		if d, err := time.ParseDuration(value); err == nil && float64(d) == got {
			return value
		}
	case []any:
		var words []string
		for _, word := range got {
			words = append(words, fmt.Sprint(word))
		}
		return strings.Join(words, ",")
	}
	return fmt.Sprintf("%T", got)
}

// checkGates reads gates as etcd does (Set in pkg/featuregate): the last word on a gate counts.
func checkGates(t *testing.T, text string) {
	t.Helper()
	gates := map[string]string{}
	for word := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(word, "=")
		gates[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	for _, name := range []string{"InitialCorruptCheck", "AllAlpha", "AllBeta"} {
		if _, ok := gates[name]; ok {
			t.Errorf("the gate %s is set: %q", name, text)
		}
	}
	if gates["CompactHashCheck"] != "true" {
		t.Errorf("the gate CompactHashCheck is off: %q", text)
	}
}
