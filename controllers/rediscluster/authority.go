package rediscluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
)

// refuseExposed refuses to create a cluster whose bus certificates of others would open. A cluster with
// servers goes on; its condition TLSReady says what to change.
func (k *Reconciler) refuseExposed(ctx context.Context, o *v1alpha1.RedisCluster, inUse bool) error {
	if inUse {
		return nil
	}
	why, err := k.exposed(ctx, o)
	if why != "" {
		err = owned.InvalidSpec("%s", why)
	}
	if err != nil {
		return owned.CertificateError{Err: err}
	}
	return nil
}

// exposed says why certificates of others open the cluster bus, empty if none is known to. The bus accepts
// every certificate of its authority and asks for no password, so the authority must sign for the servers
// of one cluster only.
func (k *Reconciler) exposed(ctx context.Context, o *v1alpha1.RedisCluster) (string, error) {
	own := signer(o.Namespace, o.Spec.TLS)
	if own == "" || o.Spec.IsReplicated() {
		return "", nil
	}
	const risk = "the cluster bus accepts every certificate of its authority without a password"
	if o.Spec.TLS.TLSMode() == v1alpha1.TLSCertManager && owned.IssuerOf(o.Spec.TLS).Kind == "ClusterIssuer" {
		return fmt.Sprintf("spec.tls.issuerRef: %s signs for all namespaces, and %s: use an Issuer that signs for this cluster only", own, risk), nil
	}
	other, err := k.signedAlike(ctx, o, own)
	if other == "" || err != nil {
		return "", err
	}
	field, cure := "spec.tls.issuerRef", "use an Issuer with an authority of its own"
	if o.Spec.TLS.TLSMode() == v1alpha1.TLSProvided {
		field, cure = "spec.tls.secretName", "create the cluster with a Secret whose authority signs for this cluster only"
	}
	return fmt.Sprintf("%s: %s is also used by %s, and %s: %s", field, own, other, risk, cure), nil
}

// signedAlike returns another cluster whose certificates come from the same signer, empty if there is none.
func (k *Reconciler) signedAlike(ctx context.Context, o *v1alpha1.RedisCluster, own string) (string, error) {
	var redisClusters v1alpha1.RedisClusterList
	var etcdClusters v1alpha1.EtcdClusterList
	for _, list := range []client.ObjectList{&redisClusters, &etcdClusters} {
		if err := k.List(ctx, list, client.InNamespace(o.Namespace)); err != nil {
			return "", fmt.Errorf("list clusters: %w", err)
		}
	}
	for i := range redisClusters.Items {
		if r := &redisClusters.Items[i]; r.Name != o.Name && signer(r.Namespace, r.Spec.TLS) == own {
			return "RedisCluster " + r.Name, nil
		}
	}
	for i := range etcdClusters.Items {
		if e := &etcdClusters.Items[i]; signer(e.Namespace, e.Spec.TLS) == own {
			return "EtcdCluster " + e.Name, nil
		}
	}
	return "", nil
}

// signer identifies what the certificates of a cluster come from, empty if the operator signs or TLS is off.
func signer(namespace string, spec *v1alpha1.TLSSpec) string {
	switch spec.TLSMode() {
	case v1alpha1.TLSProvided:
		return fmt.Sprintf("Secret %s/%s", namespace, spec.Secret())
	case v1alpha1.TLSCertManager:
		i := owned.IssuerOf(spec)
		if i.Kind == "ClusterIssuer" {
			return "ClusterIssuer " + i.Name
		}
		return fmt.Sprintf("%s.%s %s/%s", i.Kind, i.Group, namespace, i.Name)
	}
	return ""
}
