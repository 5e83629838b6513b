package model

import (
	"github.com/quorate/quorate/internal/version"
)

// Hop returns the next version on the way from one version to another, later one.
func Hop(from, to Version) Version {
	can := CapabilitiesOf(from)
	switch {
	case from.Minor == to.Minor:
		return to
	case from.Less(can.UpgradesFrom):
		return can.Newest
	case from.Minor+1 == to.Minor:
		return to
	}
	return CapabilitiesOf(Version{Major: from.Major, Minor: from.Minor + 1}).Newest
}

// Running is the version of the member in a pod, zero when it does not answer.
func (p Pod) Running() Version {
	if p.Status == nil {
		return Version{}
	}
	v, _ := ParseVersion(p.Status.Version) // Zero for one that cannot be read.
	return v
}

// Version of etcd.
type Version = version.Version

// ParseVersion reads a version such as 3.6.16, with or without a leading v.
func ParseVersion(s string) (Version, error) { return version.ParseRelease(s) }
