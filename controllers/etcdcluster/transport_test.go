package etcdcluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/controllersim"
)

func TestTLSIsSwitchedOffAndOn(t *testing.T) {
	s := newTimed(t, controllersim.Persistent())
	s.UntilReady()
	ca := s.Secret(cluster.CASecret("orders")).Data
	for _, mode := range []v1alpha1.TLSMode{v1alpha1.TLSDisabled, v1alpha1.TLSManaged} {
		s.Switched(mode)
		record, err := s.Op.Kind.(*Reconciler).Record(t.Context(), s.Cluster())
		if err != nil {
			t.Fatal(err)
		}
		secure := mode == v1alpha1.TLSManaged
		if record.Secure() != secure || record.TLSSwitch.Both || (record.TLSSwitch.TLS != nil) != secure {
			t.Errorf("%s: record %+v", mode, record)
		}
		for name, p := range s.Procs {
			pod := &corev1.Pod{}
			if err := s.API.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, pod); err != nil {
				t.Fatal(err)
			}
			if hasPort(pod.Spec, model.PeerPort) != secure || hasPort(pod.Spec, model.PlainPeerPort) == secure {
				t.Errorf("%s: ports of %s: %v", mode, name, pod.Spec.Containers[0].Ports)
			}
			if p == nil {
				t.Errorf("%s: %s does not run", mode, name)
			}
		}
	}
	if fmt.Sprint(s.Secret(cluster.CASecret("orders")).Data) != fmt.Sprint(ca) {
		t.Error("the authority was made anew")
	}
	if !strings.Contains(fmt.Sprint(s.Phases), steps.ReasonTransport) {
		t.Errorf("TLSReady said %v", s.Phases)
	}
}

// An operator that crashes again and again gets there all the same. It has to live for a few writes more than it takes to apply
// everything once, which a new one does.
func TestASwitchOfTLSSurvivesCrashes(t *testing.T) {
	s := newTimed(t, controllersim.Persistent())
	s.UntilReady()
	crashes := 0
	s.Switched(v1alpha1.TLSDisabled, func() {
		if s.CrashAt == 0 {
			crashes++
			s.CrashAt = s.Writes + 8 + crashes%4
		}
	})
	if crashes < 3 {
		t.Errorf("only %d crashes", crashes)
	}
}
