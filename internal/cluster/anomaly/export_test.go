package anomaly

// Len is how many series there are.
func (w *Watch) Len() int { return len(w.series) }
