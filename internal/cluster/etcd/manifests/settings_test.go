package manifests_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/etcdtest"
)

func TestSettingsAreReadBack(t *testing.T) {
	b := builder(t, nil)
	b.Cluster.Spec.Config = etcdtest.Config()
	before := model.SettingsOf(b.Cluster.Spec)
	text, err := before.Encode()
	if err != nil {
		t.Fatal(err)
	}
	after, err := model.DecodeSettings(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := after.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, again); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
