package controllers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// switched changes the mode and runs passes until the cluster is Ready with it. What is given is done before each pass.
func (s *timed) switched(mode v1alpha1.TLSMode, before ...func()) {
	s.t.Helper()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.TLS = &v1alpha1.TLSSpec{Mode: &mode} })
	for range 200 {
		for _, do := range before {
			do()
		}
		s.pass()
		o := s.cluster()
		if meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) && s.tlsReady().Reason != etcd.ReasonTransport && s.handed() == mode {
			return
		}
	}
	s.t.Fatalf("not switched: %s", s.cluster().Status.Activity)
}

// handed is what clients are told: certificates and https, or none of it.
func (s *timed) handed() v1alpha1.TLSMode {
	s.t.Helper()
	data := s.secret(cluster.ConnectionSecret("orders")).Data
	secure := strings.HasPrefix(string(data["uri"]), "https://")
	if secure != (len(data["ca.crt"]) > 0) || secure != (len(data["tls.key"]) > 0) {
		s.t.Errorf("the connection Secret says %s and holds other keys", data["uri"])
	}
	if secure {
		return v1alpha1.TLSManaged
	}
	return v1alpha1.TLSDisabled
}

func TestTLSIsSwitchedOffAndOn(t *testing.T) {
	s := newTimed(t, persistent())
	s.untilReady()
	ca := s.secret(cluster.CASecret("orders")).Data
	for _, mode := range []v1alpha1.TLSMode{v1alpha1.TLSDisabled, v1alpha1.TLSManaged} {
		s.switched(mode)
		record, err := s.op.Kind.(*EtcdKind).record(t.Context(), s.cluster())
		if err != nil {
			t.Fatal(err)
		}
		secure := mode == v1alpha1.TLSManaged
		if record.Secure() != secure || record.Transport.Both || (record.Transport.TLS != nil) != secure {
			t.Errorf("%s: record %+v", mode, record)
		}
		for name, p := range s.procs {
			pod := &corev1.Pod{}
			if err := s.api.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, pod); err != nil {
				t.Fatal(err)
			}
			if hasPort(pod.Spec, etcd.PeerPort) != secure || hasPort(pod.Spec, etcd.PlainPeerPort) == secure {
				t.Errorf("%s: ports of %s: %v", mode, name, pod.Spec.Containers[0].Ports)
			}
			if p == nil {
				t.Errorf("%s: %s does not run", mode, name)
			}
		}
	}
	if fmt.Sprint(s.secret(cluster.CASecret("orders")).Data) != fmt.Sprint(ca) {
		t.Error("the authority was made anew")
	}
	if !strings.Contains(fmt.Sprint(s.phases), etcd.ReasonTransport) {
		t.Errorf("TLSReady said %v", s.phases)
	}
}

// An operator that crashes again and again gets there all the same. It has to live for a few writes more than it takes to apply
// everything once, which a new one does.
func TestASwitchOfTLSSurvivesCrashes(t *testing.T) {
	s := newTimed(t, persistent())
	s.untilReady()
	crashes := 0
	s.switched(v1alpha1.TLSDisabled, func() {
		if s.crashAt == 0 {
			crashes++
			s.crashAt = s.writes + 8 + crashes%4
		}
	})
	if crashes < 3 {
		t.Errorf("only %d crashes", crashes)
	}
}
