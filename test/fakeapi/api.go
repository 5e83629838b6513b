package fakeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// API is a fake API server that counts writes and fails them on request.
type API struct {
	client.Client
	Writes atomic.Int64
	Fail   error
	// CrashAt is the write after which the operator crashes: no other one succeeds until fail is cleared. 0: it does not.
	CrashAt int64
	// Past is what a cache hears of, and uids counts the objects that were given a UID.
	Past *History
	uids atomic.Int64
}

func (w *API) write() error {
	if w.Fail != nil {
		return w.Fail
	}
	if n := w.Writes.Add(1); n == w.CrashAt {
		w.Fail = errors.New("the operator has crashed")
	}
	return nil
}

// Watch is there to make a client of it that others can be put in front of.
func (w *API) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return nil, errors.New("what happens is in the past")
}

// Scheme has the kinds that the controllers work with.
func Scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	scheme := runtime.NewScheme()
	// Not all groups of Kubernetes: the fake goes through all kinds at each write.
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	return scheme
}

// New returns an API server that has the objects.
func New(t *testing.T, objects ...client.Object) *API {
	t.Helper()
	certificate := &unstructured.Unstructured{}
	certificate.SetGroupVersionKind(schema.GroupVersionKind{Group: clustertls.CertManagerGroup, Version: "v1", Kind: "Certificate"})
	w := &API{}
	inner := fake.NewClientBuilder().WithReturnManagedFields().WithScheme(Scheme(t)).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.EtcdCluster{}, &v1alpha1.RedisCluster{}, &v1alpha1.EtcdUser{}, &v1alpha1.RedisUser{},
			&v1alpha1.Backup{}, &v1alpha1.BackupSchedule{}, &v1alpha1.Restore{}, &v1alpha1.Autoscaler{}, certificate).Build()
	w.Past = newHistory(t, inner)
	w.Past.API = w.remembered(inner)
	w.Client = interceptor.NewClient(w.remembered(inner), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if err := w.write(); err != nil {
				return err
			}
			return c.Apply(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := w.write(); err != nil {
				return err
			}
			if sub == "scale" {
				return scale(ctx, c, o, p)
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	return w
}

// remembered is the API server, whose past is kept up to date with what is written.
func (w *API) remembered(api client.WithWatch) client.WithWatch {
	return interceptor.NewClient(api, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			defer w.Past.CatchUp()
			if err := sameApplied(ctx, c, o); err != nil {
				return err
			}
			if err := c.Apply(ctx, o, opts...); err != nil {
				return err
			}
			return w.identifyApplied(ctx, c, o)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			defer w.Past.CatchUp()
			if err := mayOwn(o); err != nil {
				return err
			}
			if o.GetUID() == "" {
				o.SetUID(w.uid())
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			defer w.Past.CatchUp()
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			defer w.Past.CatchUp()
			if err := mayOwn(o); err != nil {
				return err
			}
			if err := samePatched(ctx, c, o, p); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			defer w.Past.CatchUp()
			if err := w.sameObject(ctx, c, o, opts); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			defer w.Past.CatchUp()
			return c.DeleteAllOf(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			defer w.Past.CatchUp()
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			defer w.Past.CatchUp()
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

// scale is what the API server makes of a patch of the subresource: another number of shards.
func scale(ctx context.Context, c client.Client, o client.Object, p client.Patch) error {
	raw, err := p.Data(o)
	if err != nil {
		return err
	}
	return c.Patch(ctx, o, client.RawPatch(p.Type(), bytes.Replace(raw, []byte(`"replicas"`), []byte(`"shards"`), 1)))
}

// uid is one that no object has had.
func (w *API) uid() types.UID { return types.UID(fmt.Sprintf("uid-%d", w.uids.Add(1))) }

func objectOf(ac runtime.ApplyConfiguration) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(ac)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	return o, o.UnmarshalJSON(raw)
}

// sameApplied is what the API server says to a UID and a version in what is applied, which the fake does not.
func sameApplied(ctx context.Context, c client.Client, ac runtime.ApplyConfiguration) error {
	o, err := objectOf(ac)
	if err != nil || o.GetUID() == "" {
		return err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(o), live)
	switch {
	case apierrors.IsNotFound(err), err == nil && o.GetResourceVersion() != "" && o.GetResourceVersion() != live.GetResourceVersion():
		return apierrors.NewConflict(schema.GroupResource{Resource: o.GetKind()}, o.GetName(), errors.New("it has changed"))
	case err == nil && live.GetUID() != o.GetUID():
		return apierrors.NewInvalid(o.GroupVersionKind().GroupKind(), o.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), o.GetUID(), "field is immutable"),
		})
	}
	return err
}

// samePatched is what the API server says to a UID in a patch, which the fake does not.
func samePatched(ctx context.Context, c client.Client, o client.Object, p client.Patch) error {
	raw, err := p.Data(o)
	if err != nil {
		return err
	}
	var patch struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if json.Unmarshal(raw, &patch) != nil || patch.Metadata.UID == "" {
		return nil //nolint:nilerr // A JSON patch is a list.
	}
	live, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a %T is no object", o)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return err
	}
	if live.GetUID() != patch.Metadata.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: KindOf(o)}, o.GetName(), errors.New("it has another UID"))
	}
	return nil
}

// identifyApplied gives an object that apply has made a UID, which the fake does not.
func (w *API) identifyApplied(ctx context.Context, c client.Client, ac runtime.ApplyConfiguration) error {
	o, err := objectOf(ac)
	if err != nil {
		return err
	}
	if err := mayOwn(o); err != nil || o.GetUID() != "" {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	o.SetUID(w.uid())
	if err := c.Update(ctx, o); err != nil {
		return err
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, ac)
}

// sameObject is the precondition on the UID, which the fake does not know, and what becomes of the children of an object that leaves them.
func (w *API) sameObject(ctx context.Context, c client.Client, o client.Object, opts []client.DeleteOption) error {
	how := &client.DeleteOptions{}
	how.ApplyOptions(opts)
	wanted := how.Preconditions != nil && how.Preconditions.UID != nil
	orphans := how.PropagationPolicy != nil && *how.PropagationPolicy == metav1.DeletePropagationOrphan
	if !wanted && !orphans {
		return nil
	}
	live, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a %T is no object", o)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return err
	}
	if wanted && live.GetUID() != *how.Preconditions.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: KindOf(o)}, o.GetName(), errors.New("it has another UID"))
	}
	if orphans {
		return w.orphan(ctx, c, live)
	}
	return nil
}

// orphan takes the references to an object off its children.
func (w *API) orphan(ctx context.Context, c client.Client, owner client.Object) error {
	w.Past.CatchUp()
	for kind := range w.Past.Watches {
		for _, child := range w.Past.State(kind, w.Past.Now()) {
			child, ok := child.DeepCopyObject().(client.Object)
			refs := slices.DeleteFunc(slices.Clone(child.GetOwnerReferences()), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
			if !ok || len(refs) == len(child.GetOwnerReferences()) {
				continue
			}
			before := child.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is a copy.
			child.SetOwnerReferences(refs)
			if err := c.Patch(ctx, child, client.MergeFrom(before), client.FieldOwner("kube-controller-manager")); err != nil {
				return err
			}
		}
	}
	return nil
}

// EtcdCluster returns the cluster orders: three members without volumes.
func EtcdCluster() *v1alpha1.EtcdCluster {
	return &v1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders", UID: "u-1", Generation: 1},
		Spec:       v1alpha1.EtcdClusterSpec{Size: 3, Version: "3.6.16"},
	}
}
