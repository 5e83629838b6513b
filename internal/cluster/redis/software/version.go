package software

import (
	"cmp"

	"github.com/quorate/quorate/internal/version"
)

// Older tells whether one version is of an earlier minor than another. One that cannot be read proves nothing.
func Older(a, b string) bool {
	x, errX := ParseVersion(a)
	y, errY := ParseVersion(b)
	return errX == nil && errY == nil && cmp.Or(cmp.Compare(x.Major, y.Major), cmp.Compare(x.Minor, y.Minor)) < 0
}

// Version of a server.
type Version = version.Version

// ParseVersion reads "8.0.2", also with a suffix as in "8.0.2-bookworm".
func ParseVersion(text string) (Version, error) { return version.Parse(text) }

// SamePatchLine tells whether two versions differ in the patch level at most. A server may report a version that
// cannot be read, which proves nothing.
func SamePatchLine(running, wanted string) bool {
	a, errA := ParseVersion(running)
	b, errB := ParseVersion(wanted)
	return errA != nil || errB != nil || (a.Major == b.Major && a.Minor == b.Minor)
}

// CompareVersions orders versions; one that cannot be read comes first.
func CompareVersions(a, b string) int {
	x, errX := ParseVersion(a)
	y, errY := ParseVersion(b)
	if errX != nil || errY != nil {
		return cmp.Compare(a, b)
	}
	return x.Compare(y)
}
