package restore

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// One may have told people to make another one.
func TestARestoreThatCannotBeCarriedOutStandsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		stalled, complete []string
		want              string
	}{
		"both can":                    {nil, nil, "a"},
		"the older one cannot":        {[]string{"a"}, nil, "b"},
		"the younger cannot":          {[]string{"b"}, nil, "a"},
		"they say both so":            {[]string{"a", "b"}, nil, "a"},
		"the older one is done":       {nil, []string{"a"}, "b"},
		"the younger is done":         {nil, []string{"b"}, ""},
		"the younger is done already": {[]string{"a"}, []string{"b"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, all := fakeapi.EtcdCluster(), []client.Object{}
			for _, name := range []string{"a", "b"} {
				r := fakeapi.ApprovedRestore(name, types.UID("uid-"+name))
				if slices.Contains(tc.stalled, name) {
					r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: planner.ReasonSaving})
				}
				if slices.Contains(tc.complete, name) {
					r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: planner.ReasonRestored})
				}
				all = append(all, r)
			}
			r, err := Approved(t.Context(), ownedtest.New(fakeapi.New(t, append(all, o)...)), o, v1alpha1.KindEtcdCluster)
			got := ""
			if r != nil {
				got = r.Name
			}
			if err != nil || got != tc.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
