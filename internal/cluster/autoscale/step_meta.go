package autoscale

import "github.com/quorate/quorate/internal/cluster"

func (SetShards) Meta() cluster.Meta  { return cluster.Meta{Reason: "ChangingShards"} }
func (SetMemory) Meta() cluster.Meta  { return cluster.Meta{Reason: "ChangingMemory"} }
func (SetStorage) Meta() cluster.Meta { return cluster.Meta{Reason: "GrowingVolumes"} }
