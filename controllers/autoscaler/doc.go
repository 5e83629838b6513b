// Package autoscaler reconciles Autoscalers: it writes the shards, the memory and the volume size of
// a cluster's specification.
//
// The operator never writes the specification of a user. This package is the one exception, for the
// fields that an Autoscaler asks for, so it acts like another user: shards through the scale
// subresource, memory and volume size as a patch of that field alone, all under the field manager
// quorate-autoscaler, with the resourceVersion that was decided on. No other package may.
package autoscaler
