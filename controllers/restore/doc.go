// Package restore reconciles Restores, and finds the backup that a cluster begins with or is
// restored from. The kinds of clusters carry a restore out themselves: they implement Target. It
// must not write to a data store, or start a restore that is not confirmed.
package restore
