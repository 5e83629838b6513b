package model

import (
	"fmt"
	"strings"
)

// Capabilities are the facts about a version of etcd by which the operator decides. Which keys of
// the configuration file users may set is a table of its own, see freeParameters in package config.
type Capabilities struct {
	// Supported says that the operator runs this version. Its probes need /readyz and /livez.
	Supported bool
	// RestrictsPeers says that the configuration file has allowed-cn and allowed-hostname, without
	// which certificates of clients open the peer port. PeerNameLists says that both take a list.
	RestrictsPeers, PeerNameLists bool
	// SkipsClientSAN says that the configuration file has skip-client-san-verification.
	SkipsClientSAN bool
	// FeatureGates says that the checks and options which the operator sets are feature gates; before,
	// they are flags named experimental-*.
	FeatureGates bool
	// WritesLegacyLog says that members write entries into the log that later versions do not read,
	// and ReadsLegacyLog that members start from a log with such entries.
	WritesLegacyLog, ReadsLegacyLog bool
	// UpgradesFrom is the oldest version of the same minor version from which members survive the
	// upgrade to the next minor version; zero: any.
	UpgradesFrom Version
	// Newest release of the minor version that the operator is tested with. An upgrade over several
	// minor versions passes through it.
	Newest Version
}

// line is a minor version of etcd 3. Patch levels are the first ones with a capability.
type line struct {
	minor          int
	first          int // Patch level that is Supported.
	restrictsPeers int
	peerNameLists  int
	upgradesFrom   int
	newest         int
	Capabilities   // Those that all patch levels have.
}

// lines are the minor versions that the operator runs, in ascending order. A later version has the
// capabilities of the last one, and an earlier one those of the first, but neither is Supported.
// Newest is the one in hack/versions.env. Sources:
//
//   - Supported: https://etcd.io/docs/v3.5/op-guide/monitoring/ (/readyz and /livez since 3.5.11).
//   - RestrictsPeers, PeerNameLists, SkipsClientSAN: server/embed/config.go, CHANGELOG-3.5.md
//     (3.5.14 and 3.5.15) and CHANGELOG-3.6.md.
//   - FeatureGates: https://etcd.io/docs/v3.6/upgrades/upgrade_3_6/.
//   - WritesLegacyLog, ReadsLegacyLog: seen with 3.5.35, 3.6.16 and 3.7.3. 3.7 ends with a panic
//     when it finds an entry of 3.5 behind the last snapshot on the disk.
//   - UpgradesFrom: with earlier ones, voters may come up as learners and removed members may come
//     back (etcd issues 19557, 20793 and 20967).
var lines = []line{
	{
		minor: 5, first: 11, restrictsPeers: 14, peerNameLists: 15, upgradesFrom: 26, newest: 35,
		Capabilities: Capabilities{WritesLegacyLog: true, ReadsLegacyLog: true},
	},
	{minor: 6, newest: 16, Capabilities: Capabilities{SkipsClientSAN: true, FeatureGates: true, ReadsLegacyLog: true}},
	{minor: 7, newest: 3, Capabilities: Capabilities{SkipsClientSAN: true, FeatureGates: true}},
}

// at is a version of the line.
func (l line) at(patch int) Version { return Version{Major: 3, Minor: l.minor, Patch: patch} }

// CapabilitiesOf returns the capabilities of a version.
func CapabilitiesOf(v Version) Capabilities {
	l := lines[0]
	for _, next := range lines {
		if !v.Less(next.at(0)) {
			l = next
		}
	}
	own := v.Major == 3 && v.Minor == l.minor
	out := l.Capabilities
	out.Supported = own && v.Patch >= l.first
	out.RestrictsPeers = !v.Less(l.at(l.restrictsPeers))
	out.PeerNameLists = !v.Less(l.at(l.peerNameLists))
	if own {
		out.UpgradesFrom, out.Newest = l.at(l.upgradesFrom), l.at(l.newest)
	}
	return out
}

// RunsDataOf tells whether a version starts from data that another one wrote: of the same minor
// version or the one before, which is what etcd supports in an upgrade
// (https://etcd.io/docs/v3.6/upgrades/). It would start from older data too, which is not tested,
// and refuses newer data.
func RunsDataOf(v, wrote Version) bool {
	return v.Major == wrote.Major && (v.Minor == wrote.Minor || v.Minor == wrote.Minor+1)
}

// Minors returns the first and the last minor version of etcd 3 that has a line.
func Minors() (first, last int) { return lines[0].minor, lines[len(lines)-1].minor }

// Supported names the supported versions: "3.5 (from 3.5.11), 3.6 or 3.7".
func Supported() string {
	var names []string
	for _, l := range lines {
		name := fmt.Sprintf("3.%d", l.minor)
		if l.first > 0 {
			name += fmt.Sprintf(" (from %s)", l.at(l.first))
		}
		names = append(names, name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
