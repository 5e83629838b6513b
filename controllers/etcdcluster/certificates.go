package etcdcluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// certificates are what a cluster needs.
func (k *Reconciler) certificates(o *v1alpha1.EtcdCluster, b manifests.Builder) owned.Certificates {
	return owned.Certificates{
		Spec: b.Cluster.Spec.TLS, Labels: manifests.Labels(o.Name), Leafs: manifests.Leafs(o.Name, o.Namespace, b.Domain), Hosts: b.Hosts(),
		Clients: cluster.ClientTLSSecret(o.Name), Authority: o.Namespace + "/" + o.Name,
		InUse:     b.Record.ClusterID != 0 && b.Reach().UsesTLS(),
		Followers: func(ctx context.Context) ([]string, error) { return k.userSecrets(ctx, o) },
		Servers: func(ctx context.Context, fingerprint string) (owned.Servers, error) {
			return k.trusting(ctx, o, b.Record, fingerprint)
		},
	}
}

// userSecrets are the names of those that users of a cluster connect with.
func (k *Reconciler) userSecrets(ctx context.Context, o *v1alpha1.EtcdCluster) ([]string, error) {
	var list v1alpha1.EtcdUserList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), owned.OfCluster{Kind: v1alpha1.KindEtcdCluster, Name: o.Name}); err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	var out []string
	for i := range list.Items {
		if u := &list.Items[i]; u.Spec.ClusterName == o.Name && u.DeletionTimestamp == nil {
			out = append(out, cluster.UserSecret(u.Name))
		}
	}
	return out, nil
}

// RenewWhilePaused renews leafs, also that of the clients.
func (k *Reconciler) RenewWhilePaused(ctx context.Context, o *v1alpha1.EtcdCluster) error {
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return err
	}
	want := k.certificates(o, b)
	want.RenewOnly = true
	if err := k.EnsureCertificates(ctx, o, want); err != nil {
		return err
	}
	live, err := k.OwnSecret(ctx, o, cluster.ConnectionSecret(o.Name))
	if live == nil || err != nil {
		return err
	}
	return k.ensureConnection(ctx, o, b, string(live.Data[owned.PasswordKey]))
}

// trusting tells whether every member is ready and was started with the authorities of a fingerprint: its pod was made
// from a template that carries it, and what a template speaks of was written before. So will be those of a cluster that
// hibernates, when it wakes up.
func (k *Reconciler) trusting(ctx context.Context, o *v1alpha1.EtcdCluster, record model.Record, fingerprint string) (owned.Servers, error) {
	set, err := k.StatefulSet(ctx, o)
	if err != nil {
		return owned.Servers{}, err
	}
	pods, err := k.Pods(ctx, o, set)
	if err == nil && record.Hibernated && len(pods) == 0 {
		return owned.Servers{InForce: true}, nil
	}
	return owned.StartedWith(pods, len(record.Members), manifests.AnnotationTrust, fingerprint), err
}

// trustSum is the fingerprint of the authorities in the Secret that the members mount, empty without TLS or before there
// is one.
func (k *Reconciler) trustSum(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder) (string, error) {
	if !b.Reach().UsesTLS() {
		return "", nil
	}
	ca, _, err := k.Keypair(ctx, o, b.Cluster.Spec.TLS, cluster.PeerTLSSecret(o.Name))
	if err != nil {
		return "", owned.CertificateError{Err: err}
	}
	return clustertls.Fingerprint(ca), nil
}

// observeCertificates completes a blueprint with the authorities that members are to trust, and reports on the
// certificates. A Secret that was taken from under the members is no reason to restart them.
func (k *Reconciler) observeCertificates(
	ctx context.Context, o *v1alpha1.EtcdCluster, b *manifests.Builder, set *appsv1.StatefulSet,
) (r clustertls.Report, err error) {
	if b.TrustSum, err = k.trustSum(ctx, o, *b); err != nil {
		return r, err
	}
	if b.TrustSum == "" && b.PeerSecret != "" && set != nil {
		return r, owned.CertificateError{Err: cluster.Hold{
			Reason: v1alpha1.ReasonReconcileError, Message: fmt.Sprintf("Secret %s is gone, and is written anew", b.PeerSecret),
		}}
	}
	if r, err = k.CertificateReport(ctx, o, b.Cluster.Spec.TLS, manifests.Leafs(o.Name, o.Namespace, b.Domain)); err != nil {
		return r, owned.CertificateError{Err: err}
	}
	if b.Reach().UsesTLS() && !model.CapabilitiesOf(b.Version).RestrictsPeers {
		r.Exposed = unrestrictedPeers(b.Version)
	}
	return r, nil
}

func unrestrictedPeers(v model.Version) string {
	return fmt.Sprintf("spec.version: with etcd %s, certificates of clients open the peer port, which asks for no password: "+
		"use 3.5.14 or later", v)
}
