package etcdcluster

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
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
			o.Spec.Size = etcd.MaxSize
			s := etcd.State{Want: etcd.Want{Name: o.Name, Namespace: o.Namespace, Size: etcd.MaxSize}, Now: fakeapi.Now}
			s.Want.Peers = etcd.Peers(o.Name, o.Namespace, "cluster.local", etcd.MaxSize, true)
			for i := range etcd.MaxSize {
				s.Pods = append(s.Pods, etcd.Pod{Name: cluster.Pod(o.Name, i), Ordinal: i, Problem: words, Stuck: true, Unreachable: errors.New(words)})
			}
			w := fakeapi.New(t, o)
			status := controllersim.WrittenStatus(t, w, controllersim.Observing(New(ownedtest.New(w)), s, words), o)
			if len(status) > controllersim.LargestStatus {
				t.Errorf("a status of %d bytes", len(status))
			}
		})
	}
}
