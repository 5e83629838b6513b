package owned

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/fakeapi"
)

// TestOwnersThatWaitNeedARight shows that all tests on a world notice an owner without it. Kinds that own nothing have none.
func TestOwnersThatWaitNeedARight(t *testing.T) {
	for name, tc := range map[string]struct {
		owner Owner
		want  bool
	}{
		"EtcdCluster": {&v1alpha1.EtcdCluster{}, true}, "RedisCluster": {&v1alpha1.RedisCluster{}, true},
		"EtcdUser": {&v1alpha1.EtcdUser{}, true}, "RedisUser": {&v1alpha1.RedisUser{}, true},
		"Backup": {&v1alpha1.Backup{}, true}, "BackupSchedule": {&v1alpha1.BackupSchedule{}, true}, "Restore": {&v1alpha1.Restore{}, true},
		"Autoscaler": {&v1alpha1.Autoscaler{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := fakeapi.New(t)
			tc.owner.SetNamespace("default")
			tc.owner.SetName("orders")
			tc.owner.SetUID("u-1")
			o := &corev1.ConfigMap{ObjectMeta: ObjectMeta(tc.owner, "orders-config")}
			if err := controllerutil.SetControllerReference(tc.owner, o, w.Scheme()); err != nil {
				t.Fatal(err)
			}
			err := w.Create(t.Context(), o)
			if (err == nil) != tc.want || (err != nil && !strings.Contains(err.Error(), "has no update of autoscalers/finalizers")) {
				t.Errorf("%v", err)
			}
		})
	}
}
