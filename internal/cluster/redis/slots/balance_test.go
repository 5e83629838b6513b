package slots

// even is the layout of a fresh cluster.
func even(shards int) []Set {
	out := make([]Set, shards)
	for i := range out {
		out[i] = Share(i, shards)
	}
	return out
}
