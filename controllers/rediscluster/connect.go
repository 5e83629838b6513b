package rediscluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/login"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/resp"
)

// endpoint is a server to connect to: its pod, the process that is expected to answer, and its
// address.
type endpoint struct {
	pod, process string
	addr         model.Address
}

func endpointOf(p *model.Pod) endpoint { return endpoint{p.Name, processOf(p.UID, p.Started), p.Addr} }

// processOf identifies a process by its pod and by when its container was started.
func processOf(uid string, started time.Time) string { return uid + started.UTC().Format(time.RFC3339) }

// connectFunc says how to connect to a server as one of the operator's users.
type connectFunc func(user string, to endpoint) redisclient.Options

// connector returns how to connect to the servers of a cluster; nil while the passwords or certificates do not exist
// yet.
func (k *Reconciler) connector(ctx context.Context, o *v1alpha1.RedisCluster, passwords map[string]string) (connectFunc, error) {
	if passwords == nil {
		return nil, nil
	}
	secure, err := k.tlsConfig(ctx, o)
	if err != nil {
		return nil, err
	}
	if secure == nil && o.Spec.TLS.TLSMode() != v1alpha1.TLSDisabled {
		return nil, nil
	}
	access := acl.Access{Passwords: passwords}
	if len(logins(access, acl.UserOperator, secure != nil)) == 0 {
		return nil, nil
	}
	budget := resp.NewBudget(readBudget)
	return func(user string, to endpoint) redisclient.Options {
		options := redisclient.Options{
			Logins:     logins(access, user, secure != nil),
			Replicated: o.Spec.IsReplicated(),
			Called:     k.Metrics.Caller("redis"),
			Dial: func(ctx context.Context) (net.Conn, error) {
				return k.Dial(ctx, types.NamespacedName{Namespace: o.Namespace, Name: to.pod}, to.addr.IP, to.addr.Port)
			},
		}
		if user != acl.UserMigration { // A mover reads names of keys for minutes, and each reply is bounded.
			budget.Add(readShare)
			options.Budget = budget
		}
		if secure == nil {
			options.Refusals = login.Server{Refusals: &k.memory(o).refusals, Process: to.process, Now: k.Now}
			return options
		}
		options.TLS = secure.Clone()
		options.TLS.ServerName = cluster.PodHost(to.pod, o.Name, o.Namespace, k.Domain)
		return options
	}, nil
}

// tlsConfig is how the operator connects: the servers prove themselves, the operator does so with its password.
func (k *Reconciler) tlsConfig(ctx context.Context, o *v1alpha1.RedisCluster) (*tls.Config, error) {
	ca, _, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		return nil, owned.CertificateError{Err: err}
	}
	if ca == nil {
		return nil, nil
	}
	m := k.memory(o)
	if last := m.vouching.Load(); last != nil && bytes.Equal(last.ca, ca) {
		return last.config, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, owned.CertificateError{Err: owned.InvalidSpec("spec.tls: the certificate authority (ca.crt) of %s cannot be read: replace it",
			owned.TLSSecret(o.Spec.TLS, cluster.ServerTLSSecret(o.Name)))}
	}
	now := &vouching{ca, &tls.Config{
		Time: k.Now, RootCAs: pool, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(sessions),
	}}
	m.vouching.Store(now)
	return now.config, nil
}

const (
	// readBudget is how many bytes the servers of a cluster may send for one observation or step, and
	// readShare how many more for each connection. The limit of a single reply is one that few servers
	// need, for slot statistics. CLUSTER NODES has 170 KiB for 1,000 servers, ACL LIST 3 MiB for
	// 10,000 users.
	readBudget = 64 << 20
	readShare  = 1 << 20
)
