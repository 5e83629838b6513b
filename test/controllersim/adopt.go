package controllersim

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

// Recreate deletes a cluster without its objects, and creates it again as `kubectl apply` does.
func Recreate(t *testing.T, api client.Client, o, again owned.Owner) {
	t.Helper()
	if err := api.Delete(t.Context(), o, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	again.SetUID("u-2")
	again.SetResourceVersion("")
	again.SetCreationTimestamp(metav1.NewTime(fakeapi.Now))
	if err := api.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
}

// SecretData returns the data of all Secrets.
func SecretData(t *testing.T, p *fakeapi.History) map[string]string {
	t.Helper()
	p.CatchUp()
	out := map[string]string{}
	for _, o := range p.State("Secret", p.Now()) {
		if s, ok := o.(*corev1.Secret); ok {
			out[s.Name] = fmt.Sprint(s.Data)
		}
	}
	return out
}

// Uncontrolled lists the objects of a cluster that owner does not control. Pods and claims belong
// to their StatefulSet.
func Uncontrolled(t *testing.T, p *fakeapi.History, owner owned.Owner) (out []string) {
	t.Helper()
	p.CatchUp()
	for kind := range p.Watches {
		for _, o := range p.State(kind, p.Now()) {
			direct := !slices.Contains([]string{"Pod", "PersistentVolumeClaim", "EtcdCluster", "RedisCluster"}, kind)
			if direct && o.GetLabels()[cluster.LabelPartOf] == owner.GetName() && !metav1.IsControlledBy(o, owner) {
				out = append(out, kind+" "+o.GetName())
			}
		}
	}
	slices.Sort(out)
	return out
}

// PodUIDs returns the UIDs of all pods by name.
func PodUIDs(t *testing.T, api client.Client) map[string]types.UID {
	t.Helper()
	var pods corev1.PodList
	if err := api.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	out := map[string]types.UID{}
	for _, p := range pods.Items {
		out[p.Name] = p.UID
	}
	return out
}

// UntilSettled makes reconciles until nothing is written any more.
func (s *Etcd) UntilSettled() {
	s.T.Helper()
	for range 60 {
		before := s.Writes
		for range 3 {
			s.Turn()
			s.Kubelet()
		}
		if s.Writes == before {
			return
		}
	}
	s.T.Fatalf("not settled: %s", s.Cluster().Status.Activity)
}
