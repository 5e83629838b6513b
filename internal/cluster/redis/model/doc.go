// Package model holds what is known about a Redis or Valkey cluster: the observed State, what each
// server reports (Node, and its table of the cluster), and a View with the facts that most rules ask
// for, such as the primary of a shard.
//
// It does no I/O and decides nothing. Facts that fewer rules ask for are in package facts.
package model
