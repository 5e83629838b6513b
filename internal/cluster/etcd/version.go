package etcd

import "github.com/quorate/quorate/internal/version"

// Version of etcd.
type Version = version.Version

// ParseVersion reads a version such as 3.6.16, with or without a leading v.
func ParseVersion(s string) (Version, error) { return version.ParseRelease(s) }
