package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/health" // The client side of health checks.

	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/e2e/load/updates"
)

// pageSize bounds one answer when everything is read back.
const pageSize = 1000

// healthChecked makes the client leave a member alone that says that it does not serve, as it does while it is defragmented.
const healthChecked = `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`

// patience is how a connection is tried again. What is sent to the address of a pod that has ended is answered by nobody, and gRPC
// waits 20 s for that by default: longer than its member is away, while the others restart one after the other.
var patience = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: time.Second,
}

type etcdStore struct{ c *clientv3.Client }

// openEtcd connects to all members, so that the client itself goes on when one of them is lost.
func openEtcd(ctx context.Context, conn connection.Connection, addrs []string) (store, error) {
	endpoints := make([]string, len(addrs))
	for i, addr := range addrs {
		endpoints[i] = conn.Scheme("https") + "://" + addr
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: conn.TLS, Username: conn.Username, Password: conn.Password,
		DialTimeout: 5 * time.Second, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		PermitWithoutStream: true, AutoSyncInterval: time.Second, // Members come and go.
		DialOptions: []grpc.DialOption{
			grpc.WithDisableServiceConfig(), grpc.WithDefaultServiceConfig(healthChecked), grpc.WithConnectParams(patience),
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := c.Get(ctx, "load"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &etcdStore{c}, nil
}

func (s *etcdStore) close() { _ = s.c.Close() }

func (s *etcdStore) lanes() []lane {
	return []lane{{name: "etcd", owns: func(string) bool { return true }}}
}

func (s *etcdStore) write(ctx context.Context, key, value string) (ledger.Receipt, error) {
	r, err := s.c.Put(ctx, key, value)
	if err != nil {
		return ledger.Receipt{}, err
	}
	return ledger.Receipt{Revision: r.Header.Revision, ClusterID: r.Header.ClusterId}, nil
}

// outcome: the codes below are only returned for a request that was not carried out.
func (s *etcdStore) outcome(err error) ledger.Outcome {
	var e rpctypes.EtcdError
	if !errors.As(err, &e) {
		return ledger.Unknown
	}
	switch e.Code() {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.ResourceExhausted:
		return ledger.Failed
	}
	return ledger.Unknown
}

// read pages through everything that the run wrote, with linearizable reads at one revision.
func (s *etcdStore) read(ctx context.Context, keys []string) (map[string]ledger.Found, int64, error) {
	found := map[string]ledger.Found{}
	if len(keys) == 0 {
		return found, 0, nil
	}
	prefix := runPrefix(keys[0])
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	var revision int64
	for {
		r, err := s.c.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return nil, 0, fmt.Errorf("read from %s: %w", from, err)
		}
		if revision == 0 {
			revision = r.Header.Revision
		}
		for _, kv := range r.Kvs {
			found[string(kv.Key)] = ledger.Found{Value: string(kv.Value), Revision: kv.ModRevision}
		}
		if !r.More {
			return found, revision, nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

// revision of the cluster.
func (s *etcdStore) revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := s.c.Get(ctx, "load", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// watch asks for a leader, so that it ends at a member that is cut off, and begins again at another one.
func (s *etcdStore) watch(ctx context.Context, prefix string, from int64, seen func(key, value string, revision int64)) (int64, bool) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range s.c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if r.CompactRevision > 0 {
			return r.CompactRevision, true
		}
		if r.Err() != nil {
			return from, false
		}
		for _, e := range r.Events {
			seen(string(e.Kv.Key), string(e.Kv.Value), e.Kv.ModRevision)
			from = e.Kv.ModRevision + 1
		}
	}
	return from, false
}

func (s *etcdStore) get(ctx context.Context, key string) (string, error) {
	r, err := s.c.Get(ctx, key)
	if err != nil || len(r.Kvs) == 0 {
		return "", err
	}
	return string(r.Kvs[0].Value), nil
}

// swap sets a key if it has a value; the empty one is that of a key that is not there.
func (s *etcdStore) swap(ctx context.Context, key, from, to string) (bool, error) {
	is := clientv3.Compare(clientv3.Value(key), "=", from)
	if from == "" {
		is = clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	r, err := s.c.Txn(ctx).If(is).Then(clientv3.OpPut(key, to)).Commit()
	if err != nil {
		return false, err
	}
	return r.Succeeded, nil
}

func (s *etcdStore) put(ctx context.Context, key, value string) error {
	_, err := s.c.Put(ctx, key, value)
	return err
}

func (s *etcdStore) remove(ctx context.Context, key string) error {
	_, err := s.c.Delete(ctx, key)
	return err
}

// add compares and swaps. When the counter is not at was, it returns what the counter holds.
func (s *etcdStore) add(ctx context.Context, key string, was int) (int, error) {
	from := ""
	if was > 0 {
		from = strconv.Itoa(was)
	}
	swapped, err := s.swap(ctx, key, from, strconv.Itoa(was+1))
	if err != nil || swapped {
		return was + 1, err
	}
	got, err := s.look(ctx, key)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(cmp.Or(got.Value, "0"))
	return n, err
}

func (s *etcdStore) look(ctx context.Context, key string) (updates.State, error) {
	r, err := s.c.Get(ctx, key)
	if err != nil || len(r.Kvs) == 0 {
		return updates.State{}, err
	}
	return updates.State{Value: string(r.Kvs[0].Value), There: true}, nil
}

// runPrefix is what all keys of a run begin with: load/<run>/.
func runPrefix(key string) string {
	parts := strings.SplitN(key, "/", 3)
	return strings.Join(parts[:2], "/") + "/"
}
