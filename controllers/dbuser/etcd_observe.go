package dbuser

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

// Observe reads what is known of a user: its cluster and rivals from the cache, its Secrets from the API server, or from
// memory for a minute, and what etcd has from etcd.
func (k *EtcdReconciler) Observe(ctx context.Context, o *v1alpha1.EtcdUser) (users.State, error) {
	s := users.State{
		Want:      wantUser(o),
		Deleting:  o.DeletionTimestamp != nil,
		Protected: controllerutil.ContainsFinalizer(o, v1alpha1.Finalizer),
	}
	c, err := k.clusterOf(ctx, o)
	if c == nil || err != nil {
		return s, err
	}
	s.Cluster = &users.Cluster{
		Leaving: c.DeletionTimestamp != nil, Paused: c.IsPaused(), Hibernated: c.IsHibernated(),
		Auth: c.Spec.Auth.AuthMode() == v1alpha1.AuthPassword,
	}
	if s.Cluster.Open, err = k.etcd.ServesClients(ctx, c); err != nil {
		return s, err
	}
	if s.Rival, err = k.rival(ctx, o); err != nil {
		return s, err
	}
	if s.Cluster.Leaving || (!s.Cluster.Open && !s.Deleting) {
		return s, nil
	}
	return s, k.observeUser(ctx, o, c, &s)
}

// observeUser reads Secrets and etcd. A user on its way out needs no Secret: without the password, one that etcd does not
// show to be ours is left there.
func (k *EtcdReconciler) observeUser(ctx context.Context, o *v1alpha1.EtcdUser, c *v1alpha1.EtcdCluster, s *users.State) error {
	password, err := k.password(ctx, o)
	if err == nil && !s.Deleting {
		s.Published, err = k.published(ctx, o, c, password)
	}
	if err != nil && !s.Deleting {
		return err
	}
	s.Unreachable = k.ask(ctx, c, func(ctx context.Context, m users.Client) error {
		s.Etcd, err = k.look(ctx, o, m, s.Want, password)
		return err
	})
	return nil
}

func wantUser(o *v1alpha1.EtcdUser) users.Want {
	return users.Want{
		Name: o.Name, ClusterName: o.Spec.ClusterName, Username: o.Username(),
		Permissions: users.Permissions(o.Spec.Permissions), Generated: o.Spec.PasswordSecret == nil,
	}
}

// rival finds the oldest resource for the same user that is older than this one.
func (k *EtcdReconciler) rival(ctx context.Context, o *v1alpha1.EtcdUser) (*users.Rival, error) {
	var list v1alpha1.EtcdUserList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), owned.OfCluster{Kind: v1alpha1.KindEtcdCluster, Name: o.Spec.ClusterName}); err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	eldest := o
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.ClusterName == o.Spec.ClusterName && other.Username() == o.Username() && older(other, eldest) {
			eldest = other
		}
	}
	if eldest.UID == o.UID {
		return nil, nil
	}
	return &users.Rival{Name: eldest.Name, Leaving: eldest.DeletionTimestamp != nil}, nil
}

// older goes by the time of creation, which has seconds only, and then by name.
func older(a, b *v1alpha1.EtcdUser) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// ask puts a call to the ready members of a cluster, one after the other until one answers.
func (k *EtcdReconciler) ask(ctx context.Context, c *v1alpha1.EtcdCluster, call func(context.Context, users.Client) error) error {
	set, err := k.etcd.StatefulSet(ctx, c)
	if err != nil {
		return err
	}
	pods, err := k.etcd.Pods(ctx, c, set)
	if err != nil {
		return err
	}
	access, err := k.etcd.Credentials(ctx, c)
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods {
		if !etcdcluster.Running(&pods[i]) || !owned.PodReady(&pods[i]) {
			continue
		}
		err := within(ctx, func(ctx context.Context) error { return call(ctx, k.etcd.MemberClientOf(ctx, c, access, &pods[i])) })
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", pods[i].Name, err))
	}
	if len(errs) == 0 {
		return errors.New("no member is ready")
	}
	return errors.Join(errs...)
}

// within bounds a call that goes to etcd.
func within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, etcdcluster.ActTimeout, errors.New("it did not answer in time"))
	defer cancel()
	return call(ctx)
}

// look reads what etcd has of a user. It costs one question as long as nobody has changed any user or role.
func (k *EtcdReconciler) look(
	ctx context.Context, o *v1alpha1.EtcdUser, m users.Client, want users.Want, password string,
) (*users.Etcd, error) {
	store, err := m.Store(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(password))
	if known := k.known(o); known.store == store && known.password == sum {
		return &known.etcd, nil
	}
	found, err := read(ctx, m, store, want, password)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[o.UID] = seen{store: store, password: sum, etcd: *found}
	return found, nil
}

func (k *EtcdReconciler) known(o *v1alpha1.EtcdUser) seen {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen[o.UID]
}

func (k *EtcdReconciler) forget(o *v1alpha1.EtcdUser) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.seen, o.UID)
}

func read(ctx context.Context, m users.Client, store users.Store, want users.Want, password string) (*users.Etcd, error) {
	out := &users.Etcd{Enabled: store.Enabled}
	permissions, found, err := m.Role(ctx, want.Role())
	if err != nil {
		return nil, err
	}
	if found {
		out.Role = &users.Role{Permissions: permissions}
	}
	roles, found, err := m.User(ctx, want.Username)
	if err != nil || !found {
		return out, err
	}
	out.User = &users.User{Roles: roles}
	if store.Enabled && password != "" {
		out.User.Password, err = m.CheckPassword(ctx, want.Username, password)
	}
	return out, err
}
