// Package anomalies finds servers and shards of Redis that behave unlike the others or unlike before:
// slow answers, clocks that are off, replicas that are behind, uneven load.
//
// It remembers figures between reconciles and reports what it finds. It changes nothing, and no step
// depends on it.
package anomalies
