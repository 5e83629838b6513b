// Package gate decides whether a member may start from the disk it has: with its data, as a new
// member, from a backup, or not at all.
//
// It is the part of `agent gate` that is pure: values in, a Decision out. It reads no disk and asks no
// peer.
package gate
