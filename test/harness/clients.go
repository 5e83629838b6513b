package harness

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/connection"
)

// dialTimeout bounds one attempt to connect to a data store.
const dialTimeout = 10 * time.Second

// Connection reads the connection Secret of a cluster.
func (c *Cluster) Connection(ctx context.Context, ns, name string) (connection.Connection, *corev1.Secret, error) {
	var s corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: cluster.ConnectionSecret(name)}, &s); err != nil {
		return connection.Connection{}, nil, fmt.Errorf("connection Secret of %s: %w", name, err)
	}
	conn, err := connection.FromData(s.Data)
	return conn, &s, err
}

// Etcd opens a client of one member, through the API server: certificates are checked against the name of the client
// Service. The caller closes it.
func (c *Cluster) Etcd(ctx context.Context, ns, pod string, conn connection.Connection) (*clientv3.Client, error) {
	port, err := strconv.Atoi(conn.Port)
	if err != nil {
		return nil, fmt.Errorf("port of the connection Secret: %w", err)
	}
	return clientv3.New(clientv3.Config{
		Endpoints: []string{conn.Scheme("https") + "://" + conn.Addr()}, TLS: conn.TLS,
		Username: conn.Username, Password: conn.Password, DialTimeout: dialTimeout, Context: ctx,
		Logger: zap.NewNop(), // Refusals are wanted here, and their errors are returned.
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return c.Dial(ctx, types.NamespacedName{Namespace: ns, Name: pod}, "", port)
		})},
	})
}

// Redis opens a client of one node, through the API server. The caller closes it.
func (c *Cluster) Redis(ns, pod string, conn connection.Connection) (*redis.Client, error) {
	port, err := strconv.Atoi(conn.Port)
	if err != nil {
		return nil, fmt.Errorf("port of the connection Secret: %w", err)
	}
	return redis.NewClient(&redis.Options{
		Addr: conn.Addr(), Username: conn.Username, Password: conn.Password, MaxRetries: -1, DialTimeout: dialTimeout,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			plain, err := c.Dial(ctx, types.NamespacedName{Namespace: ns, Name: pod}, "", port)
			if err != nil || conn.TLS == nil {
				return plain, err
			}
			cfg := conn.TLS.Clone()
			cfg.ServerName = conn.Host
			return tls.Client(plain, cfg), nil
		},
	}), nil
}

// FailOver sends CLUSTER FAILOVER to a replica, as soon as it is in sync, and waits until it leads.
func (c *Cluster) FailOver(ctx context.Context, o *v1alpha1.RedisCluster, to string) error {
	conn, _, err := c.Connection(ctx, o.Namespace, o.Name)
	if err != nil {
		return err
	}
	var secret corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.AuthSecret(o.Name)}, &secret); err != nil {
		return fmt.Errorf("passwords of %s: %w", o.Name, err)
	}
	conn.Username, conn.Password = acl.UserOperator, string(secret.Data[acl.PasswordOperator])
	server, err := c.Redis(o.Namespace, to, conn)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	says := func(word string, limit time.Duration) error {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
			role, err := server.Do(ctx, "ROLE").Slice()
			last = cmp.Or(err, fmt.Errorf("its role is %v", role))
			return slices.Contains(role, any(word)), nil
		})
		if err != nil {
			return fmt.Errorf("%s is not %s: %w: %w", to, word, err, last)
		}
		return nil
	}
	if err := says("connected", time.Minute); err != nil {
		return err
	}
	for range 5 { // A primary does not listen to a replica that it does not know as one yet, and the replica gives up after 5 s.
		if err = server.ClusterFailover(ctx).Err(); err == nil {
			err = says("master", 6*time.Second)
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("CLUSTER FAILOVER on %s: %w", to, err)
}
