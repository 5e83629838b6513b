package etcdcluster

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestAStatusOfEtcdIsWrittenWhateverPodsSay(t *testing.T) {
	t.Parallel()
	for name, words := range controllersim.LongWords() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := fakeapi.EtcdCluster()
			o.Spec.Size = model.MaxSize
			s := model.State{Want: model.Want{Name: o.Name, Namespace: o.Namespace, Size: model.MaxSize}, Now: fakeapi.Now}
			s.Want.Peers = model.Peers(o.Name, o.Namespace, "cluster.local", model.MaxSize, true)
			for i := range model.MaxSize {
				s.Pods = append(s.Pods, model.Pod{Name: cluster.Pod(o.Name, i), Ordinal: i, Problem: words, Stuck: true, Unreachable: errors.New(words)})
			}
			w := fakeapi.New(t, o)
			status := controllersim.WrittenStatus(t, w, controllersim.Observing(New(ownedtest.New(w)), s, words), o)
			if len(status) > controllersim.LargestStatus {
				t.Errorf("a status of %d bytes", len(status))
			}
		})
	}
}
