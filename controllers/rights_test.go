package controllers

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/repository"
)

// rules are what the operator may do.
var rules = sync.OnceValues(func() ([]rbacv1.PolicyRule, error) {
	file, err := repository.File("config/rbac/role.yaml")
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var role rbacv1.ClusterRole
	err = yaml.Unmarshal(raw, &role)
	return role.Rules, err
})

// mayOwn refuses what the admission plugin OwnerReferencesPermissionEnforcement does of an object that is made: an owner that it blocks the deletion of,
// whose finalizers the operator has no right to.
func mayOwn(o client.Object) error {
	all, err := rules()
	if err != nil {
		return err
	}
	for _, ref := range o.GetOwnerReferences() {
		plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		if ref.BlockOwnerDeletion == nil || !*ref.BlockOwnerDeletion || plural.Group != v1alpha1.GroupVersion.Group { // Kubernetes has rights of its own.
			continue
		}
		allowed := slices.ContainsFunc(all, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, plural.Group) && slices.Contains(r.Resources, plural.Resource+"/finalizers") && slices.Contains(r.Verbs, "update")
		})
		if !allowed {
			return apierrors.NewForbidden(plural.GroupResource(), o.GetName(),
				errors.New("config/rbac/role.yaml has no update of "+plural.Resource+"/finalizers, and this "+ref.Kind+" is to wait for what it owns"))
		}
	}
	return nil
}

// TestOwnersThatWaitNeedARight shows that all tests on a world notice an owner without it. Kinds that own nothing have none.
func TestOwnersThatWaitNeedARight(t *testing.T) {
	for name, tc := range map[string]struct {
		owner Object
		want  bool
	}{
		"EtcdCluster": {&v1alpha1.EtcdCluster{}, true}, "RedisCluster": {&v1alpha1.RedisCluster{}, true},
		"EtcdUser": {&v1alpha1.EtcdUser{}, true}, "RedisUser": {&v1alpha1.RedisUser{}, true},
		"Backup": {&v1alpha1.Backup{}, true}, "BackupSchedule": {&v1alpha1.BackupSchedule{}, true}, "Restore": {&v1alpha1.Restore{}, true},
		"Autoscaler": {&v1alpha1.Autoscaler{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.owner.SetNamespace("default")
			tc.owner.SetName("orders")
			tc.owner.SetUID("u-1")
			o := &corev1.ConfigMap{ObjectMeta: objectMeta(tc.owner, "orders-config")}
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
