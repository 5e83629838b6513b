package dbuser

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

// Finalizers are part of the resource itself.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdusers,verbs=patch

// Act carries out one step of the planner.
func (k *EtcdReconciler) Act(ctx context.Context, o *v1alpha1.EtcdUser, step cluster.Step) error {
	switch step.(type) {
	case users.Protect:
		return k.PatchFinalizer(ctx, o, controllerutil.AddFinalizer)
	case users.Release:
		k.forget(o)
		return k.PatchFinalizer(ctx, o, controllerutil.RemoveFinalizer)
	}
	c, err := k.clusterOf(ctx, o)
	if err != nil {
		return err
	}
	if c == nil {
		return errors.New("the cluster is gone")
	}
	password, err := k.password(ctx, o)
	if err != nil && o.DeletionTimestamp == nil {
		return err
	}
	if _, ok := step.(users.Publish); ok {
		return k.publish(ctx, o, c, password)
	}
	return k.ask(ctx, c, func(ctx context.Context, m users.Client) error { return carryOut(ctx, m, step, password) })
}

func (k *EtcdReconciler) publish(ctx context.Context, o *v1alpha1.EtcdUser, c *v1alpha1.EtcdCluster, password string) error {
	data, err := k.connection(ctx, o, c, password)
	if err != nil {
		return err
	}
	return k.EnsureSecret(ctx, o, owned.Secret{Name: cluster.UserSecret(o.Name), Type: etcdcluster.BindingType, Labels: userLabels(o), Data: data})
}

// carryOut makes the calls of a step to a member. A call that an earlier attempt has made already is no error.
func carryOut(ctx context.Context, m users.Client, step cluster.Step, password string) error {
	switch step := step.(type) {
	case users.AddRole:
		return m.AddRole(ctx, step.Role)
	case users.DeleteRole:
		return m.DeleteRole(ctx, step.Role)
	case users.SetPermissions:
		return setPermissions(ctx, m, step)
	case users.AddUser:
		return m.AddUser(ctx, step.User, password)
	case users.DeleteUser:
		return m.DeleteUser(ctx, step.User)
	case users.SetPassword:
		return m.SetPassword(ctx, step.User, password)
	case users.GrantRole:
		return m.GrantRole(ctx, step.User, step.Role)
	case users.RevokeRoles:
		return revokeRoles(ctx, m, step)
	}
	return fmt.Errorf("there is no such step as %T", step)
}

func setPermissions(ctx context.Context, m users.Client, step users.SetPermissions) error {
	for _, c := range step.Changes {
		call := m.Grant
		if c.Revoke {
			call = m.Revoke
		}
		if err := call(ctx, step.Role, c.Permission); err != nil {
			return err
		}
	}
	return nil
}

func revokeRoles(ctx context.Context, m users.Client, step users.RevokeRoles) error {
	for _, role := range step.Roles {
		if err := m.RevokeRole(ctx, step.User, role); err != nil {
			return err
		}
	}
	return nil
}
