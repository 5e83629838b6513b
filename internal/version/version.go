// Package version reads and compares the versions of data stores.
package version

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/blang/semver/v4"
)

// Version of a data store; zero: none.
type Version struct{ Major, Minor, Patch int }

// Parse reads a version such as 8.0.2. It accepts a leading v, a suffix after a hyphen as in
// 8.0.2-bookworm and 3.6.0-rc.1, which it drops, and a missing patch level, which it takes for 0.
func Parse(text string) (Version, error) {
	core, _, _ := strings.Cut(strings.TrimPrefix(text, "v"), "-")
	if strings.Count(core, ".") == 1 {
		core += ".0"
	}
	return read(core, text)
}

// ParseRelease reads the version of a release such as 3.6.16: all three numbers, without a suffix. It
// accepts a leading v.
func ParseRelease(text string) (Version, error) {
	return read(strings.TrimPrefix(text, "v"), text)
}

// read reads the numbers of a version, and nothing else. The error quotes the text that they are of.
func read(core, text string) (Version, error) {
	v, err := semver.Parse(core)
	if err != nil || len(v.Pre) > 0 || len(v.Build) > 0 || max(v.Major, v.Minor, v.Patch) > math.MaxInt32 {
		return Version{}, fmt.Errorf("version %q is not of the form major.minor.patch", text)
	}
	return Version{int(v.Major), int(v.Minor), int(v.Patch)}, nil //nolint:gosec // At most MaxInt32.
}

// Compare returns -1, 0 or 1 as v is older than o, the same, or newer.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.Major, o.Major), cmp.Compare(v.Minor, o.Minor), cmp.Compare(v.Patch, o.Patch))
}

// Less reports whether v is older than o.
func (v Version) Less(o Version) bool { return v.Compare(o) < 0 }

// AtLeast reports whether v is of a minor version or of a later one.
func (v Version) AtLeast(major, minor int) bool { return !v.Less(Version{major, minor, 0}) }

// String returns the version without a leading v.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }
