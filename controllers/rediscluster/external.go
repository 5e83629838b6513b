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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// ensureExternal applies the Services through which clients outside reach the pods, and tells where they lead from. They come before
// the first pods, which are told where they are reached when they start. Those of the mode Replicated are there anyway. A Service
// that cannot be made is told by observeOutside: nothing inside depends on it.
func (k *Reconciler) ensureExternal(ctx context.Context, o *v1alpha1.RedisCluster, inUse bool) ([]redis.Door, error) {
	k.memory(o).unexposed.Store(nil)
	if o.Spec.ExternalAccess == nil || o.Spec.IsReplicated() {
		return k.ExternalEndpoints(ctx, o)
	}
	pods, err := k.wantedPods(ctx, o)
	if err != nil {
		return nil, err
	}
	b := redis.Builder{Cluster: o}
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
		return slices.ContainsFunc(doors, func(d redis.Door) bool { return d.Pod == pod })
	}
	if err == nil && made && !inUse && slices.ContainsFunc(pods, func(pod string) bool { return !has(pod) }) {
		err = cluster.Hold{Reason: redis.ReasonExternal, Message: "the Services for clients outside have just been made"}
	}
	return doors, err
}

func (k *Reconciler) exposePod(ctx context.Context, o *v1alpha1.RedisCluster, b redis.Builder, pod string) error {
	if err := k.ensureService(ctx, o, b.Outside(pod)); err != nil || o.Spec.ExternalAccess.Type != v1alpha1.ExternalNodePort {
		return err
	}
	port, err := k.nodePort(ctx, o, cluster.ExternalService(pod))
	if err != nil {
		return err
	}
	return k.ensureService(ctx, o, b.Inside(pod, port))
}

// nodePort is the port of the nodes that leads to a Service that was just applied. The cache may not have heard of it yet.
func (k *Reconciler) nodePort(ctx context.Context, o *v1alpha1.RedisCluster, service string) (int32, error) {
	key := client.ObjectKey{Namespace: o.Namespace, Name: service}
	for _, reader := range []client.Reader{k, k.Direct} {
		var live corev1.Service
		if err := reader.Get(ctx, key, &live); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("read Service %s: %w", service, err)
		}
		if port := redis.NodePort(&live); port != 0 {
			return port, nil
		}
	}
	return 0, cluster.Hold{Reason: redis.ReasonExternal, Message: fmt.Sprintf("Service %s has no port of the nodes yet", service)}
}

// wantedPods are those that the StatefulSets have room for, or will have.
func (k *Reconciler) wantedPods(ctx context.Context, o *v1alpha1.RedisCluster) ([]string, error) {
	shards, err := k.shards(ctx, o)
	if err != nil {
		return nil, err
	}
	var s redis.State
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

// outside is what Kubernetes knows of how a cluster is reached from outside.
type outside struct {
	access   *v1alpha1.RedisExternalAccess
	services []corev1.Service
	pods     []corev1.Pod
	// before is what pods were told last.
	before map[string]redis.Announcement
	// tls says how the certificate is got that servers are to show, and certificate is it; empty: none.
	tls         *v1alpha1.TLSSpec
	certificate []byte
}

func (k *Reconciler) readOutside(ctx context.Context, o *v1alpha1.RedisCluster) (outside, error) {
	out := outside{access: o.Spec.ExternalAccess, tls: o.Spec.TLS}
	var services corev1.ServiceList
	if err := k.List(ctx, &services, client.InNamespace(o.Namespace), client.MatchingLabels(redis.Selector(o))); err != nil {
		return out, fmt.Errorf("list Services: %w", err)
	}
	var err error
	if out.pods, err = k.pods(ctx, o); err != nil {
		return out, err
	}
	for i := range services.Items {
		own, err := k.Owns(ctx, o, &services.Items[i])
		if err != nil {
			return out, err
		}
		if own && services.Items[i].DeletionTimestamp == nil {
			out.services = append(out.services, services.Items[i])
		}
	}
	// The cache lists them in any order, and what follows from the first one is written down.
	slices.SortFunc(out.pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.services, func(a, b corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	if out.access == nil {
		return out, nil // The rest is for doors, of which there are none.
	}
	var config corev1.ConfigMap
	err = k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.ConfigName(o.Name)}, &config)
	if client.IgnoreNotFound(err) != nil {
		return out, fmt.Errorf("read ConfigMap: %w", err)
	}
	own, err := k.Owns(ctx, o, &config)
	if err != nil {
		return out, err
	}
	if text := config.Data[redis.AnnounceKey]; text != "" && own {
		if out.before, err = redis.ReadAnnouncements([]byte(text)); err != nil {
			log.FromContext(ctx).Info("what pods were told last cannot be read, and is written anew", "error", err.Error())
		}
	}
	_, pair, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		return out, owned.CertificateError{Err: err}
	}
	out.certificate = pair.Cert
	return out, nil
}

// exposed are the Services that were made for external access.
func (w outside) exposed(wanted []string) []redis.Exposure {
	var out []redis.Exposure
	for i := range w.services {
		s := &w.services[i]
		pod, inside, ok := redis.ExposedPod(s)
		if !ok {
			continue
		}
		e := redis.Exposure{Name: s.Name, UID: string(s.UID), Pod: pod, Wanted: w.access != nil && slices.Contains(wanted, pod)}
		if inside {
			e.Inside, e.Wanted = redis.InsideOf(s), e.Wanted && w.access.Type == v1alpha1.ExternalNodePort
		}
		out = append(out, e)
	}
	return out
}

// doors are where the pods of a cluster, or the Services of its roles, are reached from outside, as far as Services exist.
func (k *Reconciler) doors(ctx context.Context, o *v1alpha1.RedisCluster, w outside) []redis.Door {
	if w.access == nil {
		return nil
	}
	var out []redis.Door
	for i := range w.services {
		s := &w.services[i]
		pod, inside, ok := redis.ExposedPod(s)
		name := pod
		if o.Spec.IsReplicated() {
			ok, name = slices.Contains(entries(o), s.Name), s.Name
		}
		if !ok || inside {
			continue
		}
		host, problem := k.hostOutside(ctx, w, s, name)
		door := redis.Door{Pod: name, Announcement: redis.Announcement{Host: host}, Problem: problem}
		if w.access.Type == v1alpha1.ExternalNodePort {
			door.NodePort = int(redis.NodePort(s))
		}
		if w.access.Type == v1alpha1.ExternalNodePort && !o.Spec.IsReplicated() {
			w.reachInside(&door)
		}
		if door.Problem == "" {
			door.Problem = w.unproven(host)
		}
		out = append(out, door)
	}
	return out
}

// ExternalEndpoints are the doors by themselves.
func (k *Reconciler) ExternalEndpoints(ctx context.Context, o *v1alpha1.RedisCluster) ([]redis.Door, error) {
	if o.Spec.ExternalAccess == nil {
		return nil, nil
	}
	w, err := k.readOutside(ctx, o)
	if err != nil {
		return nil, err
	}
	return k.doors(ctx, o, w), nil
}

// hostOutside is the host that leads to a Service, or says what keeps it from having one. That its node cannot be read is nothing that
// others wait for, and no reason to send clients elsewhere.
func (k *Reconciler) hostOutside(ctx context.Context, w outside, s *corev1.Service, name string) (host, problem string) {
	switch {
	case w.access.Type == v1alpha1.ExternalLoadBalancer:
		if host = redis.BalancerHost(s); host == "" {
			problem = fmt.Sprintf("Service %s has no load balancer yet that is reached by a DNS name or an IPv4 address: clients outside cannot reach it before its provider says where", s.Name)
		}
		return host, problem
	case w.access.HostOutside() != "":
		return w.access.HostOutside(), ""
	}
	var err error
	if pod := w.behind(s); pod != nil && pod.Spec.NodeName != "" {
		if host, err = k.nodeAddress(ctx, pod); err != nil {
			log.FromContext(ctx).Error(err, "where a Service leads from")
		}
	}
	if host == "" {
		host = w.before[name].Host // The port is open on all nodes, so that the one before still does while a pod is on none.
	}
	switch {
	case host != "":
	case err != nil:
		problem = err.Error()
	default:
		problem = fmt.Sprintf("nothing that Service %s leads to is on a node with an IPv4 address: set spec.externalAccess.host to a name that leads to the nodes", s.Name)
	}
	return host, problem
}

// behind is the first pod that a Service leads to; nil: there is none.
func (w outside) behind(s *corev1.Service) *corev1.Pod {
	selects := labels.SelectorFromSet(s.Spec.Selector)
	for i := range w.pods {
		if selects.Matches(labels.Set(w.pods[i].Labels)) {
			return &w.pods[i]
		}
	}
	return nil
}

// nodeAddress is the IPv4 address of the node of a pod, the external one where it has one and nodes may be read; empty: it has none.
func (k *Reconciler) nodeAddress(ctx context.Context, pod *corev1.Pod) (string, error) {
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: pod.Status.HostIP}}
	if k.Nodes != nil {
		var node corev1.Node
		if err := k.Nodes.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read node %s: %w", pod.Spec.NodeName, err)
		}
		addresses = append(node.Status.Addresses, addresses...)
	}
	for _, wanted := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, a := range addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() && a.Type == wanted {
				return a.Address, nil
			}
		}
	}
	return "", nil
}

// reachInside completes a door by the Service inside that leads to the same server.
func (w outside) reachInside(d *redis.Door) {
	name := cluster.AnnouncedService(d.Pod)
	i := slices.IndexFunc(w.services, func(s corev1.Service) bool { return s.Name == name })
	if i < 0 || redis.InsideOf(&w.services[i]).Port != d.NodePort {
		d.Problem = fmt.Sprintf("Service %s does not lead to port %d yet", name, d.NodePort)
		return
	}
	d.IP = w.services[i].Spec.ClusterIP
	if w.tls.TLSMode() == v1alpha1.TLSDisabled {
		d.Port = d.NodePort
	} else {
		d.TLSPort = d.NodePort
	}
}

// unproven says what is missing for the servers' certificate to vouch for a host; empty: it does, or there is none.
func (w outside) unproven(host string) string {
	if len(w.certificate) == 0 || clustertls.Vouches(w.certificate, host) {
		return ""
	}
	if w.tls.TLSMode() == v1alpha1.TLSProvided {
		return fmt.Sprintf("spec.tls.secretName: the certificate in Secret %q is not for %s, where clients outside are to be sent: replace it by one with that name",
			w.tls.Secret(), host)
	}
	return fmt.Sprintf("the servers have no certificate for %s yet, where clients outside are to be sent", host)
}

// observeOutside says where servers are reached from outside, what each is to announce, and what a certificate of the user lacks
// for that.
func (k *Reconciler) observeOutside(ctx context.Context, o *v1alpha1.RedisCluster, s *redis.State) (missing string, err error) {
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
	said := map[string]redis.Announcement{}
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
			p.Announce[redis.EndpointParameter] = redis.Endpoint(&o.Spec, said[p.Name])
		}
	}
	return missing, nil
}

// watchUnused notes since when servers do not announce Services that are not wanted any more. An operator that has just been started
// begins to count anew.
func (m *memory) watchUnused(s *redis.State) {
	for i := range s.Exposed {
		e := &s.Exposed[i]
		at := slices.IndexFunc(s.Pods, func(p redis.Pod) bool { return p.Name == e.Pod })
		if e.Wanted || at < 0 || s.Pods[at].Node == nil || len(s.Pods[at].Differs()) > 0 {
			m.unused.Delete(e.UID)
			continue
		}
		since, _ := m.unused.LoadOrStore(e.UID, s.Now)
		e.Unused, _ = since.(time.Time)
	}
}

// watchHosts notes where servers send clients. A server that cannot be read may send them where it did.
func (m *memory) watchHosts(s *redis.State) {
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
func (k *Reconciler) withFormer(ctx context.Context, o *v1alpha1.RedisCluster, doors []redis.Door) ([]redis.Door, error) {
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
			doors = append(doors, redis.Door{Announcement: redis.Announcement{Host: host}})
		}
	}
	return doors, nil
}

// hostsOutside are the DNS names and addresses that clients outside are to be sent to, in one order.
func hostsOutside(doors []redis.Door) (names []string, addresses []netip.Addr) {
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
func (k *Reconciler) withdraw(ctx context.Context, o *v1alpha1.RedisCluster, step redis.Withdraw) error {
	var errs []error
	for _, e := range step.Services {
		uid := types.UID(e.UID)
		k.memory(o).unused.Delete(e.UID)
		errs = append(errs, owned.IgnoreDeleted(k.Delete(ctx, &corev1.Service{ObjectMeta: owned.ObjectMeta(o, e.Name)}, client.Preconditions{UID: &uid}), "Service "+e.Name))
	}
	return errors.Join(errs...)
}
