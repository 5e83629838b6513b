package rediscluster

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	redisconfig "github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// outside is what Kubernetes knows of how a cluster is reached from outside.
type outside struct {
	access   *v1alpha1.RedisExternalAccess
	services []corev1.Service
	pods     []corev1.Pod
	// before is what pods were told last.
	before map[string]model.Announcement
	// tls says how the certificate is got that servers are to show, and certificate is it; empty: none.
	tls         *v1alpha1.TLSSpec
	certificate []byte
}

func (k *Reconciler) readOutside(ctx context.Context, o *v1alpha1.RedisCluster) (outside, error) {
	out := outside{access: o.Spec.ExternalAccess, tls: o.Spec.TLS}
	var services corev1.ServiceList
	if err := k.List(ctx, &services, client.InNamespace(o.Namespace), client.MatchingLabels(manifests.Selector(o))); err != nil {
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
	if text := config.Data[redisconfig.AnnounceKey]; text != "" && own {
		if out.before, err = redisconfig.ReadAnnouncements([]byte(text)); err != nil {
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
func (w outside) exposed(wanted []string) []model.Exposure {
	var out []model.Exposure
	for i := range w.services {
		s := &w.services[i]
		pod, inside, ok := manifests.ExposedPod(s)
		if !ok {
			continue
		}
		e := model.Exposure{Name: s.Name, UID: string(s.UID), Pod: pod, Wanted: w.access != nil && slices.Contains(wanted, pod)}
		if inside {
			e.Inside, e.Wanted = manifests.InsideOf(s), e.Wanted && w.access.Type == v1alpha1.ExternalNodePort
		}
		out = append(out, e)
	}
	return out
}

// doors are where the pods of a cluster, or the Services of its roles, are reached from outside, as far as Services exist.
func (k *Reconciler) doors(ctx context.Context, o *v1alpha1.RedisCluster, w outside) []model.Door {
	if w.access == nil {
		return nil
	}
	var out []model.Door
	for i := range w.services {
		s := &w.services[i]
		pod, inside, ok := manifests.ExposedPod(s)
		name := pod
		if o.Spec.IsReplicated() {
			ok, name = slices.Contains(entries(o), s.Name), s.Name
		}
		if !ok || inside {
			continue
		}
		host, problem := k.hostOutside(ctx, w, s, name)
		door := model.Door{Pod: name, Announcement: model.Announcement{Host: host}, Problem: problem}
		if w.access.Type == v1alpha1.ExternalNodePort {
			door.NodePort = int(manifests.NodePort(s))
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

// hostOutside is the host that leads to a Service, or says what keeps it from having one. That its node cannot be read is nothing that
// others wait for, and no reason to send clients elsewhere.
func (k *Reconciler) hostOutside(ctx context.Context, w outside, s *corev1.Service, name string) (host, problem string) {
	switch {
	case w.access.Type == v1alpha1.ExternalLoadBalancer:
		if host = manifests.BalancerHost(s); host == "" {
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
func (w outside) reachInside(d *model.Door) {
	name := cluster.AnnouncedService(d.Pod)
	i := slices.IndexFunc(w.services, func(s corev1.Service) bool { return s.Name == name })
	if i < 0 || manifests.InsideOf(&w.services[i]).Port != d.NodePort {
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
