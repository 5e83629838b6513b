package rediscluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// CanResize asks the API server once whether it has the subresource resize of pods: Kubernetes 1.33 and later do.
func CanResize(config *rest.Config, hc *http.Client) func() (bool, error) {
	var (
		mu    sync.Mutex
		known bool
		can   bool
	)
	return func() (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if known {
			return can, nil
		}
		d, err := discovery.NewDiscoveryClientForConfigAndClient(config, hc)
		if err != nil {
			return false, fmt.Errorf("set up discovery: %w", err)
		}
		list, err := d.ServerResourcesForGroupVersion("v1")
		if err != nil {
			return false, fmt.Errorf("list the resources of the API server: %w", err)
		}
		can = slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "pods/resize" })
		known = can // One that cannot may be updated meanwhile.
		return can, nil
	}
}

// start is what pods of one template may have been started with.
type start struct {
	shard int
	sum   string
}

// hashes of the template that a pod is to be made from.
type hashes struct{ current, amounts string }

// templates hashes each template once for a version of its cluster.
type templates struct {
	manifests.Builder
	*hashed
}

// hashed are the templates of a cluster in one version (start -> hashes): with the shard and the certificates, it decides on all of them.
type hashed struct {
	version string
	table   sync.Map
}

// hashed are those that were hashed before, as long as the cluster is as it was.
func (k *Reconciler) hashed(o *v1alpha1.RedisCluster) *hashed {
	m := k.memory(o)
	if last := m.hashed.Load(); last != nil && last.version == o.ResourceVersion {
		return last
	}
	now := &hashed{version: o.ResourceVersion}
	m.hashed.Store(now)
	return now
}

func (t templates) hashes(pod *corev1.Pod, shard int) (hashes, error) {
	as := start{shard, pod.Annotations[manifests.AnnotationCertificates]}
	if h, ok := t.table.Load(as); ok {
		return h.(hashes), nil //nolint:forcetypeassert // Nothing else is stored.
	}
	b := t.StartedWith(pod.Annotations)
	tpl, err := b.Template(shard)
	if err != nil {
		return hashes{}, err
	}
	h := hashes{tpl.Annotations[v1alpha1.AnnotationTemplateHash], tpl.Annotations[manifests.AnnotationResources]}
	t.table.Store(as, h)
	return h, nil
}

// has tells whether a pod was made from the template, but for amounts that can change while it runs.
func (h hashes) has(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.AnnotationTemplateHash] == h.current
}

// observeResize reads how far a pod is from the resources that it is to have. One that gets them only by a restart is outdated. What cannot
// be read is told, and keeps nothing else from being seen.
func (k *Reconciler) observeResize(ctx context.Context, o *v1alpha1.RedisCluster, pod *corev1.Pod, h hashes, p *model.Pod) {
	now := kube.ResizeOf(pod, manifests.ContainerServer)
	p.MemoryLimit = now.MemoryLimit
	if h.amounts == "" || p.Outdated {
		return
	}
	differs := pod.Annotations[manifests.AnnotationResources] != h.amounts && pod.Annotations[v1alpha1.AnnotationTemplateHash] == h.current
	if !differs {
		p.Resize = model.Resizing{Running: now.Running, Deferred: now.Deferred, Problem: now.Problem}
		if now.Infeasible {
			p.Resize = model.Resizing{Refused: now.Problem}
			k.moveOrWait(ctx, o, pod, p)
		}
		return
	}
	p.Resize.Wanted = true
	can := false
	if k.CanResize != nil {
		var err error
		if can, err = k.CanResize(); err != nil {
			p.Resize = model.Resizing{Refused: err.Error()} // Whether a restart takes its place is not known.
			return
		}
	}
	refusal, _ := k.memory(o).unresizable.Load(pod.UID)
	r, _ := refusal.(resizeRefusal)
	switch {
	case !can || !now.Known:
		p.Outdated = true
	case r.amounts != h.amounts:
	case r.forGood:
		p.Outdated = true
	case k.Now().Sub(r.at) >= askAgain:
	default:
		p.Resize = model.Resizing{Refused: r.why}
		k.moveOrWait(ctx, o, pod, p)
	}
}

// resizeRefusal is why a pod was not resized.
type resizeRefusal struct {
	amounts, why string
	at           time.Time
	// forGood says that the API server does not resize such a pod at all.
	forGood bool
}

// askAgain is how long a refusal stands: quotas and nodes change.
const askAgain = time.Minute

// moveOrWait has a pod restarted that its node is too small for, if there is a node that is not. Any other refusal would meet a new pod as
// well, and then there would be none.
func (k *Reconciler) moveOrWait(ctx context.Context, o *v1alpha1.RedisCluster, pod *corev1.Pod, p *model.Pod) {
	elsewhere, err := k.roomElsewhere(ctx, pod, cluster.Claim(cluster.ShardSet(o.Name, p.Shard), p.Ordinal), kube.InPlace(o.Spec.Resources).Requests)
	if err != nil {
		p.Resize.Refused += "; " + err.Error()
	}
	p.Outdated = elsewhere
}

// roomElsewhere tells whether the node of a pod is too small for what it is to request, whoever else is there, and another one is not that the
// pod and its volume may be on.
func (k *Reconciler) roomElsewhere(ctx context.Context, pod *corev1.Pod, claim string, requests corev1.ResourceList) (bool, error) {
	if k.Nodes == nil {
		return false, nil
	}
	var nodes corev1.NodeList
	if err := k.Nodes.List(ctx, &nodes); err != nil {
		return false, fmt.Errorf("list nodes: %w", err)
	}
	here, elsewhere := false, []*corev1.Node{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		large := true
		for name, amount := range requests {
			has := n.Status.Allocatable[name]
			large = large && has.Cmp(amount) >= 0
		}
		switch {
		case n.Name == pod.Spec.NodeName:
			here = large
		case large && owned.CordonReason(log.FromContext(ctx), n, pod.Spec.Tolerations) == "":
			elsewhere = append(elsewhere, n)
		}
	}
	if here || len(elsewhere) == 0 {
		return false, nil
	}
	volume, err := k.VolumeOfClaim(ctx, pod.Namespace, claim)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(elsewhere, func(n *corev1.Node) bool { return owned.FitsNode(pod, volume, n) }), nil
}

// Other amounts of cpu and memory without a restart.
// +kubebuilder:rbac:groups="",resources=pods/resize,verbs=patch

// resize asks for other resources of a running pod, and writes down on it that it has.
func (k *Reconciler) resize(ctx context.Context, o *v1alpha1.RedisCluster, s steps.ResizePod) error {
	amounts, err := kube.InPlaceText(o.Spec.Resources)
	if err != nil {
		return err
	}
	patch, err := kube.ResizePatch(s.Pod.UID, manifests.ContainerServer, o.Spec.Resources)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: owned.ObjectMeta(o, s.Pod.Name)}
	err = k.SubResource("resize").Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		log.FromContext(ctx).Info("the API server does not resize a pod", "pod", s.Pod.Name, "why", err.Error())
		k.memory(o).unresizable.Store(types.UID(s.Pod.UID), resizeRefusal{amounts, err.Error(), k.Now(), apierrors.IsInvalid(err)})
		return nil // The next pass decides what follows from it.
	}
	if err != nil {
		return fmt.Errorf("pod %s: %w", s.Pod.Name, err)
	}
	note := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, s.Pod.UID, manifests.AnnotationResources, amounts)
	err = k.Patch(ctx, &corev1.Pod{ObjectMeta: owned.ObjectMeta(o, s.Pod.Name)}, client.RawPatch(types.MergePatchType, note), client.FieldOwner(cluster.ManagedBy))
	if err != nil {
		return fmt.Errorf("annotate pod %s: %w", s.Pod.Name, err)
	}
	return nil
}
