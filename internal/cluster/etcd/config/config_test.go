package config_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/etcdtest"
	"github.com/quorate/quorate/test/golden"
)

func TestMemberConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		tls     v1alpha1.TLSMode
		config  *v1alpha1.EtcdConfig
		volume  string
	}{
		"3.7.3-small-volume": {version: "3.7.3", tls: v1alpha1.TLSDisabled, volume: "1Gi"},
		"3.5.11-managed":     {version: "3.5.11", tls: v1alpha1.TLSManaged}, // Runs on from before it was refused.
		"3.5.14-managed":     {version: "3.5.14", tls: v1alpha1.TLSManaged},
		"3.5.35-full":        {version: "3.5.35", tls: v1alpha1.TLSManaged, config: etcdtest.Config()},
		"3.6.16-full":        {version: "3.6.16", tls: v1alpha1.TLSManaged, config: etcdtest.Config(), volume: "8Gi"},
		"3.5.14-provided":    {version: "3.5.14", tls: v1alpha1.TLSProvided},
		"3.7.3-provided":     {version: "3.7.3", tls: v1alpha1.TLSProvided},
		"3.7.3-disabled":     {version: "3.7.3", tls: v1alpha1.TLSDisabled},
		"3.6.16-other-gates": {version: "3.6.16", tls: v1alpha1.TLSDisabled, config: &v1alpha1.EtcdConfig{
			Extra: map[string]v1alpha1.ConfigValue{"feature-gates": "LeaseCheckpoint=true"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := etcdtest.Version(t, tc.version)
			common, err := config.Common(tc.config, v, v)
			if err != nil {
				t.Fatal(err)
			}
			members := model.Peers("orders", "shop", "cluster.local", 3, tc.tls != v1alpha1.TLSDisabled)
			volume := resource.MustParse("0" + tc.volume)
			got, err := config.MemberConfig(common, config.Layout{
				Name: "orders", Namespace: "shop", UID: "u-1", Domain: "cluster.local", TLS: tc.tls,
				Auth: tc.tls != v1alpha1.TLSDisabled, Version: v, Members: members, VolumeSize: volume.Value(),
			}, members[1])
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name+".yaml", got)
		})
	}
}

func TestTheDefaultQuotaLeavesRoomOnTheVolume(t *testing.T) {
	members := model.Peers("orders", "shop", "cluster.local", 1, false)
	for volume, want := range map[string]string{
		"0": "", "512Mi": "67108864", "1Gi": "335544320", "4479Mi": "2146959360", "4480Mi": "", "1Ti": "",
	} {
		size := resource.MustParse(volume)
		text, err := config.MemberConfig(map[string]any{}, config.Layout{Name: "orders", TLS: v1alpha1.TLSDisabled, Members: members, VolumeSize: size.Value()}, members[0])
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(text, "quota-backend-bytes: ")
		if got, _, _ := strings.Cut(after, "\n"); got != want {
			t.Errorf("quota %q on a volume of %s, want %q", got, volume, want)
		}
	}
}

func TestParametersThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		version, key, value, says string
	}{
		"owned":              {"3.6.16", "force-new-cluster", "true", "belongs to the operator"},
		"typed":              {"3.6.16", "snapshot-count", "5", "use spec.config.snapshotCount"},
		"unknown":            {"3.6.16", "max-txn-opps", "5", "no such parameter"},
		"not a number":       {"3.6.16", "max-txn-ops", "many", "whole number"},
		"negative":           {"3.6.16", "max-txn-ops", "-1", "whole number"},
		"not a boolean":      {"3.6.16", "pre-vote", "maybe", "neither true nor false"},
		"not a duration":     {"3.6.16", "grpc-keepalive-interval", "7", "not a duration"},
		"two lines":          {"3.6.16", "tls-min-version", "TLS1.2\nname: x", "printable ASCII"},
		"two lines of YAML":  {"3.6.16", "tls-min-version", "TLS1.2\u0085name: x", "printable ASCII"},
		"two of a list":      {"3.6.16", "cipher-suites", "a\nb", "printable ASCII"},
		"no text at all":     {"3.6.16", "tls-min-version", "\xff", "printable ASCII"},
		"another space":      {"3.6.16", "feature-gates", "LeaseCheckpoint=true,\u00a0CompactHashCheck=false", "printable ASCII"},
		"a name of 3.5":      {"3.6.16", "experimental-corrupt-check-time", "1m", "there it is called corrupt-check-time"},
		"a name of 3.6":      {"3.5.35", "corrupt-check-time", "1m", "there it is called experimental-corrupt-check-time"},
		"the check off":      {"3.6.16", "feature-gates", "LeaseCheckpoint=true,CompactHashCheck=false", "belong to the operator"},
		"the check at start": {"3.7.3", "feature-gates", "InitialCorruptCheck = true", "belong to the operator"},
		"all gates":          {"3.7.3", "feature-gates", "AllBeta=false", "one by one"},
		"nothing of the old": {"3.5.35", "feature-gates", "X=true", "etcd 3.5 has no such parameter"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Common(&v1alpha1.EtcdConfig{
				Extra: map[string]v1alpha1.ConfigValue{tc.key: v1alpha1.ConfigValue(tc.value)},
			}, etcdtest.Version(t, tc.version), etcdtest.Version(t, tc.version))
			var refusal cluster.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), tc.key) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestEveryOwnedParameterIsRefused(t *testing.T) {
	if !slices.IsSorted(config.OwnedConfigKeys) {
		t.Error("the list is not sorted")
	}
	owned := config.OwnedConfigKeys
	for key := range config.TypedConfigKeys {
		owned = append(owned, key)
	}
	for _, key := range owned {
		for _, v := range []string{"3.5.35", "3.6.16", "3.7.3"} {
			_, err := config.Common(&v1alpha1.EtcdConfig{Extra: map[string]v1alpha1.ConfigValue{key: "1"}}, etcdtest.Version(t, v), etcdtest.Version(t, v))
			if err == nil {
				t.Errorf("%s may be set for %s", key, v)
			}
		}
	}
}

func TestEveryKeyThatIsWrittenIsOwnedOrTyped(t *testing.T) {
	v := etcdtest.Version(t, "3.6.16")
	common, err := config.Common(nil, v, v)
	if err != nil {
		t.Fatal(err)
	}
	members := model.Peers("orders", "shop", "cluster.local", 1, true)
	text, err := config.MemberConfig(common, config.Layout{Name: "orders", TLS: v1alpha1.TLSManaged, Version: v, Members: members}, members[0])
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		key, _, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "-") || key == "feature-gates" || key == "max-wals" {
			continue // Gates of the user are added to ours, and the number of WAL files is a default.
		}
		if _, typed := config.TypedConfigKeys[key]; !typed && !slices.Contains(config.OwnedConfigKeys, key) {
			t.Errorf("%s is written, but users may set it too", key)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, supported := range map[string]bool{
		"3.5.10": false, "3.5.11": true, "v3.6.0": true, "3.7.3": true, "3.8.0": false, "4.0.0": false, "3.4.30": false,
	} {
		if got := model.CapabilitiesOf(etcdtest.Version(t, text)).Supported; got != supported {
			t.Errorf("%s: %t", text, got)
		}
	}
	for _, text := range []string{"", "3", "3.6", "3.6.x", "3.6.-1", "3.6.1.1", "3.6.1-rc1"} {
		if v, err := model.ParseVersion(text); err == nil {
			t.Errorf("%q is read as %v", text, v)
		}
	}
}

func TestTheWriteAheadLogIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		config    *v1alpha1.EtcdConfig
		wals      string
		snapshots int64
	}{
		"has room for entries of 64Ki":                         {nil, "2", 3072},
		"takes smaller requests at their word no further":      {&v1alpha1.EtcdConfig{MaxRequestBytes: ptr.To(resource.MustParse("64Ki"))}, "2", 3072},
		"takes fewer entries where requests may be larger":     {&v1alpha1.EtcdConfig{MaxRequestBytes: ptr.To(resource.MustParse("10Mi"))}, "2", 460},
		"keeps the snapshotCount of the specification":         {&v1alpha1.EtcdConfig{SnapshotCount: ptr.To(int64(7))}, "2", 7},
		"keeps the number of files that the specification has": {&v1alpha1.EtcdConfig{Extra: map[string]v1alpha1.ConfigValue{"max-wals": "9"}}, "9", 3072},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []string{"3.5.35", "3.6.16", "3.7.3"} {
				got, err := config.Common(tc.config, etcdtest.Version(t, v), etcdtest.Version(t, v))
				if err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(got["max-wals"]) != tc.wals || got["snapshot-count"] != tc.snapshots {
					t.Errorf("etcd %s: max-wals %v, snapshot-count %v; want %s and %d", v, got["max-wals"], got["snapshot-count"], tc.wals, tc.snapshots)
				}
			}
		})
	}
}
