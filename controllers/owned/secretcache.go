package owned

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// How long a Secret is known for that was read: SecretsExpireAfter while its resource is at rest, and secretsExpireInProgressAfter while something is done and one look
// follows the other. What somebody else does to a Secret of ours is noticed so late.
const (
	SecretsExpireAfter           = time.Minute
	secretsExpireInProgressAfter = 2 * time.Second
)

// secretCache is a client that remembers the Secrets of ours that it has read: they cannot be watched without the right to list all others, and
// to read them at each look at a cluster would be most of what is asked of the API server. Secrets that somebody else writes are read around it.
type secretCache struct {
	client.Client
	now func() time.Time

	mu      sync.Mutex
	secrets map[client.ObjectKey]cachedSecret
	// writes counts what was written: what was read before is not remembered after it.
	writes int
	swept  time.Time
}

// cachedSecret is a Secret, and when it was read.
type cachedSecret struct {
	secret *corev1.Secret
	at     time.Time
}

func newSecretCache(c client.Client, now func() time.Time) *secretCache {
	return &secretCache{Client: c, now: now, secrets: map[client.ObjectKey]cachedSecret{}}
}

// cacheScopeKey is the key of the cacheScope of a context.
type cacheScopeKey struct{}

// cacheScope is what one look at a resource goes by of what was read before it.
type cacheScope struct {
	// atRest says that the resource is Ready, and that nothing is done to it.
	atRest bool

	mu sync.Mutex
	// used are the versions of those that were not read anew, and by who knows them.
	used map[client.ObjectKey]string
	by   *secretCache
}

// age is how old Secrets may be.
func (r *cacheScope) age() time.Duration {
	if r.atRest {
		return SecretsExpireAfter
	}
	return secretsExpireInProgressAfter
}

// WithCache lets Secrets be remembered while o is looked at, if it was looked at before as it is: not right after it was changed, and not while it goes.
func WithCache(ctx context.Context, o Owner) context.Context {
	all := o.GetConditions()
	ready := meta.FindStatusCondition(all, v1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != o.GetGeneration() || o.GetDeletionTimestamp() != nil {
		return ctx
	}
	r := &cacheScope{used: map[client.ObjectKey]string{}}
	if ready.Status == metav1.ConditionTrue &&
		!meta.IsStatusConditionTrue(all, v1alpha1.ConditionReconciling) && !meta.IsStatusConditionTrue(all, v1alpha1.ConditionStalled) {
		r.atRest = true
	}
	return context.WithValue(ctx, cacheScopeKey{}, r)
}

// Uncached has Secrets read for what follows.
func Uncached(ctx context.Context) context.Context {
	return context.WithValue(ctx, cacheScopeKey{}, nil)
}

// ConfirmCached reads all Secrets anew that a look went by from memory. What was decided holds only if none has changed: some steps cannot be undone.
func ConfirmCached(ctx context.Context) error {
	r, _ := ctx.Value(cacheScopeKey{}).(*cacheScope)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// In one order: the same changes cost the same reads every time.
	for _, key := range slices.SortedFunc(maps.Keys(r.used), func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) }) {
		var now corev1.Secret
		if err := client.IgnoreNotFound(r.by.Get(Uncached(ctx), key, &now)); err != nil {
			return fmt.Errorf("read Secret %s: %w", key.Name, err)
		}
		if now.ResourceVersion != r.used[key] {
			return cluster.Hold{Reason: v1alpha1.ReasonReconcileError, Message: "Secret " + key.Name + " has changed, and is read first"}
		}
	}
	clear(r.used)
	return nil
}

// Get reads a Secret unless it is known, and anything else as ever.
func (r *secretCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return r.Client.Get(ctx, key, o, opts...)
	}
	r.mu.Lock()
	known, writes := r.secrets[key], r.writes
	r.mu.Unlock()
	if look, _ := ctx.Value(cacheScopeKey{}).(*cacheScope); look != nil && known.secret != nil && r.now().Sub(known.at) < look.age() {
		look.mu.Lock()
		defer look.mu.Unlock()
		look.used[key], look.by = known.secret.ResourceVersion, r
		known.secret.DeepCopyInto(s)
		return nil
	}
	err := r.Client.Get(ctx, key, s, opts...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep()
	delete(r.secrets, key)
	if err == nil && writes == r.writes && s.Labels[cluster.LabelManagedBy] == cluster.ManagedBy {
		r.secrets[key] = cachedSecret{s.DeepCopy(), r.now()}
	}
	return err
}

// sweep forgets what nobody asks for any more.
func (r *secretCache) sweep() {
	if r.now().Sub(r.swept) < SecretsExpireAfter {
		return
	}
	r.swept = r.now()
	for key, known := range r.secrets {
		if r.now().Sub(known.at) >= SecretsExpireAfter {
			delete(r.secrets, key)
		}
	}
}

// forget forgets a Secret that may be another one by now, whatever came of the write.
func (r *secretCache) forget(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	delete(r.secrets, key)
}

func (r *secretCache) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	clear(r.secrets)
}

// Create makes an object. Nothing of ours may update or delete Secrets.
func (r *secretCache) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	defer r.written(o)
	return r.Client.Create(ctx, o, opts...)
}

// Patch writes a part of an object.
func (r *secretCache) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	defer r.written(o)
	return r.Client.Patch(ctx, o, p, opts...)
}

// Apply writes what is wanted of an object.
func (r *secretCache) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if s, ok := o.(*corev1ac.SecretApplyConfiguration); ok && s.Name != nil && s.Namespace != nil {
		defer r.forget(client.ObjectKey{Namespace: *s.Namespace, Name: *s.Name})
	}
	return r.Client.Apply(ctx, o, opts...)
}

func (r *secretCache) written(o client.Object) {
	if s, ok := o.(*corev1.Secret); ok {
		r.forget(client.ObjectKeyFromObject(s))
	}
}
