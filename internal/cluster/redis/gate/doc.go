// Package gate decides whether a server may start from the disk it has: as it is, as an empty node,
// or not at all.
//
// It is the part of `agent gate` that is pure: values in, a Decision out. It reads no disk.
package gate
