package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/harness"
)

// marks is how many keys are written to find out whether data is still there.
const marks = 20

func markKey(i int) string   { return fmt.Sprintf("mark-%02d", i) }
func markValue(i int) string { return fmt.Sprintf("value of mark %02d", i) }

// writeMarks leaves keys in a cluster, with nothing but its connection Secret.
func writeMarks[O target](ctx context.Context, t *testing.T, s *scope, o O) {
	t.Helper()
	eachMark(ctx, t, s, o, func(store markStore, i int) error { return store.put(ctx, markKey(i), markValue(i)) })
}

// checkMarks fails unless every key is there.
func checkMarks[O target](ctx context.Context, t *testing.T, s *scope, o O) {
	t.Helper()
	eachMark(ctx, t, s, o, func(store markStore, i int) error {
		got, err := store.get(ctx, markKey(i))
		if err == nil && got != markValue(i) {
			err = fmt.Errorf("it holds %q", got)
		}
		return err
	})
}

func eachMark[O target](ctx context.Context, t *testing.T, s *scope, o O, do func(markStore, int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, _, err := s.Connection(ctx, s.ns, o.GetName())
	must(t, err)
	store := openMarks(ctx, t, s, o, conn)
	defer store.close()
	for i := range marks {
		if err := do(store, i); err != nil {
			t.Fatalf("%s: key %s: %v", o.GetName(), markKey(i), err)
		}
	}
}

// markStore is a cluster of either kind as this file needs it.
type markStore interface {
	put(ctx context.Context, key, value string) error
	get(ctx context.Context, key string) (string, error)
	close()
}

func openMarks[O target](ctx context.Context, t *testing.T, s *scope, o O, conn connection.Connection) markStore {
	t.Helper()
	pods := slices.DeleteFunc(s.pods(ctx, t, o), func(p corev1.Pod) bool { return !harness.IsReady(&p) })
	if len(pods) == 0 {
		t.Fatalf("%s has no ready pod", o.GetName())
	}
	if _, ok := any(o).(*v1alpha1.EtcdCluster); ok {
		c, err := s.Etcd(ctx, s.ns, pods[0].Name, conn)
		must(t, err)
		return etcdMarks{c}
	}
	return redisMarks{redisNodes(t, s, pods, conn)}
}

type etcdMarks struct{ c *clientv3.Client }

func (m etcdMarks) close() { _ = m.c.Close() }

func (m etcdMarks) put(ctx context.Context, key, value string) error {
	_, err := m.c.Put(ctx, key, value)
	return err
}

func (m etcdMarks) get(ctx context.Context, key string) (string, error) {
	r, err := m.c.Get(ctx, key)
	if err != nil {
		return "", err
	}
	if len(r.Kvs) != 1 {
		return "", errors.New("it is not there")
	}
	return string(r.Kvs[0].Value), nil
}

// redisMarks asks one node after the other until one owns the key.
type redisMarks struct{ nodes []*redis.Client }

func redisNodes(t *testing.T, s *scope, pods []corev1.Pod, conn connection.Connection) []*redis.Client {
	t.Helper()
	var nodes []*redis.Client
	for _, p := range pods {
		c, err := s.Redis(s.ns, p.Name, conn)
		must(t, err)
		nodes = append(nodes, c)
	}
	return nodes
}

func (m redisMarks) close() {
	for _, c := range m.nodes {
		_ = c.Close()
	}
}

func (m redisMarks) put(ctx context.Context, key, value string) error {
	return m.owner(func(c *redis.Client) error { return c.Set(ctx, key, value, 0).Err() })
}

func (m redisMarks) get(ctx context.Context, key string) (value string, err error) {
	err = m.owner(func(c *redis.Client) error {
		value, err = c.Get(ctx, key).Result()
		return err
	})
	return value, err
}

func (m redisMarks) owner(do func(*redis.Client) error) error {
	err := errors.New("there is no node")
	for _, c := range m.nodes {
		if err = do(c); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
			return err
		}
	}
	return err
}

// serializableCount counts keys by prefix on the one member that is asked.
func serializableCount() []clientv3.OpOption {
	return []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable()}
}
