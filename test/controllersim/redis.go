package controllersim

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// Redis is a fake API server, servers in memory, a kubelet that connects the two, and the loop.
type Redis struct {
	T       *testing.T
	API     *fakeapi.API
	Net     *redisfake.Network
	Servers map[string]*redisfake.Server
	Loop    *reconcile.Loop[*v1alpha1.RedisCluster, model.State]
	name    types.NamespacedName
	ips     int
	// Deleted is what the server of each pod was when the operator deleted the pod.
	Deleted map[string]v1alpha1.RedisRole
	// Graces is how many seconds they were given to end in, if the operator said so.
	Graces map[string]int64
	// wire is between the operators and the rest, and equip what an operator is given beyond what it needs.
	*Wire
	Equip func(*owned.Client)
	// newKind makes what is under test, and children is what the last one was given.
	newKind  RedisFactory
	children *owned.Client
	// first is when the cluster was Ready for the first time.
	first ready
}

// RedisFactory makes the kind under test. connect makes a client of a server, and ConnectMover one that moves keys.
type RedisFactory func(
	c *owned.Client, connect func(redisclient.Options) steps.Client, connectMover func(redisclient.Options) steps.Mover,
) reconcile.Kind[*v1alpha1.RedisCluster, model.State]

// NewRedis returns a simulated cluster with o and more objects in it, and its first operator.
func NewRedis(t *testing.T, newKind RedisFactory, o *v1alpha1.RedisCluster, more ...client.Object) *Redis {
	t.Helper()
	w := fakeapi.New(t, append(more, o)...)
	s := &Redis{
		T: t, API: w, newKind: newKind, Servers: map[string]*redisfake.Server{}, name: client.ObjectKeyFromObject(o),
		Net: redisfake.NewNetwork(5*time.Second, rand.New(rand.NewPCG(1, 2))), Wire: newWire(w.Past),
	}
	s.Deleted, s.Graces = map[string]v1alpha1.RedisRole{}, map[string]int64{}
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if server := s.Servers[o.GetName()]; server != nil {
				s.Deleted[o.GetName()] = v1alpha1.RedisPrimary
				if server.Primary() != "" {
					s.Deleted[o.GetName()] = v1alpha1.RedisReplica
				}
			}
			var how client.DeleteOptions
			how.ApplyOptions(opts)
			if how.GracePeriodSeconds != nil {
				s.Graces[o.GetName()] = *how.GracePeriodSeconds
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	s.Net.Gate = s.users
	s.Net.Mounted = func(*redisfake.Server) string {
		return clustertls.LeafFingerprint(s.Secret(cluster.ServerTLSSecret("carts")).Data[corev1.TLSCertKey])
	}
	s.Restart()
	return s
}

// MinuteLater is when the operator has forgotten the Secrets that it remembered.
func (s *Redis) MinuteLater() {
	s.T.Helper()
	s.children.ForgetSecrets()
}

// Restart starts another operator.
func (s *Redis) Restart() {
	op := s.operator()
	seen := op.client(s.Past.Client(s.API), false)
	children := ownedtest.New(&fakeapi.API{Client: s.tapped(seen)})
	children.Direct = owned.PastCache(s.tapped(op.client(s.API, true)), ownedtest.ClockOf(children))
	if s.Equip != nil {
		s.Equip(children)
	}
	s.children = children
	kind := s.newKind(children, func(o redisclient.Options) steps.Client {
		pod, _, _ := strings.Cut(o.TLS.ServerName, ".")
		return &wiredRedis{Client: s.Connect(o), op: op, pod: pod}
	}, func(o redisclient.Options) steps.Mover {
		pod, _, _ := strings.Cut(o.TLS.ServerName, ".")
		return &wiredMover{Mover: s.ConnectMover(o), op: op, pod: pod}
	})
	s.Loop = &reconcile.Loop[*v1alpha1.RedisCluster, model.State]{Kind: kind, Client: seen, Direct: children.Direct, Events: events.NewFakeRecorder(1000)}
}

// turn lets the operator make a pass, and another one take its place where it crashes. It reports whether all went well.
func (s *Redis) turn() bool {
	s.T.Helper()
	if !s.Wire.turn() {
		return false
	}
	well := false
	for range max(1, s.again) {
		o, life := &v1alpha1.RedisCluster{}, s.Alive
		if err := life.shown(s.API, s.name, o); err != nil {
			return false
		}
		_, err := s.Loop.Reconcile(s.T.Context(), o)
		if well = err == nil && !life.dead; life.dead {
			s.Restart()
		} else if err != nil {
			s.T.Logf("reconcile: %v", err)
		}
	}
	s.again = 0
	return well
}

// Connect finds the server by the name that the operator wants to see in its certificate.
func (s *Redis) Connect(o redisclient.Options) steps.Client {
	if l := o.Logins[0]; l.Username != acl.UserOperator || l.Password == "" || o.TLS == nil {
		s.T.Errorf("connection as %q, TLS %v", l.Username, o.TLS != nil)
	}
	pod, _, _ := strings.Cut(o.TLS.ServerName, ".")
	if server := s.Servers[pod]; server != nil && slices.ContainsFunc(o.Logins, func(l redisclient.Login) bool { return lets(server, l) }) {
		return server
	}
	return &redisfake.Server{}
}

// ConnectMover finds a server to move keys from.
func (s *Redis) ConnectMover(o redisclient.Options) steps.Mover {
	if l := o.Logins[0]; l.Username != acl.UserMigration || l.Password == "" {
		s.T.Errorf("keys are moved as %q", l.Username)
	}
	pod, _, _ := strings.Cut(o.TLS.ServerName, ".")
	return s.Servers[pod]
}

// lets tells whether a server takes a user and a password; one without a list of users takes any.
func lets(server *redisfake.Server, l redisclient.Login) bool {
	return len(server.Users) == 0 || slices.ContainsFunc(server.Users, func(u acl.User) bool {
		return u.Name == l.Username && (u.NoPassword || slices.Contains(u.Passwords, acl.Hash(l.Password)))
	})
}

// users are what the start gate makes of the auth Secret.
func (s *Redis) users(w *redisfake.Server) []acl.User {
	s.T.Helper()
	passwords := map[string]string{}
	for key, value := range s.Secret(cluster.AuthSecret("carts")).Data {
		passwords[key] = string(value)
	}
	name, _, _ := strings.Cut(w.Host, ".")
	w.ReplicationPassword = acl.Hash(acl.ShardPassword(passwords[acl.PasswordReplication], name))
	users, err := acl.Access{Passwords: passwords}.Users(name, software.Release{Engine: v1alpha1.EngineRedis, Version: "8.0.2"})
	if err != nil {
		s.T.Fatal(err)
	}
	return users
}

// Cluster reads the resource.
func (s *Redis) Cluster() *v1alpha1.RedisCluster {
	s.T.Helper()
	var o v1alpha1.RedisCluster
	if err := s.API.Get(s.T.Context(), s.name, &o); err != nil {
		s.T.Fatal(err)
	}
	return &o
}

// Pass makes one pass of the kubelet, of the servers and of the operator.
func (s *Redis) Pass() {
	s.T.Helper()
	collect(s.T, s)
	ctx := s.T.Context()
	s.Kubelet(ctx)
	s.allocate(ctx)
	for range 2 {
		s.Net.Tick()
	}
	s.turn()
}

// admit tells whether all servers may be copied also after they have restarted in place.
func (s *Redis) admit() bool {
	for _, server := range s.Servers {
		if server.Up && server.StartedEmpty() {
			return false
		}
	}
	return true
}

// Settle runs the operator until the cluster is Ready and there is nothing left to do.
func (s *Redis) Settle() {
	s.T.Helper()
	for range 300 {
		s.Pass()
		o := s.Cluster()
		if o.Status.ObservedGeneration != o.Generation || !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) {
			continue
		}
		if s.first == (ready{}) {
			s.first = ready{calls: len(s.Calls), turns: s.turns}
		}
		if meta.IsStatusConditionFalse(o.Status.Conditions, v1alpha1.ConditionReconciling) && s.admit() {
			return
		}
	}
	s.T.Fatalf("not ready: %+v", s.Cluster().Status)
}

// Uids returns the UIDs of all pods by name.
func (s *Redis) Uids() map[string]types.UID {
	s.T.Helper()
	var pods corev1.PodList
	if err := s.API.List(s.T.Context(), &pods); err != nil {
		s.T.Fatal(err)
	}
	out := map[string]types.UID{}
	for _, p := range pods.Items {
		out[p.Name] = p.UID
	}
	return out
}

// FirstSet reads the StatefulSet of the first shard.
func (s *Redis) FirstSet() *appsv1.StatefulSet {
	s.T.Helper()
	var set appsv1.StatefulSet
	if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: "carts-0"}, &set); err != nil {
		s.T.Fatal(err)
	}
	return &set
}
