package etcd

// Quorum is the number of voters, out of n, that must agree.
func Quorum(n int) int { return n/2 + 1 }
