package etcdcluster

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestAnEtcdClusterOfAVersionThatCannotRestrictPeersIsNotCreated(t *testing.T) {
	t.Parallel()
	for version, refused := range map[string]bool{"3.5.13": true, "3.5.14": false} {
		for _, mode := range []v1alpha1.TLSMode{v1alpha1.TLSManaged, v1alpha1.TLSDisabled} {
			o := fakeapi.EtcdCluster()
			o.Spec.Version, o.Spec.TLS = version, &v1alpha1.TLSSpec{Mode: &mode}
			_, err := (&Reconciler{Client: &owned.Client{}}).planned(o, model.Record{}, model.Transport{})
			if got := err != nil && strings.Contains(err.Error(), "use 3.5.14 or later"); got != (refused && mode != v1alpha1.TLSDisabled) {
				t.Errorf("etcd %s, TLS %s, new: %v", version, mode, err)
			}
			running := model.Record{Version: model.Version{Major: 3, Minor: 5, Patch: 13}, Members: model.Peers("orders", "default", "cluster.local", 3, true)}
			if _, err := (&Reconciler{Client: &owned.Client{}}).planned(o, running, model.Transport{}); err != nil {
				t.Errorf("etcd %s, TLS %s, with members: %v", version, mode, err)
			}
		}
	}
}
