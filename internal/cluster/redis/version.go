package redis

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version of a server.
type Version struct{ Major, Minor, Patch int }

// ParseVersion reads "8.0.2", also with a suffix as in "8.0.2-bookworm".
func ParseVersion(text string) (Version, error) {
	var v Version
	core, _, _ := strings.Cut(text, "-")
	parts := strings.Split(core, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return v, fmt.Errorf("version %q is not of the form major.minor.patch", text)
	}
	for i, field := range []*int{&v.Major, &v.Minor, &v.Patch}[:len(parts)] {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			return v, fmt.Errorf("version %q is not of the form major.minor.patch", text)
		}
		*field = n
	}
	return v, nil
}

// AtLeast reports whether a version is the given one or later.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || (v.Major == major && v.Minor >= minor)
}

// samePatchLine tells whether two versions differ in the patch level at most. A server may report a version that
// cannot be read, which proves nothing.
func samePatchLine(running, wanted string) bool {
	a, errA := ParseVersion(running)
	b, errB := ParseVersion(wanted)
	return errA != nil || errB != nil || (a.Major == b.Major && a.Minor == b.Minor)
}

// compareVersions orders versions; one that cannot be read comes first.
func compareVersions(a, b string) int {
	x, errX := ParseVersion(a)
	y, errY := ParseVersion(b)
	if errX != nil || errY != nil {
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(x.Major, y.Major), cmp.Compare(x.Minor, y.Minor), cmp.Compare(x.Patch, y.Patch))
}
