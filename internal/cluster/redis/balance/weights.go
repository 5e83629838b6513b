package balance

import (
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// Sample is what primaries reported of their slots at one time, by Teller and slot.
type Sample struct {
	At      time.Time
	Servers map[string]map[int]model.SlotStat
}

// Teller tells processes of servers apart: one that has restarted counts anew.
func Teller(n *model.Node) string { return n.ID + "/" + n.Process }

// LoadWindow is over how long the load of a slot is measured.
const LoadWindow = 5 * time.Minute

// Weigh returns what all slots weigh, in bytes or in microseconds of CPU time a second; nil: unknown. former and latest are two samples,
// and untold is a server that does not tell what is asked for. Load is the difference of the two: a slot that has moved in between,
// or whose server has restarted, has none yet.
func Weigh(by v1alpha1.RebalanceBy, former, latest Sample, pods []model.Pod) (weights []int64, untold string) {
	weights = make([]int64, slots.Count)
	known, took := 0, latest.At.Sub(former.At)
	for _, p := range pods {
		if p.Node == nil || p.Deleting || !p.OwnsSlots() {
			continue
		}
		now, then := latest.Servers[Teller(p.Node)], former.Servers[Teller(p.Node)]
		for slot := range p.Node.Self().Slots.All() {
			stat, told := now[slot]
			before, measured := then[slot]
			switch {
			case !told:
				continue
			case by == v1alpha1.RebalanceByMemory:
				weights[slot] = bytesIn(p.Node, stat)
			case stat.CPU < 0 && p.Node.Config[config.SlotStatsParameter] == "":
				return nil, p.Name
			case !measured || stat.CPU < max(0, before.CPU) || took <= 0:
				continue
			default:
				weights[slot] = int64((stat.CPU - before.CPU).Seconds() / took.Seconds() * 1e6)
			}
			known++
		}
	}
	if known < slots.Count {
		return nil, ""
	}
	return weights, ""
}

// bytesIn is what the keys of a slot take, or would if they were like all keys of the server.
func bytesIn(n *model.Node, s model.SlotStat) int64 {
	if s.Bytes > 0 {
		return s.Bytes
	}
	return s.Keys * max(0, (n.Memory.Used-n.Memory.Empty)/max(1, n.Keys))
}
