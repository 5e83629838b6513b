package dbuser

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// What is worked on.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdusers,verbs=list;watch
// What became of it.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdusers/status,verbs=patch
// Its Secrets go with it, and block its deletion until they have.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdusers/finalizers,verbs=update

// EtcdReconciler looks after the users of etcd clusters.
type EtcdReconciler struct {
	*owned.Client
	etcd *etcdcluster.Reconciler

	mu   sync.Mutex
	seen map[types.UID]seen
}

// seen remembers what a cluster knew of a user, and when that was.
type seen struct {
	store    users.Store
	password [sha256.Size]byte
	etcd     users.Etcd
}

var _ reconcile.Kind[*v1alpha1.EtcdUser, users.State] = (*EtcdReconciler)(nil)

// NewEtcd returns what the loop needs to look after users. They are reached the way their clusters are.
func NewEtcd(c *owned.Client, k *etcdcluster.Reconciler) *EtcdReconciler {
	return &EtcdReconciler{Client: c, etcd: k, seen: map[types.UID]seen{}}
}

// SetupEtcd registers the controller of users. It looks again when anything changes about their cluster.
func SetupEtcd(mgr ctrl.Manager, o reconcile.Options, kind *EtcdReconciler) error {
	return reconcile.Register(mgr, o.For(v1alpha1.ComponentEtcdUser, func(b *builder.Builder) {
		b.Watches(&v1alpha1.EtcdCluster{}, handler.EnqueueRequestsFromMapFunc(kind.usersOf))
	}), &v1alpha1.EtcdUser{}, kind)
}

// usersOf maps a cluster to the resources of its users.
func (k *EtcdReconciler) usersOf(ctx context.Context, c client.Object) []ctrl.Request {
	var list v1alpha1.EtcdUserList
	if err := k.List(ctx, &list, client.InNamespace(c.GetNamespace()), owned.OfCluster{Kind: v1alpha1.KindEtcdCluster, Name: c.GetName()}); err != nil {
		return nil // The cache has no errors but the end of the manager; and every user is looked at from time to time.
	}
	var out []ctrl.Request
	for i := range list.Items {
		if list.Items[i].Spec.ClusterName == c.GetName() {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// Ensure makes the Secret with the generated password, unless the user brings one, and has the one that is connected with follow the certificates.
func (k *EtcdReconciler) Ensure(ctx context.Context, o *v1alpha1.EtcdUser) error {
	return errors.Join(k.ensurePassword(ctx, o), k.renew(ctx, o))
}

// renew hands renewed certificates on to whoever connects as the user.
func (k *EtcdReconciler) renew(ctx context.Context, o *v1alpha1.EtcdUser) error {
	c, err := k.clusterOf(ctx, o)
	if c == nil || err != nil {
		return err
	}
	_, ca, pair, err := k.keypair(ctx, c)
	if err != nil {
		return err
	}
	return k.RenewSecret(ctx, o, cluster.UserSecret(o.Name), userLabels(o), owned.LeafData(ca, pair))
}

func (k *EtcdReconciler) ensurePassword(ctx context.Context, o *v1alpha1.EtcdUser) error {
	if o.Spec.PasswordSecret != nil {
		return nil
	}
	name := cluster.UserPasswordSecret(o.Name)
	live, err := k.OwnSecret(ctx, o, name)
	if err != nil || (live != nil && len(live.Data[owned.PasswordKey]) > 0) {
		return err
	}
	return k.EnsureSecret(ctx, o, owned.Secret{
		Name: name, Type: corev1.SecretTypeOpaque, Labels: userLabels(o), Data: map[string][]byte{owned.PasswordKey: []byte(rand.Text())},
	})
}

func userLabels(o *v1alpha1.EtcdUser) map[string]string {
	return cluster.Labels(o.Spec.ClusterName, v1alpha1.ComponentEtcdUser, "etcd")
}

// password reads the wanted password, from the Secret of the user where the specification names one.
func (k *EtcdReconciler) password(ctx context.Context, o *v1alpha1.EtcdUser) (string, error) {
	if ref := o.Spec.PasswordSecret; ref != nil {
		const field = "spec.passwordSecret.name"
		s, err := k.UserSecret(ctx, o, field, ref.Name, owned.PasswordKey)
		if err != nil {
			return "", err
		}
		if flaw := etcdcluster.PasswordFlaw(string(s.Data[owned.PasswordKey])); flaw != "" {
			return "", owned.InvalidSpec("%s: the password in Secret %q %s", field, ref.Name, flaw)
		}
		return string(s.Data[owned.PasswordKey]), nil
	}
	return k.GeneratedPassword(ctx, o, cluster.UserPasswordSecret(o.Name))
}

// RequestForCluster reads the cluster of a user, nil when there is none.
func (k *EtcdReconciler) clusterOf(ctx context.Context, o *v1alpha1.EtcdUser) (*v1alpha1.EtcdCluster, error) {
	c := &v1alpha1.EtcdCluster{}
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Spec.ClusterName}, c)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read EtcdCluster %s: %w", o.Spec.ClusterName, err)
	}
	return c, nil
}

// keypair is what clients of a cluster connect with, and the record that says how; there is none without TLS.
func (k *EtcdReconciler) keypair(ctx context.Context, c *v1alpha1.EtcdCluster) (record model.Record, ca []byte, pair clustertls.Pair, err error) {
	if record, err = k.etcd.Record(ctx, c); err != nil {
		return record, nil, pair, err
	}
	reach, err := k.etcd.Transport(ctx, c, record)
	if err != nil {
		return record, nil, pair, err
	}
	ca, pair, err = k.etcd.UserKeypair(ctx, c, reach)
	return record, ca, pair, err
}

// connection is what the Secret of a user says: that of the cluster, but for who connects.
func (k *EtcdReconciler) connection(
	ctx context.Context, o *v1alpha1.EtcdUser, c *v1alpha1.EtcdCluster, password string,
) (map[string][]byte, error) {
	record, ca, pair, err := k.keypair(ctx, c)
	if err != nil {
		return nil, err
	}
	data := manifests.Builder{Cluster: c, Domain: k.etcd.DNSDomain(c, record)}.Connection(password, ca, pair)
	data["username"] = []byte(o.Username())
	return data, nil
}

// published reports whether the connection Secret says what it should.
func (k *EtcdReconciler) published(ctx context.Context, o *v1alpha1.EtcdUser, c *v1alpha1.EtcdCluster, password string) (bool, error) {
	live, err := k.OwnSecret(ctx, o, cluster.UserSecret(o.Name))
	if live == nil || err != nil {
		return false, err
	}
	want, err := k.connection(ctx, o, c, password)
	return err == nil && owned.DataHolds(live.Data, want), err
}

// Next decides what to do.
func (k *EtcdReconciler) Next(s users.State) cluster.Plan { return users.Next(s) }

// Report fills in the status.
func (k *EtcdReconciler) Report(o *v1alpha1.EtcdUser, s users.State, p cluster.Plan, err error) {
	st := &o.Status
	st.ObservedGeneration = o.Generation
	st.Username = o.Username()
	st.Activity = cluster.Activity(p, err)
	if s.Published {
		st.SecretName = cluster.UserSecret(o.Name)
	}
	conditions.Set(&st.Conditions, k.Now(), o.Generation, users.Conditions(p, err)...)
}

// RenewWhilePaused does nothing: users cannot be paused.
func (k *EtcdReconciler) RenewWhilePaused(context.Context, *v1alpha1.EtcdUser) error { return nil }
