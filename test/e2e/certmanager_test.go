package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/certmanager"
	"github.com/quorate/quorate/test/harness"
)

// The tests play cert-manager themselves, see package certmanager: these are the Certificates that an EtcdCluster asks for.
var etcdCertificates = []string{"orders-server", "orders-peer", "orders-client", "orders-operator"}

// byCertManager asks an issuer of that name, which signs for one cluster only.
func byCertManager(issuer string) *v1alpha1.TLSSpec {
	return &v1alpha1.TLSSpec{
		Mode: ptr.To(v1alpha1.TLSCertManager), IssuerRef: &v1alpha1.IssuerReference{Name: issuer},
		Rotation: &v1alpha1.RotationSpec{Hold: &metav1.Duration{Duration: 90 * time.Second}},
	}
}

// These two are not parallel: they install the CRD of cert-manager and take it away again.
func TestCertManagerIssuesCertificates(t *testing.T) {
	whole := t // A step's own test is over before the next one.
	var orders *v1alpha1.EtcdCluster
	var carts *v1alpha1.RedisCluster
	var player *certmanager.Player
	feature := features.New("cert-manager").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			orders = s.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) { e.TLS = byCertManager("ours") })
			carts = s.redisOf(t, "carts", 0, func(r *v1alpha1.RedisClusterSpec) { r.TLS = byCertManager("theirs") })
			s.create(ctx, t, orders)
			s.create(ctx, t, carts)
		})).
		Assess("without its CRD the clusters say so, and go on once it is there", step(func(ctx context.Context, t *testing.T, s *scope) {
			waitStalled(ctx, t, s, orders, "cert-manager is not installed")
			waitStalled(ctx, t, s, carts, "cert-manager is not installed")
			installCRD(ctx, whole, s)
			waitTLS(ctx, t, s, orders, "waiting for cert-manager: Certificate orders-client: ")
			waitTLS(ctx, t, s, carts, "waiting for cert-manager: Certificate carts-server: ")
		})).
		Assess("with certificates they become Ready", step(func(ctx context.Context, t *testing.T, s *scope) {
			began := time.Now()
			player = play(ctx, whole, s, "ours", "theirs")
			play(ctx, whole, s, "theirs", "ours")
			waitReady(ctx, t, s, orders)
			waitReady(ctx, t, s, carts)
			figure(t, "both Ready %.1f s after the issuer", time.Since(began).Seconds())
			useConnection(ctx, t, s, orders)
			useConnection(ctx, t, s, carts)
		})).
		Assess("etcd takes renewed certificates up without a restart", step(func(ctx context.Context, t *testing.T, s *scope) {
			pods, shown := s.starts(ctx, t, orders), s.shown(ctx, t, "orders-0")
			l := startLoad(ctx, t, s, orders)
			began := time.Now()
			player.Renew(etcdCertificates...)
			must(t, harness.Eventually(ctx, "a member to show another certificate", 4*time.Minute, func(ctx context.Context) (bool, string, error) {
				return !bytes.Equal(s.shown(ctx, t, "orders-0"), shown), "it shows the one it had", nil
			}))
			figure(t, "a renewed certificate is shown after %.1f s", time.Since(began).Seconds())
			waitReady(ctx, t, s, orders)
			if now := s.starts(ctx, t, orders); now != pods {
				t.Errorf("members were restarted: %s, before %s", now, pods)
			}
			if c := tlsCondition(orders); c.Reason != v1alpha1.ReasonIssued {
				t.Errorf("TLSReady %s: %s", c.Reason, c.Message)
			}
			summary := stopLoad(ctx, t, l, "certificates renewed: ")
			nothingLost(t, summary)
			noErrors(t, summary)
			useConnection(ctx, t, s, orders)
		}))
	suite.Test(t, feature.Feature())
}

func TestCertManagerReplacesItsAuthorityUnderLoad(t *testing.T) {
	t.Parallel()
	whole := t
	var orders *v1alpha1.EtcdCluster
	var player *certmanager.Player
	feature := features.New("authority of an issuer").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			installCRD(ctx, whole, s)
			player = play(ctx, whole, s, "ours")
			orders = s.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) { e.TLS = byCertManager("ours") })
			createReady(ctx, t, s, orders)
		})).
		Assess("old and new are trusted until the last certificate of the old one is gone", step(func(ctx context.Context, t *testing.T, s *scope) {
			old := s.secretOf(ctx, t, cluster.ConnectionSecret("orders"))[certKey]
			l := startLoad(ctx, t, s, orders)
			began := time.Now()
			must(t, player.ReplaceCA())
			player.Renew(etcdCertificates...)
			for _, reason := range []string{
				v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued,
			} {
				waitCertificates(ctx, t, s, orders, reason)
				figure(t, "%s after %.0f s", reason, time.Since(began).Seconds())
			}
			waitReady(ctx, t, s, orders)
			_, err := l.WaitAcked(ctx, 50, time.Minute)
			must(t, err)
			summary := stopLoad(ctx, t, l, "authority of the issuer replaced in %.0f s: ", time.Since(began).Seconds())
			nothingLost(t, summary)
			if summary.Failed > 0 {
				t.Errorf("%d writes failed, because of: %s", summary.Failed, summary.Misses)
			}
			connection := s.secretOf(ctx, t, cluster.ConnectionSecret("orders"))
			if bytes.Equal(connection[certKey], old) || !bytes.Equal(connection[caKey], player.CA()) {
				t.Error("clients have the old certificate, or trust more than the new authority")
			}
			useConnection(ctx, t, s, orders)
			wantCurrent(ctx, t, s, orders)
		}))
	suite.Test(t, feature.Feature())
}

const (
	certKey = corev1.TLSCertKey
	caKey   = "ca.crt"
)

// installCRD installs the CRD for the time of the test, unless it is there.
func installCRD(ctx context.Context, t *testing.T, s *scope) {
	t.Helper()
	mine := false
	must(t, harness.Eventually(ctx, "the CRD of Certificates", time.Minute, func(ctx context.Context) (bool, string, error) {
		err := s.Create(ctx, certmanager.CRD())
		if !apierrors.IsAlreadyExists(err) {
			mine = err == nil
			return mine, "not created", err
		}
		there := certmanager.CRD()
		err = s.Get(ctx, client.ObjectKeyFromObject(there), there)
		return err == nil && there.GetDeletionTimestamp() == nil, "an earlier one is being deleted", client.IgnoreNotFound(err)
	}))
	if mine {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			if err := s.Delete(ctx, certmanager.CRD()); err != nil {
				t.Error(err)
			}
		})
	}
	must(t, harness.Eventually(ctx, "Certificates to be served", time.Minute, func(context.Context) (bool, string, error) {
		_, err := s.Clients.Discovery().ServerResourcesForGroupVersion(certmanager.Kind.GroupVersion().String())
		return err == nil, "not yet", nil
	}))
}

// play plays cert-manager with one issuer until the test ends.
func play(ctx context.Context, t *testing.T, s *scope, issuer string, beside ...string) *certmanager.Player {
	t.Helper()
	p, err := certmanager.New(s.WithWatch, issuer, time.Now)
	must(t, err)
	p.Beside = beside
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx, s.ns)
	}()
	t.Cleanup(func() { stop(); <-done })
	return p
}

// waitStalled waits until a cluster says that it cannot go on, with the words: parts of "Reason: message".
func waitStalled[O target](ctx context.Context, t *testing.T, s *scope, o O, words ...string) {
	t.Helper()
	must(t, harness.Until(ctx, s.Cluster, o, harness.Deadline{What: "Stalled", Within: readyTimeout}, func(o O) (bool, string) {
		text := conditionText(o, v1alpha1.ConditionStalled)
		return meta.IsStatusConditionTrue(o.GetConditions(), v1alpha1.ConditionStalled) &&
			!slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }), text
	}))
}

// waitTLS waits until TLSReady is False with the words.
func waitTLS[O target](ctx context.Context, t *testing.T, s *scope, o O, words string) {
	t.Helper()
	must(t, harness.Until(ctx, s.Cluster, o, harness.Deadline{What: "TLSReady", Within: time.Minute}, func(o O) (bool, string) {
		c := tlsCondition(o)
		return c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonCertManager && strings.Contains(c.Message, words), c.Message
	}))
}

func tlsCondition[O target](o O) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(o.GetConditions(), v1alpha1.ConditionTLSReady), metav1.Condition{})
}

func useConnection[O target](ctx context.Context, t *testing.T, s *scope, o O) {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, o.GetName())
	must(t, err)
	roundTrip(ctx, t, s, o, conn)
}

// starts tells the pods and their restarts.
func (s *scope) starts(ctx context.Context, t *testing.T, o client.Object) string {
	t.Helper()
	var out []string
	for _, p := range s.pods(ctx, t, o) {
		out = append(out, string(p.UID))
		for _, c := range p.Status.ContainerStatuses {
			out = append(out, c.Name, fmt.Sprint(c.RestartCount))
		}
	}
	return strings.Join(out, " ")
}

// shown is the certificate that a member shows to clients.
func (s *scope) shown(ctx context.Context, t *testing.T, pod string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	plain, err := s.Dial(ctx, types.NamespacedName{Namespace: s.ns, Name: pod}, "", model.ClientPort)
	must(t, err)
	defer func() { _ = plain.Close() }()
	mine := s.secretOf(ctx, t, cluster.ClientTLSSecret("orders"))
	pair, err := tls.X509KeyPair(mine[certKey], mine[corev1.TLSPrivateKeyKey])
	must(t, err)
	// It is looked at, not trusted.
	secure := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
	must(t, secure.HandshakeContext(ctx))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.ConnectionState().PeerCertificates[0].Raw})
}
