package dbuser

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/internal/cluster/redis/users"
)

// What is worked on; patched for the finalizer that has the user removed first.
// +kubebuilder:rbac:groups=quorate.dev,resources=redisusers,verbs=list;watch;patch
// What became of it.
// +kubebuilder:rbac:groups=quorate.dev,resources=redisusers/status,verbs=patch
// Its Secrets go with it, and block its deletion until they have.
// +kubebuilder:rbac:groups=quorate.dev,resources=redisusers/finalizers,verbs=update

// RedisReconciler looks after the users of Redis and Valkey clusters.
type RedisReconciler struct {
	*owned.Client
	redis *rediscluster.Reconciler
}

var _ reconcile.Kind[*v1alpha1.RedisUser, users.State] = (*RedisReconciler)(nil)

// NewRedis returns what the loop needs to look after users. Servers are reached the way their clusters reach them.
func NewRedis(c *owned.Client, k *rediscluster.Reconciler) *RedisReconciler {
	return &RedisReconciler{c, k}
}

// SetupRedis registers the controller of users. It looks again when anything changes about their cluster.
func SetupRedis(mgr ctrl.Manager, o reconcile.Options, kind *RedisReconciler) error {
	return reconcile.Register(mgr, o.For(v1alpha1.ComponentRedisUser, func(b *builder.Builder) {
		b.Watches(&v1alpha1.RedisCluster{}, handler.EnqueueRequestsFromMapFunc(kind.usersOf))
	}), &v1alpha1.RedisUser{}, kind)
}

// usersOf maps a cluster to the resources of its users.
func (k *RedisReconciler) usersOf(ctx context.Context, c client.Object) []ctrl.Request {
	list, err := k.redis.Users(ctx, c.GetNamespace(), c.GetName())
	if err != nil {
		return nil // The cache has no errors but the end of the manager; and every user is looked at from time to time.
	}
	var out []ctrl.Request
	for i := range list {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list[i])})
	}
	return out
}

// Ensure makes the Secret with the generated password, unless the user brings one, and has the one that is connected with follow the certificates.
func (k *RedisReconciler) Ensure(ctx context.Context, o *v1alpha1.RedisUser) error {
	return errors.Join(k.ensurePassword(ctx, o), k.renew(ctx, o))
}

// renew brings the authorities of the cluster into the Secret of the user.
func (k *RedisReconciler) renew(ctx context.Context, o *v1alpha1.RedisUser) error {
	c, err := k.clusterOf(ctx, o)
	if c == nil || err != nil {
		return err
	}
	ca, err := k.redis.Authorities(ctx, c)
	if err != nil {
		return err
	}
	return k.RenewSecret(ctx, o, cluster.RedisUserSecret(o.Name), redisUserLabels(o), map[string][]byte{owned.CAKey: ca})
}

func (k *RedisReconciler) ensurePassword(ctx context.Context, o *v1alpha1.RedisUser) error {
	if o.Spec.PasswordSecret != nil {
		return nil
	}
	name := cluster.RedisUserPasswordSecret(o.Name)
	live, err := k.OwnSecret(ctx, o, name)
	if err != nil || (live != nil && len(live.Data[owned.PasswordKey]) > 0) {
		return err
	}
	return k.EnsureSecret(ctx, o, owned.Secret{
		Name: name, Type: corev1.SecretTypeOpaque, Labels: redisUserLabels(o), Data: map[string][]byte{owned.PasswordKey: []byte(rand.Text())},
	})
}

func redisUserLabels(o *v1alpha1.RedisUser) map[string]string {
	return cluster.Labels(o.Spec.ClusterName, v1alpha1.ComponentRedisUser, "redis")
}

// password reads the wanted password, from the Secret of the user where the specification names one.
func (k *RedisReconciler) password(ctx context.Context, o *v1alpha1.RedisUser) (string, error) {
	ref := o.Spec.PasswordSecret
	if ref == nil {
		return k.GeneratedPassword(ctx, o, cluster.RedisUserPasswordSecret(o.Name))
	}
	s, err := k.UserSecret(ctx, o, "spec.passwordSecret.name", ref.Name, owned.PasswordKey)
	return owned.PasswordsIn(s)[owned.PasswordKey], err
}

// RequestForCluster reads the cluster of a user, nil when there is none.
func (k *RedisReconciler) clusterOf(ctx context.Context, o *v1alpha1.RedisUser) (*v1alpha1.RedisCluster, error) {
	c := &v1alpha1.RedisCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Spec.ClusterName}, c)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read RedisCluster %s: %w", o.Spec.ClusterName, err)
	}
	return c, nil
}

// Observe reads what is known of a user: its cluster and rivals from the cache, its Secrets from the API server, or from
// memory for a minute, and the users of the servers from these.
func (k *RedisReconciler) Observe(ctx context.Context, o *v1alpha1.RedisUser) (users.State, error) {
	s := users.State{
		Name: o.Name, Username: o.Username(), ClusterName: o.Spec.ClusterName,
		Deleting: o.DeletionTimestamp != nil, Protected: controllerutil.ContainsFinalizer(o, v1alpha1.Finalizer),
	}
	c, err := k.clusterOf(ctx, o)
	if c == nil || err != nil {
		return s, err
	}
	s.Cluster = &users.Cluster{
		Leaving: c.DeletionTimestamp != nil, Paused: c.IsPaused(), Auth: c.Spec.Auth.AuthMode() == v1alpha1.AuthPassword,
		Copies: c.Spec.ShardCount() * (1 + c.Spec.Replicas()),
	}
	if s.Rival, err = k.rival(ctx, o); err != nil {
		return s, err
	}
	if s.Cluster.Leaving || !s.Cluster.Auth {
		return s, nil
	}
	servers, err := k.redis.Read(ctx, c)
	if err != nil {
		return s, err
	}
	s.Cluster.Pods = servers.Pods
	if s.Deleting {
		return s, nil // It needs no Secret: what was made for it carries its name.
	}
	password, err := k.password(ctx, o)
	if err != nil {
		return s, err
	}
	s.Want = acl.Account(o, password)
	s.Published, err = k.published(ctx, o, c, password)
	return s, err
}

// rival finds the oldest resource for the same user that is older than this one.
func (k *RedisReconciler) rival(ctx context.Context, o *v1alpha1.RedisUser) (*users.Rival, error) {
	list, err := k.redis.Users(ctx, o.Namespace, o.Spec.ClusterName)
	if err != nil {
		return nil, err
	}
	eldest := o
	for i := range list {
		if other := &list[i]; other.Username() == o.Username() && olderRedisUser(other, eldest) {
			eldest = other
		}
	}
	if eldest.UID == o.UID {
		return nil, nil
	}
	return &users.Rival{Name: eldest.Name, Leaving: eldest.DeletionTimestamp != nil}, nil
}

// olderRedisUser goes by the time of creation, which has seconds only, and then by name.
func olderRedisUser(a, b *v1alpha1.RedisUser) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// connection is what the Secret of a user says: that of the cluster, but for who connects.
func (k *RedisReconciler) connection(
	ctx context.Context, o *v1alpha1.RedisUser, c *v1alpha1.RedisCluster, password string,
) (map[string][]byte, error) {
	ca, err := k.redis.Authorities(ctx, c)
	if err != nil {
		return nil, err
	}
	doors, err := k.redis.ExternalEndpoints(ctx, c)
	if err != nil {
		return nil, err
	}
	return manifests.Connection(c, manifests.Login{Domain: k.Domain, Username: o.Username(), Password: password, CA: ca, Doors: doors}), nil
}

// published reports whether the connection Secret says what it should.
func (k *RedisReconciler) published(ctx context.Context, o *v1alpha1.RedisUser, c *v1alpha1.RedisCluster, password string) (bool, error) {
	live, err := k.OwnSecret(ctx, o, cluster.RedisUserSecret(o.Name))
	if live == nil || err != nil {
		return false, err
	}
	want, err := k.connection(ctx, o, c, password)
	return err == nil && owned.DataHolds(live.Data, want) && !owned.HasStaleKeys(live, want), err
}

// Next decides what to do.
func (k *RedisReconciler) Next(s users.State) cluster.Plan { return users.Next(s) }

// Act carries out one step of the planner.
func (k *RedisReconciler) Act(ctx context.Context, o *v1alpha1.RedisUser, step cluster.Step) error {
	switch step.(type) {
	case users.Protect:
		return k.PatchFinalizer(ctx, o, controllerutil.AddFinalizer)
	case users.Release:
		return k.PatchFinalizer(ctx, o, controllerutil.RemoveFinalizer)
	}
	c, err := k.clusterOf(ctx, o)
	if err != nil {
		return err
	}
	if c == nil {
		return errors.New("the cluster is gone")
	}
	if s, ok := step.(steps.ServerStep); ok {
		return unknownCommand(k.redis.Command(ctx, c, s.Calls()))
	}
	password, err := k.password(ctx, o)
	if err != nil {
		return err
	}
	data, err := k.connection(ctx, o, c, password)
	if err != nil {
		return err
	}
	return k.EnsureSecret(ctx, o, owned.Secret{Name: cluster.RedisUserSecret(o.Name), Type: rediscluster.BindingType, Labels: redisUserLabels(o), Data: data})
}

// unknownCommand tells of a command that servers do not know, which only a human can correct.
func unknownCommand(err error) error {
	if err != nil && strings.Contains(err.Error(), "Unknown command or category name") {
		return owned.InvalidSpec("spec.commands and spec.categories: a server of this version does not know all of them: %v", err)
	}
	return err
}

// Report fills in the status.
func (k *RedisReconciler) Report(o *v1alpha1.RedisUser, s users.State, p cluster.Plan, err error) {
	st := &o.Status
	st.ObservedGeneration = o.Generation
	st.Username = o.Username()
	st.Activity = cluster.Activity(p, err)
	if s.Published {
		st.SecretName = cluster.RedisUserSecret(o.Name)
	}
	conditions.Set(&st.Conditions, k.Now(), o.Generation, users.Conditions(p, err)...)
}

// RenewWhilePaused does nothing: users cannot be paused.
func (k *RedisReconciler) RenewWhilePaused(context.Context, *v1alpha1.RedisUser) error { return nil }
