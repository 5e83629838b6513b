// Package slots is the arithmetic of hash slots: sets of slots, how to divide them among shards
// evenly or by weight, and which moves lead there.
//
// It knows no server and no state of a cluster.
package slots
