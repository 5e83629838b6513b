package config

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// odd are texts that YAML might take for something else.
var odd = []string{
	"", " ", "yes", "no", "on", "Off", "true", "null", "~", "1", "-1", "0x1f", "0o7", "017", "1e3", "1_000", ".inf", ".NaN", "1.5", "12:30:45", "2026-01-02", "2026-11-2",
	"a: b", "a #b", "#a", "- a", "? a", "! a", "&a", "*a", "%a", "@a", "`a`", "[a]", "{a}", "a,b", "<<", "=", "'", `"`, `it's "so"`, `a\b`, " a", "a ", "a&b<c>d", "|", ">", "---", "...",
}

// TestTheConfigurationIsWrittenAsBefore: another form of the same is another configuration to the pods that run.
func TestTheConfigurationIsWrittenAsBefore(t *testing.T) {
	t.Parallel()
	level := "warn"
	config := map[string]any{
		"string": level, "count": uint64(1)<<62 + 1, "quota": int64(8) << 30, "none": 0, "on": true, "off": false, "list": odd, "empty": []string{},
		"peer-transport-security": Layout{TLS: v1alpha1.TLSManaged, Version: model.Version{Major: 3, Minor: 5, Patch: 14}}.peerSecurity(), "client-transport-security": Layout{TLS: v1alpha1.TLSManaged, Version: model.Version{Major: 3, Minor: 6, Patch: 1}}.peerSecurity(),
	}
	for i, text := range odd {
		config["text-"+string(rune('a'+i/8))+string(rune('a'+i%8))] = text
	}
	got, err := encode(config)
	if err != nil {
		t.Fatal(err)
	}
	want, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("it is\n%s\nand was\n%s", got, want)
	}
}
