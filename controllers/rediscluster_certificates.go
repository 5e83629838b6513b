package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// certificates are what a cluster needs.
func (k *RedisKind) certificates(o *v1alpha1.RedisCluster, inUse bool) Certificates {
	return Certificates{
		Spec: o.Spec.TLS, Labels: redis.Labels(o), Leafs: k.leafs(o), Hosts: k.hosts(o), InUse: inUse,
		Servers: func(ctx context.Context, fingerprint string) (Servers, error) { return k.trusting(ctx, o, fingerprint) },
	}
}

// Upkeep renews leafs, also that of the clients.
func (k *RedisKind) Upkeep(ctx context.Context, o *v1alpha1.RedisCluster) error {
	inUse, err := k.started(ctx, o)
	if err != nil {
		return err
	}
	want := k.certificates(o, inUse)
	want.RenewOnly = true
	if err := k.EnsureCertificates(ctx, o, want); err != nil {
		return err
	}
	live, err := k.ownSecret(ctx, o, cluster.ConnectionSecret(o.Name))
	if live == nil || err != nil {
		return err
	}
	return k.ensureConnection(ctx, o, map[string]string{redis.PasswordDefault: string(live.Data[PasswordKey])})
}

// certificateSum is the fingerprint of all certificates in the Secret that the servers mount, empty without TLS or before
// there is one. A Secret that was taken from under the servers is no reason to restart them.
func (k *RedisKind) certificateSum(ctx context.Context, o *v1alpha1.RedisCluster) (string, error) {
	ca, pair, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		return "", certificateError{err}
	}
	sum := clustertls.Fingerprint(slices.Concat(ca, pair.Cert))
	if sum != "" || o.Spec.TLS.TLSMode() == v1alpha1.TLSDisabled {
		return sum, nil
	}
	started, err := k.started(ctx, o)
	if err == nil && started {
		err = certificateError{cluster.Hold{Reason: v1alpha1.ReasonReconcileError, Message: fmt.Sprintf(
			"Secret %s is gone, and is written anew", TLSSecret(o.Spec.TLS, cluster.ServerTLSSecret(o.Name)))}}
	}
	return "", err
}

// trusting tells whether every server is ready and was started with the authorities of a fingerprint, and with the
// certificate that is in its Secret now.
func (k *RedisKind) trusting(ctx context.Context, o *v1alpha1.RedisCluster, fingerprint string) (Servers, error) {
	ca, _, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil || clustertls.Fingerprint(ca) != fingerprint {
		return Servers{}, err
	}
	sum, err := k.certificateSum(ctx, o)
	if err != nil {
		return Servers{}, err
	}
	var pods corev1.PodList
	if err := k.List(ctx, &pods, client.InNamespace(o.Namespace), client.MatchingLabels(redis.Selector(o))); err != nil {
		return Servers{}, fmt.Errorf("list pods: %w", err)
	}
	wanted := int(o.Spec.Shards) * (1 + o.Spec.Replicas())
	return startedWith(pods.Items, wanted, redis.AnnotationCertificates, sum), nil
}
