package owned

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/internal/metrics"
	"github.com/quorate/quorate/internal/ttlmap"
)

// DialFunc connects to a port of a pod.
type DialFunc func(ctx context.Context, pod types.NamespacedName, ip string, port int) (net.Conn, error)

// Client makes and reads the objects that belong to a cluster resource.
type Client struct {
	client.Client
	// Direct reads from the API server itself. The cache holds only what carries our labels, so before an object is made
	// the server is asked whether somebody else has one of that name.
	Direct client.Reader
	// Nodes reads nodes from the cache, nil where they may not be watched.
	Nodes client.Reader
	// Domain of the Kubernetes cluster's DNS, usually cluster.local.
	Domain string
	// AgentImage is the operator's own image, which the start gate runs from.
	AgentImage string
	// Registry is where the images of the data stores come from in place of the public registries; empty: those.
	Registry string
	// Now is the clock.
	Now func() time.Time
	// Dial connects to the pods.
	Dial DialFunc
	// CanResize tells whether the API server can change the resources of running pods; nil: it cannot.
	CanResize func() (bool, error)
	// Metrics that calls to data stores are counted in; nil: they are not.
	Metrics *metrics.Metrics

	// Expectations are our writes of children that the cache may not show yet.
	Expectations Expectations

	applied    appliedMarks
	monitoring monitoring
}

// ForgetSecrets drops the Secrets that were read, so that each is read from the API server the next time.
func (c *Client) ForgetSecrets() {
	if cached, ok := c.Client.(recordingClient); ok {
		if r, ok := cached.Client.(*secretCache); ok {
			r.forgetAll()
		}
	}
}

// appliedMarks are what was applied last, of all objects that are looked at.
type appliedMarks struct {
	mu    sync.Mutex
	byKey ttlmap.Map[appliedKey, appliedMark]
}

func (m *appliedMarks) of(key appliedKey, now time.Time) appliedMark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.byKey.Get(key, now)
}

func (m *appliedMarks) set(key appliedKey, now time.Time, mark appliedMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*m.byKey.Get(key, now) = mark
}

type appliedKey struct {
	kind, namespace, name string
}

// appliedMark remembers what was applied and what came of it: the version of the answer, and what tells it from others but for their status.
type appliedMark struct {
	wish        [sha256.Size]byte
	version     string
	fingerprint [sha256.Size]byte
}

// Apply brings a child into the wanted state by server-side apply. live is an empty object of the child's type with
// name and namespace set; it is filled from the cache. Nothing is sent when neither the wish nor the object changed
// since the last apply, so a settled cluster costs no write. An object that somebody else controls is refused.
func (c *Client) Apply(ctx context.Context, owner Owner, live client.Object, want runtime.ApplyConfiguration) error {
	return c.ApplyIf(ctx, owner, live, want, func() error { return nil })
}

// ApplyIf applies an object when it would be written and still may be: allowed is asked right before.
func (c *Client) ApplyIf(ctx context.Context, owner Owner, live client.Object, want runtime.ApplyConfiguration, allowed func() error) error {
	gvk, err := apiutil.GVKForObject(live, c.Scheme())
	if err != nil {
		return fmt.Errorf("apply %T: %w", live, err)
	}
	what := fmt.Sprintf("%s %s/%s", gvk.Kind, live.GetNamespace(), live.GetName())
	key := appliedKey{gvk.Kind, live.GetNamespace(), live.GetName()}
	if err := c.claim(ctx, owner, live, what); err != nil {
		return err
	}
	raw, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("encode %s: %w", what, err)
	}
	wish := sha256.Sum256(raw)
	if c.applied.of(key, c.Now()).stands(wish, live) {
		return nil
	}
	if err := c.Adopt(ctx, owner, live); err != nil {
		return err
	}
	if err := allowed(); err != nil {
		return err
	}
	if err := c.Client.Apply(ctx, want, client.FieldOwner(cluster.ManagedBy), client.ForceOwnership); err != nil {
		c.Expectations.lost(live, client.ObjectKey{Namespace: key.namespace, Name: key.name})
		return ApplyError(what, err)
	}
	mark := markOf(wish, want)
	c.applied.set(key, c.Now(), mark)
	if mark.version != live.GetResourceVersion() {
		c.Expectations.wrote(live, client.ObjectKey{Namespace: key.namespace, Name: key.name}, mark.version)
	}
	return nil
}

// ApplyError refuses what the API server calls invalid: it comes from the specification, and trying again does not help. An object that is
// not any more what was seen is looked at again.
func ApplyError(what string, err error) error {
	cause, _ := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	switch {
	case apierrors.IsConflict(err), cause.Field == "metadata.uid":
		return cluster.Hold{Reason: v1alpha1.ReasonReconcileError, Message: what + " has changed meanwhile and is read again"}
	case apierrors.IsInvalid(err):
		return cluster.Refusal{
			Reason:  v1alpha1.ReasonInvalidSpec,
			Message: fmt.Sprintf("%s that the specification asks for is invalid: correct the field that is named here: %v", what, err),
		}
	}
	return fmt.Errorf("apply %s: %w", what, err)
}

// claim reads an object and refuses it when somebody else controls it; live stays empty when there is none.
func (c *Client) claim(ctx context.Context, owner Owner, live client.Object, what string) error {
	objectKey := client.ObjectKeyFromObject(live)
	err := c.Get(ctx, objectKey, live)
	if apierrors.IsNotFound(err) {
		err = c.Direct.Get(ctx, objectKey, live)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return c.CheckUsable(ctx, owner, live, what)
}

// ConfirmSpec reads the specification past the cache, and holds when it is another one by now.
func (c *Client) ConfirmSpec(ctx context.Context, o Owner) error {
	now := &metav1.PartialObjectMetadata{}
	gvk, err := apiutil.GVKForObject(o, c.Scheme())
	if err == nil {
		now.SetGroupVersionKind(gvk)
		err = c.Direct.Get(ctx, client.ObjectKeyFromObject(o), now)
	}
	if err != nil {
		return fmt.Errorf("read the specification again: %w", err)
	}
	if now.UID != o.GetUID() || now.Generation != o.GetGeneration() || now.DeletionTimestamp != nil {
		return cluster.Hold{Reason: v1alpha1.ReasonReconcileError, Message: "the specification has changed meanwhile and is read again"}
	}
	return nil
}

// CheckOwned refuses an object that the owner does not control. What an earlier cluster of this name left behind is waited
// for: Kubernetes deletes it.
func CheckOwned(owner Owner, live client.Object, what string) error {
	if live.GetDeletionTimestamp() == nil && (metav1.IsControlledBy(live, owner) || keptWithClaims(owner, live)) {
		return nil
	}
	if live.GetDeletionTimestamp() != nil && metav1.IsControlledBy(live, owner) {
		return cluster.Hold{Reason: v1alpha1.ReasonReconcileError, Message: what + " is being deleted, and made anew then"}
	}
	if ref := metav1.GetControllerOf(live); live.GetDeletionTimestamp() != nil || ownedByPredecessor(owner, ref) {
		return cluster.Hold{
			Reason:  v1alpha1.ReasonPreviousCluster,
			Message: fmt.Sprintf("%s of an earlier %s of this name is being deleted", what, displayName(owner)),
		}
	}
	return foreignObject(owner, live, what)
}

// foreignObject refuses an object that the owner needs and may not use. The message never advises to
// delete a Secret or a claim: it may hold the only copy of keys or data.
func foreignObject(owner Owner, live client.Object, what string) error {
	advice := "delete it, or give"
	switch live.(type) {
	case *corev1.Secret, *corev1.PersistentVolumeClaim:
		advice = "give"
	}
	return cluster.Refusal{
		Reason:  v1alpha1.ReasonForeignObject,
		Message: fmt.Sprintf("%s is needed by this %s but belongs to somebody else: %s the %[2]s another name", what, displayName(owner), advice),
	}
}

// displayName is what people call the owner.
func displayName(owner Owner) string {
	switch owner.(type) {
	case *v1alpha1.EtcdUser, *v1alpha1.RedisUser:
		return "user"
	case *v1alpha1.Backup:
		return "backup"
	case *v1alpha1.BackupSchedule:
		return "schedule"
	case *v1alpha1.Restore:
		return "restore"
	}
	return "cluster"
}

// keptWithClaims reports whether an object of an earlier cluster of this name stays because of its
// retained claims. The reference to the earlier cluster may still be there: of an object that was
// restored from a backup all owners are gone, and the garbage collector would delete it.
func keptWithClaims(owner Owner, live client.Object) bool {
	ref := metav1.GetControllerOf(live)
	return live.GetLabels()[cluster.LabelInstance] == owner.GetName() && live.GetLabels()[cluster.LabelManagedBy] == cluster.ManagedBy &&
		(ref == nil || ownedByPredecessor(owner, ref)) && slices.ContainsFunc(live.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.Kind == "PersistentVolumeClaim"
	})
}

// ownedByPredecessor tells whether a controller reference names an earlier resource of the owner's kind and name.
func ownedByPredecessor(owner Owner, ref *metav1.OwnerReference) bool {
	if ref == nil || ref.Name != owner.GetName() || ref.UID == owner.GetUID() {
		return false
	}
	return ref.Kind == reflect.TypeOf(owner).Elem().Name()
}

// markOf remembers a wish, and the answer to it that an apply configuration holds after it was applied.
func markOf(wish [sha256.Size]byte, ac runtime.ApplyConfiguration) (m appliedMark) {
	raw, err := json.Marshal(ac)
	var o metav1.PartialObjectMetadata
	if err != nil || json.Unmarshal(raw, &o) != nil {
		return m
	}
	return appliedMark{wish, o.ResourceVersion, fingerprint(&o)}
}

// stands tells whether what came of the same wish is still there.
func (m appliedMark) stands(wish [sha256.Size]byte, live client.Object) bool {
	return m.wish == wish && (m.version == live.GetResourceVersion() || m.fingerprint == fingerprint(live))
}

// fingerprint tells versions of an object apart by all but the status, where the API server counts changes of what is specified: it does not for
// ConfigMaps and Services.
func fingerprint(o client.Object) [sha256.Size]byte {
	generation, version := o.GetGeneration(), ""
	switch o.(type) {
	case *corev1.ConfigMap, *corev1.Service:
		generation = 0
	}
	if generation == 0 {
		version = o.GetResourceVersion()
	}
	raw, _ := json.Marshal(metav1.ObjectMeta{ // Of strings and numbers there is always JSON.
		UID: o.GetUID(), ResourceVersion: version, Generation: generation, Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		OwnerReferences: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(), DeletionTimestamp: o.GetDeletionTimestamp(),
	})
	return sha256.Sum256(raw)
}

// OwnerReference returns the reference that makes an object a child of the owner.
func (c *Client) OwnerReference(owner Owner) (*metav1ac.OwnerReferenceApplyConfiguration, error) {
	gvk, err := apiutil.GVKForObject(owner, c.Scheme())
	if err != nil {
		return nil, fmt.Errorf("owner reference of %T: %w", owner, err)
	}
	return kube.Owner(gvk.GroupVersion().String(), gvk.Kind, owner.GetName(), owner.GetUID()), nil
}

// PatchFinalizer changes the finalizers, if the resource is still what the decision was made on: the list is replaced as a
// whole.
func (c *Client) PatchFinalizer(ctx context.Context, o Owner, change func(client.Object, string) bool) error {
	next, ok := o.DeepCopyObject().(Owner)
	if !ok {
		return fmt.Errorf("copy of %T has another type", o)
	}
	if !change(next, v1alpha1.Finalizer) {
		return nil
	}
	err := c.Patch(ctx, next, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}), client.FieldOwner(cluster.ManagedBy))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // It is gone, or not what was decided on any more.
	}
	if err != nil {
		return fmt.Errorf("change the finalizers of %s: %w", o.GetName(), err)
	}
	return nil
}

// Owner is a resource of ours.
type Owner interface {
	client.Object
	IsPaused() bool
	GetConditions() []metav1.Condition
}
