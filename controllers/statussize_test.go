package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// largestStatus is how large a status may become at most.
const largestStatus = 1 << 20

// observedKind reports a state that was made up.
type observedKind[O Object, S any] struct {
	Kind[O, S]
	state S
	words string
}

func (observedKind[O, S]) Ensure(context.Context, O) error         { return nil }
func (k observedKind[O, S]) Observe(context.Context, O) (S, error) { return k.state, nil }
func (k observedKind[O, S]) Next(S) cluster.Plan {
	return cluster.Plan{Reason: "Waiting", Message: k.words}
}

// writtenStatus returns the status that is written of a state, as JSON.
func writtenStatus[O Object, S any](t *testing.T, w *world, kind Kind[O, S], o O, state S, words string) []byte {
	t.Helper()
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	loop := &Loop[O, S]{Kind: observedKind[O, S]{kind, state, words}, Client: w, Direct: w, Events: events.NewFakeRecorder(10000)}
	if _, err := loop.Reconcile(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	raw, err := json.Marshal(o)
	must(t, err)
	var object struct {
		Status json.RawMessage `json:"status"`
	}
	must(t, json.Unmarshal(raw, &object))
	return object.Status
}

// longWords are what pods may report at the largest sizes: texts of any length that JSON makes six
// times as long.
func longWords() map[string]string {
	return map[string]string{
		"2.5 KB each":                    strings.Repeat("connection refused; ", 125),
		"64 KiB each":                    strings.Repeat("x", 64<<10),
		"control characters":             strings.Repeat("\x01", 10000),
		"characters of more than a byte": strings.Repeat("ä", 10000),
	}
}

func TestAStatusIsWrittenWhateverPodsSay(t *testing.T) {
	t.Parallel()
	for name, words := range longWords() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := redisCluster()
			o.Spec.Shards, o.Spec.ReplicasPerShard = 500, ptr.To(int32(1))
			s := redis.State{Spec: baseSpec(o), Now: stageNow}
			for shard := range 500 {
				s.Sets = append(s.Sets, redis.Set{Shard: shard, Replicas: 2})
				for ordinal := range 2 {
					pod := cluster.Pod(cluster.ShardSet(o.Name, shard), ordinal)
					s.Pods = append(s.Pods, redis.Pod{Name: pod, UID: "u-" + pod, Shard: shard, Ordinal: ordinal, Stuck: words, Error: words, Gate: words})
				}
			}
			w := newWorld(t, o)
			status := writtenStatus(t, w, NewRedisKind(newChildren(w)), o, s, words)
			var got v1alpha1.RedisClusterStatus
			must(t, json.Unmarshal(status, &got))
			if len(status) > largestStatus || len(got.Shards) != 500 || len(got.Shards[499].Nodes) != 2 || got.Shards[499].Nodes[1].Message == "" {
				t.Errorf("a status of %d bytes, %d shards", len(status), len(got.Shards))
			}
		})
	}
}

func TestAStatusOfEtcdIsWrittenWhateverPodsSay(t *testing.T) {
	t.Parallel()
	for name, words := range longWords() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := etcdCluster()
			o.Spec.Size = etcd.MaxSize
			s := etcd.State{Want: etcd.Want{Name: o.Name, Namespace: o.Namespace, Size: etcd.MaxSize}, Now: stageNow}
			s.Want.Peers = etcd.Peers(o.Name, o.Namespace, "cluster.local", etcd.MaxSize, true)
			for i := range etcd.MaxSize {
				s.Pods = append(s.Pods, etcd.Pod{Name: cluster.Pod(o.Name, i), Ordinal: i, Problem: words, Stuck: true, Unreachable: errors.New(words)})
			}
			w := newWorld(t, o)
			status := writtenStatus(t, w, NewEtcdKind(newChildren(w)), o, s, words)
			if len(status) > largestStatus {
				t.Errorf("a status of %d bytes", len(status))
			}
		})
	}
}

func TestTextsOfAUsualLengthStayWhole(t *testing.T) {
	t.Parallel()
	o := redisCluster()
	for shard := range 500 {
		o.Status.Shards = append(o.Status.Shards, v1alpha1.RedisShardStatus{
			Name: fmt.Sprintf("carts-%d", shard), Nodes: []v1alpha1.RedisNodeStatus{{Name: fmt.Sprintf("carts-%d-0", shard), Message: strings.Repeat("x", 200)}},
		})
	}
	before := o.DeepCopy()
	boundStatus(o)
	if len(o.Status.Shards[0].Nodes[0].Message) != 200 || o.Status.Shards[499].Name != before.Status.Shards[499].Name {
		t.Errorf("%+v", o.Status.Shards[0])
	}
}
