package controllersim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// Edit changes the cluster as a user would.
func (s *Redis) Edit(change func(*v1alpha1.RedisClusterSpec)) {
	s.T.Helper()
	o := s.Cluster()
	change(&o.Spec)
	o.Generation++
	if err := s.API.Update(s.T.Context(), o); err != nil {
		s.T.Fatal(err)
	}
}

// recreate is a user who deletes the cluster, which leaves him the claims and what they need, and makes it again.
func (s *Redis) recreate() {
	s.T.Helper()
	o := s.Cluster()
	again := &v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Generation: 1}, Spec: o.Spec}
	remake(s.T, s, o, again)
	for _, server := range s.Servers {
		server.Stop()
	}
}

// sampled are the slots that have a key.
const sampled = 500

// Served makes a cluster with keys in it.
func (s *Redis) Served() {
	s.T.Helper()
	s.Settle()
	s.Write()
}

// Write has clients write the keys.
func (s *Redis) Write() {
	s.T.Helper()
	for slot := 0; slot < slots.Count; slot += sampled {
		for _, server := range s.owners(slot) {
			server.Data[redisfake.Key{Slot: slot}] = 1
		}
	}
	for range 5 {
		s.Net.Tick()
	}
}

// owners are the primaries that take a slot for theirs.
func (s *Redis) owners(slot int) []*redisfake.Server {
	var out []*redisfake.Server
	for _, server := range s.Servers {
		if server.Up && server.Primary() == "" && server.Owns(slot) {
			out = append(out, server)
		}
	}
	return out
}

// covered are the slots that any primary takes for its own.
func (s *Redis) covered() slots.Set {
	var all []slots.Set
	for _, server := range s.Servers {
		if server.Up && server.Primary() == "" {
			all = append(all, server.Slots())
		}
	}
	return slots.Union(all...)
}

// Sound fails the test when a slot has not one owner, or a key is gone.
func (s *Redis) Sound() {
	s.T.Helper()
	if missing := s.covered().Missing(); len(missing) > 0 {
		s.T.Errorf("nobody owns the slots %s", missing)
	}
	for slot := 0; slot < slots.Count; slot += sampled {
		owners := s.owners(slot)
		if len(owners) != 1 {
			s.T.Errorf("slot %d has the owners %v", slot, owners)
			continue
		}
		if owners[0].Data[redisfake.Key{Slot: slot}] != 1 {
			s.T.Errorf("the key of slot %d is not on %s", slot, owners[0])
		}
	}
}

// Line returns the wire.
func (s *Redis) Line() *Wire { return s.Wire }

// Round makes a pass.
func (s *Redis) Round() { s.Pass() }

func (s *Redis) parts() ready {
	if s.first.turns == s.turns {
		return ready{}
	}
	return s.first
}

// guard fails the test when a write of an operator leaves slots without an owner, or deletes what it must not.
func (s *Redis) guard(c *call) func(error) {
	s.T.Helper()
	before := s.covered()
	if c.object != nil {
		s.guardDeletion(c)
	}
	return func(err error) {
		if lost := before.Minus(s.covered()); err == nil && len(lost) > 0 {
			s.T.Errorf("%s leaves the slots %s without an owner", c, lost)
		}
	}
}

// guardDeletion wants a deletion to be of the very object that was decided on, and a pod or claim not to be that of a primary with slots.
func (s *Redis) guardDeletion(c *call) {
	s.T.Helper()
	if !conditional(c) {
		s.T.Errorf("%s deletes whatever has that name", c)
	}
	pod := strings.TrimPrefix(c.object.GetName(), cluster.VolumeData+"-")
	switch c.object.(type) {
	case *corev1.Pod, *corev1.PersistentVolumeClaim:
	default:
		return
	}
	if server := s.Servers[pod]; server != nil && server.Up && server.Primary() == "" && len(server.Slots()) > 0 {
		s.T.Errorf("%s: it owns slots", c)
	}
}

// Round makes a pass, after which the clock has moved.
func (s *TimedRedis) Round() { s.Pass() }

// rotate asks for another authority, and runs until it is in place.
func (s *TimedRedis) rotate() {
	s.T.Helper()
	s.Settle()
	s.Served()
	s.Edit(func(spec *v1alpha1.RedisClusterSpec) {
		spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{
			After: &metav1.Time{Time: s.Now}, Hold: &metav1.Duration{Duration: 2 * time.Minute},
		}}
	})
	s.Pass()
	s.Settle()
}

// forget deletes the password of clients, if there is one, so that another one takes its place.
func (s *Redis) forget() {
	s.T.Helper()
	live := &corev1.Secret{}
	err := s.API.Get(s.T.Context(), client.ObjectKey{Namespace: "default", Name: cluster.AuthSecret("carts")}, live)
	if err == nil {
		delete(live.Data, owned.PasswordKey)
		err = s.API.Update(s.T.Context(), live)
	}
	if client.IgnoreNotFound(err) != nil {
		s.T.Fatal(err)
	}
	s.MinuteLater()
}

// isRefused makes passes until the cluster is as it is to be, or says that it cannot be, for that reason.
func (s *Redis) isRefused(reason string) bool {
	s.T.Helper()
	for range 300 {
		s.Pass()
		o := s.Cluster()
		if o.Status.ObservedGeneration != o.Generation {
			continue
		}
		if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason {
			return true
		}
		if meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) && meta.IsStatusConditionFalse(o.Status.Conditions, v1alpha1.ConditionReconciling) {
			return false
		}
	}
	return false
}

// kill ends a pod, which another one takes the place of.
func (s *Redis) kill(name string) {
	s.T.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := client.IgnoreNotFound(s.API.Delete(s.T.Context(), pod)); err != nil {
		s.T.Fatal(err)
	}
}
