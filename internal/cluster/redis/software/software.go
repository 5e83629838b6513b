package software

import (
	"github.com/quorate/quorate/api/v1alpha1"
)

// Release is what a server runs.
type Release struct {
	Engine v1alpha1.RedisEngine
	// Version as the server tells it. From one that cannot be read nothing is expected that not all have.
	Version string
}

// String has the engine and the version in it.
func (s Release) String() string { return string(s.Engine) + " " + s.Version }
