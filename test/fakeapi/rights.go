package fakeapi

import (
	"errors"
	"os"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
