package model

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Bytes writes a size for people, in whole MiB or KiB.
func Bytes(n int64) string {
	unit := int64(1 << 20)
	if n < unit {
		unit = 1 << 10
	}
	return resource.NewQuantity((n+unit-1)/unit*unit, resource.BinarySI).String()
}
