// Package autoscaler reconciles Autoscalers: it writes the shards, the memory and the volume
// size of a cluster's specification. It is the only controller that writes a specification.
package autoscaler
