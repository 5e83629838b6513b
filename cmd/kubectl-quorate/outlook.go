package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/rediscluster"

	authorizationv1 "k8s.io/api/authorization/v1"

	corev1 "k8s.io/api/core/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	etcdmanifests "github.com/quorate/quorate/internal/cluster/etcd/manifests"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	etcdplanner "github.com/quorate/quorate/internal/cluster/etcd/planner"
	redismanifests "github.com/quorate/quorate/internal/cluster/redis/manifests"
	redismodel "github.com/quorate/quorate/internal/cluster/redis/model"
	redisplanner "github.com/quorate/quorate/internal/cluster/redis/planner"
)

// outlook is what the operator would see of a cluster and decide about it at this moment. It is found by the operator's own code, with
// the rights of the person, through the API server: nothing is written, and no rule of the operator is told again here.
type outlook struct {
	plan cluster.Plan
	// explanation is the rule that made the plan.
	explanation cluster.Explanation
	// paused says that the operator takes no step.
	paused bool
	// err is why the state could not be read in full, where that itself decides what the operator does.
	err error
	// lags are how far servers are behind, by pod.
	lags map[string]string
	// unseen is what the operator sees and this outlook does not.
	unseen []string
	// act carries out a step.
	act func(context.Context, cluster.Step) error
	// etcd or redis is what was seen.
	etcd  *etcdmodel.State
	redis *redismodel.State
}

// observer is the part of the operator that reads, and what it could not see.
type observer struct {
	*owned.Client
	mu     sync.Mutex
	unseen []string
}

// miss notes something that the operator sees and the observer does not.
func (k *observer) miss(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(k.unseen, text) {
		k.unseen = append(k.unseen, text)
	}
}

// noting tells apart that a server does not answer, which is a fact about it, and that no port could be forwarded to it, which is none.
func (k *observer) noting(dial owned.DialFunc) owned.DialFunc {
	return func(ctx context.Context, pod types.NamespacedName, ip string, port int) (net.Conn, error) {
		conn, err := dial(ctx, pod, ip, port)
		if err != nil {
			k.miss("pod %s: it is taken for unreachable, because the API server forwards no port to it: %v", pod.Name, err)
		}
		return conn, err
	}
}

// observe looks at a cluster. applied says that it is as the API server has it, and not as somebody wants to apply it.
func (s *session) observe(ctx context.Context, c client.Client, o clusterObject, applied bool) (*outlook, error) {
	k, err := s.observer(ctx, c, o)
	if err != nil {
		return nil, err
	}
	out := &outlook{lags: map[string]string{}}
	switch o := o.(type) {
	case *v1alpha1.EtcdCluster:
		err = out.ofEtcd(ctx, etcdcluster.New(k.Client), o)
	case *v1alpha1.RedisCluster:
		err = out.ofRedis(ctx, rediscluster.New(k.Client), o, applied)
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s %s: %w", kindOf(o), o.GetName(), err)
	}
	if act := out.act; act != nil {
		out.act = func(ctx context.Context, step cluster.Step) error {
			k.Client.Client = c // A requested step is executed, not dry-run.
			return act(ctx, step)
		}
	}
	if out.paused = o.IsPaused(); out.paused {
		out.plan = cluster.Pause(out.plan)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	out.unseen = slices.Clone(k.unseen)
	return out, nil
}

func (out *outlook) ofEtcd(ctx context.Context, k *etcdcluster.Reconciler, o *v1alpha1.EtcdCluster) error {
	s, err := k.Observe(ctx, o)
	if err := out.decided(err); err != nil || out.err != nil {
		return err
	}
	out.etcd, out.plan, out.explanation = &s, k.Next(s), etcdplanner.Explain(s)
	out.act = func(ctx context.Context, step cluster.Step) error { return k.Act(ctx, o, step) }
	var latest uint64
	for _, p := range s.Pods {
		if p.Status != nil {
			latest = max(latest, p.Status.Applied)
		}
	}
	for _, p := range s.Pods {
		switch {
		case p.Status != nil:
			out.lags[p.Name] = fmt.Sprintf("%d entries behind", latest-p.Status.Applied)
		case p.Unreachable != nil:
			out.lags[p.Name] = p.Unreachable.Error()
		}
	}
	return nil
}

func (out *outlook) ofRedis(ctx context.Context, k *rediscluster.Reconciler, o *v1alpha1.RedisCluster, applied bool) error {
	observe := k.Outlook
	if applied {
		observe = k.Observe
	}
	s, err := observe(ctx, o)
	if err := out.decided(err); err != nil || out.err != nil {
		return err
	}
	out.redis, out.plan, out.explanation = &s, k.Next(s), redisplanner.Explain(s)
	out.act = func(ctx context.Context, step cluster.Step) error { return k.Act(ctx, o, step) }
	for _, p := range s.Pods {
		if p.Node == nil {
			out.lags[p.Name] = p.Error
			continue
		}
		if primary := primaryOf(s.Pods, p); primary != nil {
			out.lags[p.Name] = sizeWords(max(0, primary.Node.Offset-p.Node.Offset)) + " behind"
		}
	}
	return nil
}

// decided keeps an error of the observation that is a decision by itself, and returns any other one.
func (out *outlook) decided(err error) error {
	if errors.As(err, new(cluster.Refusal)) || errors.As(err, new(cluster.Hold)) {
		out.err = err
		return nil
	}
	return err
}

// primaryOf is the server that a replica copies, nil for none that was seen.
func primaryOf(pods []redismodel.Pod, replica redismodel.Pod) *redismodel.Pod {
	i := slices.IndexFunc(pods, func(p redismodel.Pod) bool {
		if p.Node == nil || p.Name == replica.Name || replica.Node == nil {
			return false
		}
		if replica.Node.Replication != nil {
			return !replica.Node.Replication.Primary && replica.Node.Asks == p.Addr
		}
		self := replica.Node.Self()
		return self.Replica && self.PrimaryID == p.Node.ID
	})
	if i < 0 {
		return nil
	}
	return &pods[i]
}

// askServers tells how far the servers of a cluster are behind.
func (s *session) askServers(ctx context.Context, c client.Client, o clusterObject) (map[string]string, error) {
	out, err := s.observe(ctx, c, o, true)
	if err != nil {
		return nil, err
	}
	return out.lags, nil
}

// observer is the part of the operator that reads. Until it executes a step, every write of its
// client is a dry run.
func (s *session) observer(ctx context.Context, c client.Client, o clusterObject) (*observer, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	dial, err := owned.DialThroughAPI(cfg)
	if err != nil {
		return nil, err
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	domain, err := domainOf(ctx, c, o)
	if err != nil {
		return nil, err
	}
	if err := mayForward(ctx, c, o.GetNamespace()); err != nil {
		return nil, err
	}
	registry, err := registryOf(ctx, c, o)
	if err != nil {
		return nil, err
	}
	dry := client.NewDryRunClient(c)
	k := &observer{Client: &owned.Client{
		Client: dry, Direct: dry, Domain: domain, Registry: registry, Now: s.now, CanResize: rediscluster.CanResize(cfg, hc),
		AgentImage: "quorate", // No plan depends on it: an update of the operator restarts nothing.
	}}
	k.Dial = k.noting(dial)
	err = c.List(ctx, &corev1.NodeList{}, client.Limit(1))
	switch {
	case apierrors.IsForbidden(err):
		k.miss("nodes: you may not read them, so a cordoned or lost one is not taken into account")
	case err != nil:
		return nil, fmt.Errorf("list nodes: %w", err)
	default:
		k.Nodes = dry
	}
	return k, nil
}

// mayForward refuses to look at a cluster whose servers cannot be asked: to whoever cannot ask, all of them are down.
func mayForward(ctx context.Context, c client.Client, ns string) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "create", Resource: "pods", Subresource: "portforward"},
	}}
	if err := c.Create(ctx, review); err != nil {
		return fmt.Errorf("ask for your rights: %w", err)
	}
	if !review.Status.Allowed {
		return fmt.Errorf("you may not forward ports to pods in namespace %s, so that no server can be asked how it is: ask for the right to create pods/portforward", ns)
	}
	return nil
}

// defaultDomain is that of Kubernetes clusters which were given no other.
const defaultDomain = "cluster.local"

// domainOf is the DNS domain that a cluster was made for, as the host of its connection Secret ends with it.
func domainOf(ctx context.Context, c client.Reader, o clusterObject) (string, error) {
	var secret corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: cluster.ConnectionSecret(o.GetName())}, &secret)
	if apierrors.IsNotFound(err) {
		return defaultDomain, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the connection Secret: %w", err)
	}
	_, domain, found := strings.Cut(string(secret.Data["host"]), "."+o.GetNamespace()+".svc.")
	if !found || domain == "" {
		return defaultDomain, nil
	}
	return domain, nil
}

// registryOf is the registry that the operator takes images from in place of the public ones, as the servers of a cluster have it: with
// another one every plan would begin with a restart. A cluster with an image of its own does not tell, and does not need it.
func registryOf(ctx context.Context, c client.Reader, o clusterObject) (string, error) {
	servers, err := templateOf(ctx, c, o)
	if err != nil || servers == nil {
		return "", err
	}
	name, own, registry := etcdmanifests.ContainerEtcd, (*string)(nil), etcdmanifests.RegistryOf
	switch o := o.(type) {
	case *v1alpha1.EtcdCluster:
		own = o.Spec.Image
	case *v1alpha1.RedisCluster:
		name, own, registry = redismanifests.ContainerServer, o.Spec.Image, redismanifests.RegistryOf
	}
	i := slices.IndexFunc(servers.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 || own != nil {
		return "", nil
	}
	return registry(servers.Containers[i].Image), nil
}
