package anomaly

import "slices"

// Histogram is one of Prometheus, whose counts only grow until its process ends: Counts[i] is how many values were at most Bounds[i]. There
// is one count more than bounds, of all values.
type Histogram struct {
	Bounds []float64 `json:"bounds"`
	Counts []uint64  `json:"counts"`
}

// Total is how many values there were.
func (h Histogram) Total() uint64 {
	if len(h.Counts) == 0 {
		return 0
	}
	return h.Counts[len(h.Counts)-1]
}

// Since is what has been added since former was read of the same process. ok is false when it is of another one.
func (h Histogram) Since(former Histogram) (added Histogram, ok bool) {
	if len(former.Counts) != len(h.Counts) || !slices.Equal(former.Bounds, h.Bounds) {
		return Histogram{}, false
	}
	added = Histogram{h.Bounds, make([]uint64, len(h.Counts))}
	for i := range h.Counts {
		if h.Counts[i] < former.Counts[i] {
			return Histogram{}, false
		}
		added.Counts[i] = h.Counts[i] - former.Counts[i]
	}
	return added, true
}

// Slow is the 99th percentile, but never the largest value alone: one slow write is no slow disk.
func (h Histogram) Slow() float64 { return h.Quantile(min(0.99, 1-1.5/float64(h.Total()))) }

// Quantile is the value that a share of all is at most, by a straight line between two bounds, as histogram_quantile of Prometheus has it.
// What is beyond the last finite bound counts as that. There has to be a value.
func (h Histogram) Quantile(share float64) float64 {
	rank := share * float64(h.Total())
	i := slices.IndexFunc(h.Counts, func(n uint64) bool { return float64(n) >= rank })
	if i >= len(h.Bounds) {
		return h.Bounds[len(h.Bounds)-1]
	}
	lowBound, lowCount := 0.0, 0.0
	if i > 0 {
		lowBound, lowCount = h.Bounds[i-1], float64(h.Counts[i-1])
	}
	within := float64(h.Counts[i]) - lowCount
	if within == 0 {
		return h.Bounds[i]
	}
	return lowBound + (h.Bounds[i]-lowBound)*(rank-lowCount)/within
}
