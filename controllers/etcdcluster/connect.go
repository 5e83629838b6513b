package etcdcluster

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Credentials are what it takes to talk to the members of a cluster.
type Credentials struct {
	rootLogin
	tls         *tls.Config
	domain      string
	fingerprint [sha256.Size]byte
}

// Credentials reads certificates and password. They are nil and empty while they do not exist.
func (k *Reconciler) Credentials(ctx context.Context, o *v1alpha1.EtcdCluster) (Credentials, error) {
	login, err := k.rootLogin(ctx, o)
	if err != nil {
		return Credentials{}, err
	}
	record, err := k.Record(ctx, o)
	if err != nil {
		return Credentials{}, err
	}
	a := Credentials{rootLogin: login, domain: k.DNSDomain(o, record)}
	reach, err := k.Transport(ctx, o, record)
	if err != nil {
		return a, err
	}
	if !reach.Secure {
		a.fingerprint = sha256.Sum256(login.bytes())
		return a, nil
	}
	from := reach.Certificates(o.Spec.TLS)
	ca, pair, err := k.Keypair(ctx, o, from, cluster.OperatorTLSSecret(o.Name))
	if err != nil {
		return a, owned.CertificateError{Err: err}
	}
	a.fingerprint = sha256.Sum256(slices.Concat(ca, []byte{0}, pair.Cert, []byte{0}, pair.Key, []byte{0}, login.bytes()))
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return a, owned.CertificateError{Err: fmt.Errorf("the operator's certificate: %w", err)}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return a, owned.CertificateError{Err: owned.InvalidSpec("spec.tls: the certificate authority (ca.crt) of %s cannot be read: replace it",
			owned.TLSSecret(from, cluster.OperatorTLSSecret(o.Name)))}
	}
	a.tls = &tls.Config{Time: k.Now, MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}}
	return a, nil
}

// MemberClientOf returns the client of the member in a pod, kept between passes.
func (k *Reconciler) MemberClientOf(ctx context.Context, o *v1alpha1.EtcdCluster, a Credentials, pod *corev1.Pod) MemberClient {
	key := clientKey{pod: pod.UID, ip: pod.Status.PodIP, access: a.fingerprint}
	return k.clients.get(ctx, key, func() MemberClient {
		name, ip := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.Status.PodIP
		return k.Connect(etcdclient.Config{
			Host: cluster.PodHost(pod.Name, o.Name, o.Namespace, a.domain), TLS: a.tls, Password: a.password, Former: a.former, SigningKey: a.signingKey,
			Dial:   func(ctx context.Context) (net.Conn, error) { return k.Dial(ctx, name, ip, model.ClientPort) },
			Called: k.Metrics.Caller("etcd"),
		})
	})
}
