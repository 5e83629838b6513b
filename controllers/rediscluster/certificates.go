package rediscluster

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// certificates are what a cluster needs.
func (k *Reconciler) certificates(o *v1alpha1.RedisCluster, inUse bool, doors []model.Door) owned.Certificates {
	return owned.Certificates{
		Spec: o.Spec.TLS, Labels: manifests.Labels(o), Leafs: k.leafs(o, doors), Hosts: k.hosts(o), InUse: inUse,
		PerBundle: cluster.ServerTLSSecret(o.Name),
		// Every certificate of this authority opens the cluster bus. Authorities of the other name, which
		// builds before the first release made, have signed certificates of clients too.
		Authority: o.Namespace + "/" + o.Name + " servers",
		Followers: func(ctx context.Context) ([]string, error) { return k.userSecrets(ctx, o) },
		Servers: func(ctx context.Context, fingerprint string) (owned.Servers, error) {
			return k.trusting(ctx, o, fingerprint)
		},
	}
}

// userSecrets are the names of those that users of a cluster connect with.
func (k *Reconciler) userSecrets(ctx context.Context, o *v1alpha1.RedisCluster) ([]string, error) {
	list, err := k.Users(ctx, o.Namespace, o.Name)
	var out []string
	for i := range list {
		if list[i].DeletionTimestamp == nil {
			out = append(out, cluster.RedisUserSecret(list[i].Name))
		}
	}
	return out, err
}

// RenewWhilePaused renews leafs, also that of the clients.
func (k *Reconciler) RenewWhilePaused(ctx context.Context, o *v1alpha1.RedisCluster) error {
	inUse, err := k.started(ctx, o)
	if err != nil {
		return err
	}
	doors, err := k.ExternalEndpoints(ctx, o)
	if err != nil {
		return err
	}
	want := k.certificates(o, inUse, doors)
	want.RenewOnly = true
	if err := k.EnsureCertificates(ctx, o, want); err != nil {
		return err
	}
	live, err := k.OwnSecret(ctx, o, cluster.ConnectionSecret(o.Name))
	if live == nil || err != nil {
		return err
	}
	return k.ensureConnection(ctx, o, map[string]string{acl.PasswordDefault: string(live.Data[owned.PasswordKey])}, doors)
}

// Renewal has servers read their certificate anew, which they do not do by themselves.
func (k *Reconciler) Renewal(s model.State) cluster.Plan { return planner.Renewal(s) }

// certificateSum tells the authorities and the certificate in the Secret that the servers mount, empty without TLS or before
// there is one. A Secret that was taken from under the servers is no reason to restart them.
func (k *Reconciler) certificateSum(ctx context.Context, o *v1alpha1.RedisCluster) (string, error) {
	ca, pair, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		return "", owned.CertificateError{Err: err}
	}
	if len(pair.Cert) > 0 {
		return clustertls.Fingerprint(ca) + "-" + clustertls.Fingerprint(pair.Cert), nil
	}
	if o.Spec.TLS.TLSMode() == v1alpha1.TLSDisabled {
		return "", nil
	}
	started, err := k.started(ctx, o)
	if err == nil && started {
		err = owned.CertificateError{Err: cluster.Hold{Reason: v1alpha1.ReasonReconcileError, Message: fmt.Sprintf(
			"Secret %s is gone, and is written anew", owned.TLSSecret(o.Spec.TLS, cluster.ServerTLSSecret(o.Name)))}}
	}
	return "", err
}

// Authorities returns the bundle that clients verify servers with, nil without TLS.
func (k *Reconciler) Authorities(ctx context.Context, o *v1alpha1.RedisCluster) ([]byte, error) {
	ca, _, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		return nil, owned.CertificateError{Err: err}
	}
	return ca, nil
}

// certificate is the fingerprint of the one that servers are to show, empty without TLS.
func (k *Reconciler) certificate(ctx context.Context, o *v1alpha1.RedisCluster) (string, error) {
	_, pair, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		return "", owned.CertificateError{Err: err}
	}
	return clustertls.LeafFingerprint(pair.Cert), nil
}

// proven tells whether a server that shows the certificate in its Secret trusts the authorities in it: those of the operator
// come with another certificate, those of others may come by themselves.
func proven(o *v1alpha1.RedisCluster) bool { return o.Spec.TLS.TLSMode() == v1alpha1.TLSManaged }

// trusting tells whether every server is ready, trusts the authorities of a fingerprint, and shows the certificate that is in
// its Secret now.
func (k *Reconciler) trusting(ctx context.Context, o *v1alpha1.RedisCluster, fingerprint string) (owned.Servers, error) {
	ca, _, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil || clustertls.Fingerprint(ca) != fingerprint {
		return owned.Servers{}, err
	}
	owned.EnsureAgain(ctx)
	s, err := k.Read(ctx, o)
	if err != nil {
		return owned.Servers{}, err
	}
	out := owned.Servers{InForce: len(s.Pods) >= o.Spec.ShardCount()*(1+o.Spec.Replicas())}
	for i := range s.Pods {
		p := &s.Pods[i]
		out.InForce = out.InForce && p.Ready && !p.Deleting && !p.Outdated && p.Node != nil && p.Node.Certificate == s.Spec.Certificate
		if p.Since.After(out.Calm) {
			out.Calm = p.Since
		}
	}
	return out, nil
}
