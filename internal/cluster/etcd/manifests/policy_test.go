package manifests_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
)

// A quota for volumes that are yet to come must not fill those that are there.
func TestTheQuotaOfTheUserLeavesRoomToTheLog(t *testing.T) {
	for volume, want := range map[string]int64{"1Gi": 640 << 20, "4479Mi": 4095 << 20, "4480Mi": 4 << 30, "8Gi": 4 << 30} {
		size := resource.MustParse(volume)
		b := builder(t, func(b *manifests.Builder) { b.Common["quota-backend-bytes"] = int64(4 << 30) })
		if got := b.QuotaOn(size.Value()); got != want {
			t.Errorf("%s: quota %d, want %d", volume, got, want)
		}
	}
}
