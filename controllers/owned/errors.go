package owned

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IgnoreDeleted takes it for done when the object is gone, or is not what was decided on any more.
func IgnoreDeleted(err error, what string) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", what, err)
	}
	return nil
}

// JoinDistinct joins two errors, of which each may be nil, or say the same as the other.
func JoinDistinct(first, second error) error {
	if first != nil && (second == nil || first.Error() == second.Error()) {
		return first
	}
	return errors.Join(first, second)
}
