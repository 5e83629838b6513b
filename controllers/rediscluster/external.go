package rediscluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// ensureExternal applies the Services through which clients outside reach the pods, and tells where they lead from. They come before
// the first pods, which are told where they are reached when they start. Those of the mode Replicated are there anyway. A Service
// that cannot be made is told by observeOutside: nothing inside depends on it.
func (k *Reconciler) ensureExternal(ctx context.Context, o *v1alpha1.RedisCluster, inUse bool) ([]model.Door, error) {
	k.memory(o).unexposed.Store(nil)
	if o.Spec.ExternalAccess == nil || o.Spec.IsReplicated() {
		return k.ExternalEndpoints(ctx, o)
	}
	pods, err := k.wantedPods(ctx, o)
	if err != nil {
		return nil, err
	}
	b := manifests.Builder{Cluster: o}
	if b.Owner, err = k.OwnerReference(o); err != nil {
		return nil, err
	}
	made := true
	for _, pod := range pods {
		if err := k.exposePod(ctx, o, b, pod); err != nil {
			why := err.Error()
			k.memory(o).unexposed.CompareAndSwap(nil, &why)
			made = false
		}
	}
	doors, err := k.ExternalEndpoints(ctx, o)
	has := func(pod string) bool {
		return slices.ContainsFunc(doors, func(d model.Door) bool { return d.Pod == pod })
	}
	if err == nil && made && !inUse && slices.ContainsFunc(pods, func(pod string) bool { return !has(pod) }) {
		err = cluster.Hold{Reason: planner.ReasonExternal, Message: "the Services for clients outside have just been made"}
	}
	return doors, err
}

func (k *Reconciler) exposePod(ctx context.Context, o *v1alpha1.RedisCluster, b manifests.Builder, pod string) error {
	if err := k.ensureService(ctx, o, b.Outside(pod)); err != nil || o.Spec.ExternalAccess.Type != v1alpha1.ExternalNodePort {
		return err
	}
	port, err := k.nodePort(ctx, o, cluster.ExternalService(pod))
	if err != nil {
		return err
	}
	return k.ensureService(ctx, o, b.Inside(pod, port))
}

// nodePort is the port of the nodes that leads to a Service that was just applied.
func (k *Reconciler) nodePort(ctx context.Context, o *v1alpha1.RedisCluster, service string) (int32, error) {
	var live corev1.Service
	if err := k.GetCurrent(ctx, client.ObjectKey{Namespace: o.Namespace, Name: service}, &live); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("read Service %s: %w", service, err)
	}
	if port := manifests.NodePort(&live); port != 0 {
		return port, nil
	}
	return 0, cluster.Hold{Reason: planner.ReasonExternal, Message: fmt.Sprintf("Service %s has no port of the nodes yet", service)}
}

// wantedPods are those that the StatefulSets have room for, or will have.
func (k *Reconciler) wantedPods(ctx context.Context, o *v1alpha1.RedisCluster) ([]string, error) {
	shards, err := k.shards(ctx, o)
	if err != nil {
		return nil, err
	}
	var s model.State
	if err := k.observeSets(ctx, o, &s); err != nil {
		return nil, err
	}
	size := map[int]int{}
	for _, set := range s.Sets {
		size[set.Shard] = set.Replicas
	}
	var pods []string
	for _, shard := range shards {
		for ordinal := range max(size[shard], 1+o.Spec.Replicas()) {
			pods = append(pods, cluster.Pod(cluster.ShardSet(o.Name, shard), ordinal))
		}
	}
	return pods, nil
}

// ExternalEndpoints are the doors by themselves.
func (k *Reconciler) ExternalEndpoints(ctx context.Context, o *v1alpha1.RedisCluster) ([]model.Door, error) {
	if o.Spec.ExternalAccess == nil {
		return nil, nil
	}
	w, err := k.readOutside(ctx, o)
	if err != nil {
		return nil, err
	}
	return k.doors(ctx, o, w), nil
}

// observeOutside says where servers are reached from outside, what each is to announce, and what a certificate of the user lacks
// for that.
func (k *Reconciler) observeOutside(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) (missing string, err error) {
	w, err := k.readOutside(ctx, o)
	if err != nil {
		return "", err
	}
	wanted, err := k.wantedPods(ctx, o)
	if err != nil {
		return "", err
	}
	s.Exposed = w.exposed(wanted)
	s.Doors = k.doors(ctx, o, w)
	if why := k.memory(o).unexposed.Load(); why != nil {
		s.Spec.Unannounced = *why
	}
	said := map[string]model.Announcement{}
	for _, d := range s.Doors {
		said[d.Pod] = d.Said()
		if o.Spec.IsReplicated() || slices.Contains(wanted, d.Pod) {
			s.Spec.Unannounced = cmp.Or(s.Spec.Unannounced, d.Problem)
		}
		if w.tls.TLSMode() == v1alpha1.TLSProvided && d.Host != "" {
			missing = cmp.Or(missing, w.unproven(d.Host))
		}
	}
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Addr.IP != "" && !o.Spec.IsReplicated() {
			p.Announce = said[p.Name].Parameters(cluster.PodHost(p.Name, o.Name, o.Namespace, k.Domain), p.Addr.IP)
			p.Announce[model.EndpointParameter] = model.Endpoint(&o.Spec, said[p.Name])
		}
	}
	return missing, nil
}

// watchUnused notes since when servers do not announce Services that are not wanted any more. An operator that has just been started
// begins to count anew.
func (m *memory) watchUnused(s *model.State) {
	for i := range s.Exposed {
		e := &s.Exposed[i]
		at := slices.IndexFunc(s.Pods, func(p model.Pod) bool { return p.Name == e.Pod })
		if e.Wanted || at < 0 || s.Pods[at].Node == nil || len(facts.Differs(&s.Pods[at])) > 0 {
			m.unused.Delete(e.UID)
			continue
		}
		since, _ := m.unused.LoadOrStore(e.UID, s.Now)
		e.Unused, _ = since.(time.Time)
	}
}

// watchHosts notes where servers send clients. A server that cannot be read may send them where it did.
func (m *memory) watchHosts(s *model.State) {
	hosts, all := []string{}, true
	for i := range s.Pods {
		n := s.Pods[i].Node
		if n == nil || n.Announces == nil {
			all = false
		} else if host := n.HostOutside(); host != "" {
			hosts = append(hosts, host)
		}
	}
	if former := m.announced.Load(); !all && former == nil {
		return
	} else if !all {
		hosts = append(hosts, *former...)
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	m.announced.Store(&hosts)
}

// withFormer adds to doors the hosts that are not asked for any more and that the servers' certificate is for, while servers send clients
// to any of them, or may: clients verify that. They go all at once, as each certificate takes the kubelet a minute and a half.
func (k *Reconciler) withFormer(ctx context.Context, o *v1alpha1.RedisCluster, doors []model.Door) ([]model.Door, error) {
	if mode := o.Spec.TLS.TLSMode(); mode == v1alpha1.TLSDisabled || mode == v1alpha1.TLSProvided || o.Spec.IsReplicated() {
		return doors, nil
	}
	leaf := k.leafs(o, doors)[cluster.ServerTLSSecret(o.Name)]
	wanted := leaf.Hosts()
	announced := k.memory(o).announced.Load()
	if announced != nil && !slices.ContainsFunc(*announced, func(host string) bool { return !slices.Contains(wanted, host) }) {
		return doors, nil
	}
	_, pair, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		return nil, owned.CertificateError{Err: err}
	}
	doors = slices.Clone(doors)
	has, _ := clustertls.LeafOf(pair) // What cannot be read is issued anew.
	for _, host := range has.Hosts() {
		if !slices.Contains(wanted, host) {
			doors = append(doors, model.Door{Announcement: model.Announcement{Host: host}})
		}
	}
	return doors, nil
}

// hostsOutside are the DNS names and addresses that clients outside are to be sent to, in one order.
func hostsOutside(doors []model.Door) (names []string, addresses []netip.Addr) {
	for _, d := range doors {
		if ip, err := netip.ParseAddr(d.Host); err == nil {
			addresses = append(addresses, ip)
		} else if d.Host != "" {
			names = append(names, d.Host)
		}
	}
	slices.Sort(names)
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(names), slices.Compact(addresses)
}

// Ports and load balancers for clients outside are given back when they are not asked for any more.
// +kubebuilder:rbac:groups="",resources=services,verbs=delete

// withdraw deletes just these Services, not others that took their names meanwhile.
func (k *Reconciler) withdraw(ctx context.Context, o *v1alpha1.RedisCluster, step steps.Withdraw) error {
	var errs []error
	for _, e := range step.Services {
		uid := types.UID(e.UID)
		k.memory(o).unused.Delete(e.UID)
		errs = append(errs, owned.IgnoreDeleted(k.Delete(ctx, &corev1.Service{ObjectMeta: owned.ObjectMeta(o, e.Name)}, client.Preconditions{UID: &uid}), "Service "+e.Name))
	}
	return errors.Join(errs...)
}
