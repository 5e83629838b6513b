package etcd

import (
	"fmt"
	"strconv"
	"strings"
)

// Version of etcd.
type Version struct{ Major, Minor, Patch int }

// firstReadyz is the oldest version whose /readyz and /livez the probes rely on
// (https://etcd.io/docs/v3.5/op-guide/monitoring/).
var firstReadyz = Version{3, 5, 11}

// firstRestricted is the oldest version whose configuration file restricts the certificates of peers.
var firstRestricted = Version{3, 5, 14}

// lastMinor is the newest minor version whose configuration keys are known.
const lastMinor = 7

// ParseVersion reads a version such as 3.6.16, with or without a leading v.
func ParseVersion(s string) (Version, error) {
	parts := strings.Split(strings.TrimPrefix(s, "v"), ".")
	if len(parts) != 3 {
		return Version{}, fmt.Errorf("version %q is not of the form 3.6.16", s)
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 {
			return Version{}, fmt.Errorf("version %q is not of the form 3.6.16", s)
		}
		n[i] = v
	}
	return Version{n[0], n[1], n[2]}, nil
}

// Supported reports whether the operator knows how to run this version.
func (v Version) Supported() bool {
	return v.Major == 3 && v.Minor <= lastMinor && !v.Less(firstReadyz)
}

// RestrictsPeers reports whether the peer port can reject clients' certificates of the same authority.
func (v Version) RestrictsPeers() bool { return !v.Less(firstRestricted) }

// Less reports whether v is older than o.
func (v Version) Less(o Version) bool {
	if v.Major != o.Major {
		return v.Major < o.Major
	}
	if v.Minor != o.Minor {
		return v.Minor < o.Minor
	}
	return v.Patch < o.Patch
}

// String returns the version without a leading v.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }
