package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestGateResourcesKeepTheClassOfThePodAndCostNothing(t *testing.T) {
	most := amounts("cpu", "1", "memory", "128Mi")
	for name, c := range map[string]struct {
		server, want corev1.ResourceRequirements
		most         corev1.ResourceList
	}{
		"guaranteed stays so":    {server: corev1.ResourceRequirements{Limits: amounts("cpu", "4", "memory", "8Gi"), Requests: amounts("cpu", "4", "memory", "8Gi")}, most: most, want: corev1.ResourceRequirements{Limits: amounts("cpu", "1", "memory", "128Mi"), Requests: amounts("cpu", "1", "memory", "128Mi")}},
		"as much as the server":  {server: corev1.ResourceRequirements{Limits: amounts("memory", "8Gi")}, want: corev1.ResourceRequirements{Limits: amounts("memory", "8Gi")}},
		"requests are not more":  {server: corev1.ResourceRequirements{Limits: amounts("memory", "64Mi"), Requests: amounts("memory", "32Mi", "cpu", "100m")}, most: most, want: corev1.ResourceRequirements{Limits: amounts("memory", "128Mi"), Requests: amounts("memory", "32Mi", "cpu", "100m")}},
		"small and guaranteed":   {server: corev1.ResourceRequirements{Limits: amounts("memory", "64Mi"), Requests: amounts("memory", "64Mi")}, want: corev1.ResourceRequirements{Limits: amounts("memory", "128Mi"), Requests: amounts("memory", "128Mi")}},
		"nothing asked, nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := GateResources(&c.server, c.most)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Convert[corev1.ResourceRequirements](got)
			if err != nil {
				t.Fatal(err)
			}
			same := func(kind string, got, want corev1.ResourceList) {
				if len(got) != len(want) {
					t.Errorf("%s are %v, not %v", kind, got, want)
				}
				for n, w := range want {
					if g := got[n]; g.Cmp(w) != 0 {
						t.Errorf("%s of %s are %s, not %s", kind, n, g.String(), w.String())
					}
				}
			}
			same("limits", back.Limits, c.want.Limits)
			same("requests", back.Requests, c.want.Requests)
		})
	}
	if got, err := GateResources(nil, most); got != nil || err != nil {
		t.Errorf("of none: %v %v", got, err)
	}
}
