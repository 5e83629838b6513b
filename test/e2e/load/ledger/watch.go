package ledger

// WatchSummary compares what a watcher saw with what was acknowledged.
type WatchSummary struct {
	// Events counts what the watcher was told.
	Events int `json:"events"`
	// Missing counts acknowledged writes that it was never told of, Differing those told at another revision.
	Missing   int `json:"missing"`
	Differing int `json:"differing"`
	// Duplicate counts writes that it was told of twice, Unordered events at a revision not above the one before.
	Duplicate int `json:"duplicate"`
	Unordered int `json:"unordered"`
	// Interrupted counts how often it had to begin again because its history was gone: then something may be missing.
	Interrupted int `json:"interrupted"`
}

// Broken tells whether a promise to watchers was broken.
func (w WatchSummary) Broken() bool {
	return w.Missing+w.Differing+w.Duplicate+w.Unordered+w.Interrupted > 0
}

// watch is what a watcher has seen so far.
type watch struct {
	WatchSummary
	follows bool
	last    int64
	seen    map[string]int64
}

// Follow says that there is a watcher, whose view is part of the check.
func (l *Ledger) Follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch.follows, l.watch.seen = true, map[string]int64{}
}

// Watched notes an event. Each key is written once, and each write has a revision of its own.
func (l *Ledger) Watched(key string, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.watch
	w.Events++
	if revision <= w.last {
		w.Unordered++
	}
	w.last = max(w.last, revision)
	if _, twice := w.seen[key]; twice {
		w.Duplicate++
		return
	}
	w.seen[key] = revision
}

// Interrupted notes that the watcher lost its place.
func (l *Ledger) Interrupted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch.Interrupted++
}

// WatchedUpTo tells whether the watcher has seen every acknowledged write.
func (l *Ledger) WatchedUpTo() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watch.last >= l.highest
}

// compareWatch counts what the watcher has missed. The caller holds the lock.
func (l *Ledger) compareWatch() {
	if !l.watch.follows {
		return
	}
	for key, a := range l.acked {
		switch revision, ok := l.watch.seen[key]; {
		case !ok:
			l.watch.Missing++
		case revision != a.Revision:
			l.watch.Differing++
		}
	}
}
