package model

// MaxSize is the largest number of members: more only slow every write down.
const MaxSize = 7

// Quorum is the number of voters, out of n, that must agree.
func Quorum(n int) int { return n/2 + 1 }
