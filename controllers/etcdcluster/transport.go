package etcdcluster

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// firstReach is how the members are reached of which there is no record: as their StatefulSet says, where there is one, and else
// as the specification asks for.
func firstReach(o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet) model.Transport {
	if set != nil {
		if r, err := model.ParseTransport(set.Annotations[manifests.AnnotationReach]); err == nil {
			return r
		}
	}
	r := model.Transport{Secure: o.Spec.TLS.TLSMode() != v1alpha1.TLSDisabled}
	if r.Secure {
		r.TLS = o.Spec.TLS
	}
	return r
}

// Transport is how the members of a cluster are reached, with or without a record.
func (k *Reconciler) Transport(ctx context.Context, o *v1alpha1.EtcdCluster, record model.Record) (model.Transport, error) {
	if len(record.Members) > 0 {
		return record.Transport(), nil
	}
	set, err := k.StatefulSet(ctx, o)
	if err != nil {
		return model.Transport{}, err
	}
	return firstReach(o, set), nil
}

// secured completes a blueprint with the certificates that the members use, which may not be those that the specification asks
// for by now. They are remembered: where TLS is to be switched off, the specification says nothing of them.
func (k *Reconciler) secured(o *v1alpha1.EtcdCluster, b manifests.Builder) manifests.Builder {
	reach := b.Reach()
	from := reach.Certificates(o.Spec.TLS)
	if from == nil {
		from = &v1alpha1.TLSSpec{} // What it is by default, said aloud.
	}
	b.Cluster.Spec.TLS = from
	if !reach.UsesTLS() {
		return b
	}
	b.Record.TLSSwitch.TLS, b.First.TLS = from, from
	b.ServerSecret, b.PeerSecret = owned.TLSSecret(from, cluster.ServerTLSSecret(o.Name)), owned.TLSSecret(from, cluster.PeerTLSSecret(o.Name))
	return b
}

// UserKeypair reads what clients are handed, which is nothing while they are told to use plain text.
func (k *Reconciler) UserKeypair(ctx context.Context, o *v1alpha1.EtcdCluster, r model.Transport) (ca []byte, pair clustertls.Pair, err error) {
	if !r.Secure {
		return nil, pair, nil
	}
	if ca, pair, err = k.ClientKeypair(ctx, o, r.Certificates(o.Spec.TLS)); err != nil {
		return nil, pair, owned.CertificateError{Err: err}
	}
	return ca, pair, nil
}

// setTransport changes what members listen for, and what peers and clients are told to use.
func (k *Reconciler) setTransport(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.SetTransport) error {
	return k.note(ctx, o, func(r *model.Record) {
		reach := steps.With(r.Transport(), step, o.Spec.TLS)
		r.TLSSwitch = reach.TLSSwitch
		r.Members = model.Peers(o.Name, o.Namespace, k.DNSDomain(o, *r), len(r.Members), reach.Secure)
	})
}

// switching says in TLSReady that TLS is being switched on or off.
func switching(c metav1.Condition, s model.State) metav1.Condition {
	words := planner.Switching(s)
	if words == "" || c.Status != metav1.ConditionTrue {
		return c
	}
	c.Reason, c.Message = steps.ReasonTransport, words
	if s.Want.TLS {
		c.Status = metav1.ConditionFalse // Not everything is encrypted yet.
	}
	return c
}
