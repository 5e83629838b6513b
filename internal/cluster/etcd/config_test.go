package etcd_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

var update = flag.Bool("update", false, "write the golden files anew")

func version(t *testing.T, text string) etcd.Version {
	t.Helper()
	v, err := etcd.ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func fullConfig() *v1alpha1.EtcdConfig {
	return &v1alpha1.EtcdConfig{
		QuotaBackendBytes:       ptr.To(resource.MustParse("4Gi")),
		AutoCompactionMode:      ptr.To("Revision"),
		AutoCompactionRetention: ptr.To("5000"),
		SnapshotCount:           ptr.To(int64(20000)),
		HeartbeatInterval:       &metav1.Duration{Duration: 50 * time.Millisecond},
		ElectionTimeout:         &metav1.Duration{Duration: time.Second},
		MaxRequestBytes:         ptr.To(resource.MustParse("2Mi")),
		LogLevel:                ptr.To("warn"),
		Extra: map[string]v1alpha1.ConfigValue{
			"max-txn-ops": "256", "grpc-keepalive-interval": "2h", "pre-vote": "true",
			"cipher-suites": "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384",
		},
	}
}

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
		"3.5.35-full":        {version: "3.5.35", tls: v1alpha1.TLSManaged, config: fullConfig()},
		"3.6.16-full":        {version: "3.6.16", tls: v1alpha1.TLSManaged, config: fullConfig(), volume: "8Gi"},
		"3.5.14-provided":    {version: "3.5.14", tls: v1alpha1.TLSProvided},
		"3.7.3-provided":     {version: "3.7.3", tls: v1alpha1.TLSProvided},
		"3.7.3-disabled":     {version: "3.7.3", tls: v1alpha1.TLSDisabled},
		"3.6.16-other-gates": {version: "3.6.16", tls: v1alpha1.TLSDisabled, config: &v1alpha1.EtcdConfig{
			Extra: map[string]v1alpha1.ConfigValue{"feature-gates": "LeaseCheckpoint=true"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := version(t, tc.version)
			common, err := etcd.Common(tc.config, v, v)
			if err != nil {
				t.Fatal(err)
			}
			members := etcd.Peers("orders", "shop", "cluster.local", 3, tc.tls != v1alpha1.TLSDisabled)
			volume := resource.MustParse("0" + tc.volume)
			got, err := etcd.MemberConfig(common, etcd.Layout{
				Name: "orders", Namespace: "shop", UID: "u-1", Domain: "cluster.local", TLS: tc.tls,
				Auth: tc.tls != v1alpha1.TLSDisabled, Version: v, Members: members, VolumeSize: volume.Value(),
			}, members[1])
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".yaml", got)
		})
	}
}

// A quota for volumes that are yet to come must not fill those that are there.
func TestTheQuotaOfTheUserLeavesRoomToTheLog(t *testing.T) {
	for volume, want := range map[string]int64{"1Gi": 640 << 20, "4479Mi": 4095 << 20, "4480Mi": 4 << 30, "8Gi": 4 << 30} {
		size := resource.MustParse(volume)
		b := blueprint(t, func(b *etcd.Blueprint) { b.Common["quota-backend-bytes"] = int64(4 << 30) })
		if got := b.QuotaOn(size.Value()); got != want {
			t.Errorf("%s: quota %d, want %d", volume, got, want)
		}
	}
}

func TestTheDefaultQuotaLeavesRoomOnTheVolume(t *testing.T) {
	members := etcd.Peers("orders", "shop", "cluster.local", 1, false)
	for volume, want := range map[string]string{
		"0": "", "512Mi": "67108864", "1Gi": "335544320", "4479Mi": "2146959360", "4480Mi": "", "1Ti": "",
	} {
		size := resource.MustParse(volume)
		text, err := etcd.MemberConfig(map[string]any{}, etcd.Layout{Name: "orders", TLS: v1alpha1.TLSDisabled, Members: members, VolumeSize: size.Value()}, members[0])
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(text, "quota-backend-bytes: ")
		if got, _, _ := strings.Cut(after, "\n"); got != want {
			t.Errorf("quota %q on a volume of %s, want %q", got, volume, want)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update writes it anew:\n%s", path, diff)
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
			_, err := etcd.Common(&v1alpha1.EtcdConfig{
				Extra: map[string]v1alpha1.ConfigValue{tc.key: v1alpha1.ConfigValue(tc.value)},
			}, version(t, tc.version), version(t, tc.version))
			var refusal cluster.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), tc.key) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestEveryOwnedParameterIsRefused(t *testing.T) {
	if !slices.IsSorted(etcd.OwnedConfigKeys) {
		t.Error("the list is not sorted")
	}
	owned := etcd.OwnedConfigKeys
	for key := range etcd.TypedConfigKeys {
		owned = append(owned, key)
	}
	for _, key := range owned {
		for _, v := range []string{"3.5.35", "3.6.16", "3.7.3"} {
			_, err := etcd.Common(&v1alpha1.EtcdConfig{Extra: map[string]v1alpha1.ConfigValue{key: "1"}}, version(t, v), version(t, v))
			if err == nil {
				t.Errorf("%s may be set for %s", key, v)
			}
		}
	}
}

func TestEveryKeyThatIsWrittenIsOwnedOrTyped(t *testing.T) {
	v := version(t, "3.6.16")
	common, err := etcd.Common(nil, v, v)
	if err != nil {
		t.Fatal(err)
	}
	members := etcd.Peers("orders", "shop", "cluster.local", 1, true)
	text, err := etcd.MemberConfig(common, etcd.Layout{Name: "orders", TLS: v1alpha1.TLSManaged, Version: v, Members: members}, members[0])
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		key, _, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "-") || key == "feature-gates" || key == "max-wals" {
			continue // Gates of the user are added to ours, and the number of WAL files is a default.
		}
		if _, typed := etcd.TypedConfigKeys[key]; !typed && !slices.Contains(etcd.OwnedConfigKeys, key) {
			t.Errorf("%s is written, but users may set it too", key)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, supported := range map[string]bool{
		"3.5.10": false, "3.5.11": true, "v3.6.0": true, "3.7.3": true, "3.8.0": false, "4.0.0": false, "3.4.30": false,
	} {
		if got := etcd.CapabilitiesOf(version(t, text)).Supported; got != supported {
			t.Errorf("%s: %t", text, got)
		}
	}
	for _, text := range []string{"", "3", "3.6", "3.6.x", "3.6.-1", "3.6.1.1", "3.6.1-rc1"} {
		if v, err := etcd.ParseVersion(text); err == nil {
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
				got, err := etcd.Common(tc.config, version(t, v), version(t, v))
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
