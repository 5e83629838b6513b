package history

import (
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Idle remembers since when shards that are to go have owned nothing, by number.
type Idle map[int]time.Time

// Watch notes it in a state. An operator that has just been started begins to count anew.
func (i Idle) Watch(s *model.State) {
	if len(i) == 0 && len(s.Sets) <= s.Spec.Shards {
		return
	}
	v := model.NewView(*s)
	for n := range s.Sets {
		set := &s.Sets[n]
		if set.Shard >= len(v.Shards) || !v.Idle(set.Shard) {
			delete(i, set.Shard)
			continue
		}
		if _, ok := i[set.Shard]; !ok {
			i[set.Shard] = s.Now
		}
		set.IdleSince = i[set.Shard]
	}
}
