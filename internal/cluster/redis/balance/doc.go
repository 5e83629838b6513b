// Package balance weighs the slots and shards of a cluster by memory or by commands, and proposes
// moves that level them.
//
// A proposal is a value that users approve. The rules that carry it out are in package planner.
package balance
