package model

const (
	// tightShare of the quota makes even a small gain worth a defragmentation, as much as tightGain
	// (https://github.com/ahrtr/etcd-defrag recommends the rule).
	tightShare = 0.8
	tightGain  = 32 << 20
	// DefaultMinFree is how many free bytes are worth a defragmentation where they are also
	// LooseShare of the file: a busy database needs what a compaction frees again until the next
	// one.
	DefaultMinFree = 200 << 20
	// LooseShare is the free part of the file from which on DefaultMinFree counts. OpenShift
	// defragments from 45 %.
	LooseShare = 0.45
)

// Policy is what the specification says of maintenance.
type Policy struct {
	// Defragment allows defragmentations, in Window where there is one, from MinFree bytes on.
	Defragment bool
	Window     *Window
	MinFree    int64
	// Quota of the database in bytes.
	Quota int64
	// KeepsHistory says that the user switched compaction off.
	KeepsHistory bool
}

// WorthIt reports whether a defragmentation gains enough for what it costs.
func (w Policy) WorthIt(v Status) bool {
	free := v.DBSize - v.DBInUse
	if float64(v.DBSize) > tightShare*float64(w.Quota) && free >= tightGain {
		return true
	}
	return free >= w.MinFree && float64(free) >= LooseShare*float64(v.DBSize)
}
