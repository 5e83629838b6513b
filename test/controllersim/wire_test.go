package controllersim

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refusals are what an API server answers to what it does not carry out. A conflict is an answer to a write only.
func refusals(write bool) []error {
	some := schema.GroupResource{Group: "example.com", Resource: "objects"}
	out := []error{
		apierrors.NewTooManyRequests("later", 1),
		apierrors.NewInternalError(errors.New("etcdserver: leader changed")),
		apierrors.NewTimeoutError("it took too long", 1),
		apierrors.NewForbidden(some, "it", errors.New("the role is being changed")),
	}
	if write {
		out = append(out, apierrors.NewConflict(some, "it", errors.New("somebody else was faster")))
	}
	return out
}
