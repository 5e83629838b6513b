package manifests_test

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

func TestACheckRunsInTheImageOfTheClusterWhereThatReadsTheData(t *testing.T) {
	own := func(version string) *v1alpha1.EtcdCluster {
		return &v1alpha1.EtcdCluster{Spec: v1alpha1.EtcdClusterSpec{Version: version, Image: ptr.To("registry.example/etcd:mine")}}
	}
	public := func(version, runs string) *v1alpha1.EtcdCluster {
		return &v1alpha1.EtcdCluster{Spec: v1alpha1.EtcdClusterSpec{Version: version}, Status: v1alpha1.EtcdClusterStatus{CurrentVersion: runs}}
	}
	const mine = "registry.example/etcd:mine"
	for name, tc := range map[string]struct {
		cluster     *v1alpha1.EtcdCluster
		wrote, want string
	}{
		"the same version":           {own("3.6.16"), "3.6.16", mine},
		"an image by its version":    {public("3.6.17", "3.6.17"), "3.6.16", "quay.io/coreos/etcd:v3.6.17"},
		"about to be upgraded":       {public("3.6.99", "3.6.16"), "3.6.16", "quay.io/coreos/etcd:v3.6.16"},
		"another patch":              {own("3.6.17"), "3.6.16", mine},
		"upgraded meanwhile":         {own("3.7.3"), "3.6.16", mine},
		"upgraded twice":             {own("3.7.3"), "3.5.35", "quay.io/coreos/etcd:v3.5.35"},
		"made anew, older":           {own("3.5.35"), "3.6.16", "quay.io/coreos/etcd:v3.6.16"},
		"the cluster is gone":        {nil, "3.6.16", "quay.io/coreos/etcd:v3.6.16"},
		"nobody knows what wrote it": {own("3.6.16"), "", ""},
	} {
		if got := manifests.CheckImage(tc.cluster, tc.wrote, ""); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestTheRegistryOfTheInstallationHoldsWhatTheSpecificationDoesNotName(t *testing.T) {
	v := model.Version{Major: 3, Minor: 6, Patch: 16}
	if got, want := manifests.Image(v1alpha1.EtcdClusterSpec{}, v, "registry.example.com"), "registry.example.com/coreos/etcd:v3.6.16"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := manifests.CheckImage(nil, "3.6.16", "registry.example.com"), "registry.example.com/coreos/etcd:v3.6.16"; got != want {
		t.Errorf("a check takes %s, want %s", got, want)
	}
	own := v1alpha1.EtcdClusterSpec{Image: ptr.To("quay.io/own/etcd:1")}
	if got := manifests.Image(own, v, "registry.example.com"); got != *own.Image {
		t.Errorf("%s, want %s", got, *own.Image)
	}
}
