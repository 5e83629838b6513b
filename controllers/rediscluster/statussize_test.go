package rediscluster

import (
	"encoding/json"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestAStatusIsWrittenWhateverPodsSay(t *testing.T) {
	t.Parallel()
	for name, words := range controllersim.LongWords() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := fakeapi.RedisCluster()
			o.Spec.Shards, o.Spec.ReplicasPerShard = 500, ptr.To(int32(1))
			s := model.State{Spec: baseSpec(o), Now: fakeapi.Now}
			for shard := range 500 {
				s.Sets = append(s.Sets, model.Set{Shard: shard, Replicas: 2})
				for ordinal := range 2 {
					pod := cluster.Pod(cluster.ShardSet(o.Name, shard), ordinal)
					s.Pods = append(s.Pods, model.Pod{Name: pod, UID: "u-" + pod, Shard: shard, Ordinal: ordinal, Stuck: words, Error: words, Gate: words})
				}
			}
			w := fakeapi.New(t, o)
			status := controllersim.WrittenStatus(t, w, controllersim.Observing(New(ownedtest.New(w)), s, words), o)
			var got v1alpha1.RedisClusterStatus
			fakeapi.Must(t, json.Unmarshal(status, &got))
			if len(status) > controllersim.LargestStatus || len(got.Shards) != 500 || len(got.Shards[499].Nodes) != 2 || got.Shards[499].Nodes[1].Message == "" {
				t.Errorf("a status of %d bytes, %d shards", len(status), len(got.Shards))
			}
		})
	}
}
