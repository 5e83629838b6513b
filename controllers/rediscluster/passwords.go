package rediscluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// ensurePasswords returns the passwords that are given out. Those of running servers are replaced all together, when the
// user's changes or a generated one was deleted: the successors are written down here, and the planner goes on from there.
func (k *Reconciler) ensurePasswords(ctx context.Context, o *v1alpha1.RedisCluster, inUse bool) (map[string]string, error) {
	live, err := k.OwnSecret(ctx, o, cluster.AuthSecret(o.Name))
	if err != nil {
		return nil, err
	}
	given, err := k.givenPasswords(ctx, o, owned.PasswordsIn(live), inUse)
	if err != nil {
		return nil, err
	}
	return k.EnsurePasswords(ctx, o, live, owned.PasswordSecret{Keys: acl.PasswordKeys, Given: given, Labels: manifests.Labels(o)})
}

// givenPasswords are the passwords that are not to be generated.
func (k *Reconciler) givenPasswords(ctx context.Context, o *v1alpha1.RedisCluster, have map[string]string, inUse bool) (map[string]string, error) {
	users, err := k.UserPassword(ctx, o, o.Spec.Auth)
	if err != nil {
		return nil, err
	}
	switch current := have[acl.PasswordDefault]; {
	case !inUse && users != "":
		return map[string]string{acl.PasswordDefault: users}, nil
	case !inUse:
		return nil, nil
	case acl.Access{Passwords: have}.Replacing(): // What was begun is finished first.
		if current != "" {
			return nil, nil
		}
		return k.handedPassword(ctx, o)
	case current == "":
		return k.deletedPassword(ctx, o, have, users)
	case users != "" && users != current:
		return successors(have, users), nil
	}
	return nil, nil
}

// handedPassword is the one that clients were given, under its key.
func (k *Reconciler) handedPassword(ctx context.Context, o *v1alpha1.RedisCluster) (map[string]string, error) {
	live, err := k.OwnSecret(ctx, o, cluster.ConnectionSecret(o.Name))
	if live == nil || err != nil || len(live.Data[owned.PasswordKey]) == 0 {
		return nil, err
	}
	return map[string]string{acl.PasswordDefault: string(live.Data[owned.PasswordKey])}, nil
}

// deletedPassword is what a Secret of running servers gets without the password of their clients: the one that clients
// were given, and a successor.
func (k *Reconciler) deletedPassword(
	ctx context.Context, o *v1alpha1.RedisCluster, have map[string]string, users string,
) (map[string]string, error) {
	given, err := k.handedPassword(ctx, o)
	switch {
	case err != nil:
		return nil, err
	case given != nil:
		out := successors(have, users)
		maps.Copy(out, given)
		return out, nil
	case have[acl.PasswordOperator] == "":
		return nil, owned.InvalidSpec("Secret %s with the passwords of the running servers is gone: restore it, or delete the cluster and create it again",
			cluster.AuthSecret(o.Name))
	case users != "":
		return map[string]string{acl.PasswordDefault: users}, nil
	}
	return nil, nil
}

// successors are new passwords under all keys: that of the user, and generated ones.
func successors(have map[string]string, users string) map[string]string {
	next := map[string]string{}
	for _, key := range acl.PasswordKeys {
		if have[key] != "" || key == acl.PasswordDefault {
			next[key] = rand.Text()
		}
	}
	if users != "" {
		next[acl.PasswordDefault] = users
	}
	return acl.Introduce(nil, next)
}

// rotatePasswords takes the replacement of passwords one phase further, if the Secret is as it was read.
func (k *Reconciler) rotatePasswords(ctx context.Context, o *v1alpha1.RedisCluster, step steps.RotatePasswords) error {
	live, err := k.OwnSecret(ctx, o, cluster.AuthSecret(o.Name))
	if err != nil {
		return err
	}
	if live == nil {
		return errors.New("the passwords are gone")
	}
	have := map[string]string{}
	for key, value := range live.Data {
		have[key] = string(value)
	}
	want := step.Apply(have, k.Now())
	if maps.Equal(have, want) {
		return nil
	}
	next := live.DeepCopy()
	next.Data = map[string][]byte{}
	for key, value := range want {
		next.Data[key] = []byte(value)
	}
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	if err := k.Patch(ctx, next, patch, client.FieldOwner(cluster.ManagedBy)); err != nil {
		return fmt.Errorf("write Secret %s: %w", live.Name, err)
	}
	return nil
}

// handedOut reports whether the connection Secret holds the password that is to be given out.
func (k *Reconciler) handedOut(ctx context.Context, o *v1alpha1.RedisCluster, a *acl.Access) (bool, error) {
	if a.Open || !a.Replacing() {
		return true, nil
	}
	live, err := k.OwnSecret(ctx, o, cluster.ConnectionSecret(o.Name))
	return live != nil && string(live.Data[owned.PasswordKey]) == a.Passwords[acl.PasswordDefault], err
}

// logins are what the operator connects as to servers that let it work as a user, the best one first. A server that restarted in place long after its
// pod began may know earlier passwords only; and where the operator's own password was lost, the one of the clients opens
// the servers, which only those get that prove themselves with a certificate.
func logins(a acl.Access, user string, secure bool) []redisclient.Login {
	if user == acl.UserMigration {
		return []redisclient.Login{{Username: user, Password: a.Passwords[acl.PasswordMigration]}}
	}
	var out []redisclient.Login
	for _, p := range a.Works(acl.PasswordOperator) {
		out = append(out, redisclient.Login{Username: acl.UserOperator, Password: p})
	}
	if !secure {
		return out
	}
	for _, p := range a.Works(acl.PasswordDefault) {
		out = append(out, redisclient.Login{Username: acl.UserDefault, Password: p})
	}
	return out
}
