package users

import "github.com/quorate/quorate/internal/cluster"

func (Protect) Meta() cluster.Meta { return cluster.Meta{Reason: "AddingFinalizer"} }
func (Publish) Meta() cluster.Meta { return cluster.Meta{Reason: "PublishingUser"} }
func (Release) Meta() cluster.Meta { return cluster.Meta{Reason: "Releasing"} }
