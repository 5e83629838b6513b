package conditions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestTextsOfAUsualLengthStayWhole(t *testing.T) {
	t.Parallel()
	o := fakeapi.RedisCluster()
	for shard := range 500 {
		o.Status.Shards = append(o.Status.Shards, v1alpha1.RedisShardStatus{
			Name: fmt.Sprintf("carts-%d", shard), Nodes: []v1alpha1.RedisNodeStatus{{Name: fmt.Sprintf("carts-%d-0", shard), Message: strings.Repeat("x", 200)}},
		})
	}
	before := o.DeepCopy()
	BoundStatus(o)
	if len(o.Status.Shards[0].Nodes[0].Message) != 200 || o.Status.Shards[499].Name != before.Status.Shards[499].Name {
		t.Errorf("%+v", o.Status.Shards[0])
	}
}
