package software

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/api/v1alpha1"
)

// Capabilities are the facts about a release line by which the operator decides. What a server
// reports itself, the adapter reads from the server: commands (ERR unknown subcommand) and
// parameters (CONFIG GET).
type Capabilities struct {
	// AnnouncesName says that redis.conf has cluster-announce-human-nodename. A server does not start
	// with a directive that it does not have.
	AnnouncesName bool
	// SetListpacks says that redis.conf has set-max-listpack-entries and set-max-listpack-value.
	SetListpacks bool
	// LiteralACL says that ACL LIST returns the command rules of a user as they were set.
	LiteralACL bool
	// SlotStats says that there is CLUSTER SLOT-STATS. ACL SETUSER rejects a command that the server
	// does not have.
	SlotStats bool
	// SlotMigration is the command with which servers migrate slots.
	SlotMigration SlotMigration
	// RDB is the version of the RDB format that servers write. They read it and all earlier ones.
	RDB int
}

// SlotMigration is the command with which servers migrate slots between them.
type SlotMigration string

const (
	// SlotMigrationNone says that there is none: the operator moves keys with MIGRATE.
	SlotMigrationNone SlotMigration = ""
	// SlotMigrationPush is called on the source.
	SlotMigrationPush SlotMigration = "CLUSTER MIGRATESLOTS"
	// SlotMigrationPull is called on the target.
	SlotMigrationPull SlotMigration = "CLUSTER MIGRATION"
)

// Line is a release line: all versions from its first one to the next line of its engine.
type Line struct {
	Engine       v1alpha1.RedisEngine
	Major, Minor int
	Capabilities
}

// String names the line as users do.
func (l Line) String() string { return fmt.Sprintf("%s %d.%d", l.Engine, l.Major, l.Minor) }

// releases are the release lines of each engine in ascending order. A version after the last line
// has the capabilities of that line. Sources:
//
//   - AnnouncesName, SetListpacks: redis.conf of 7.0 and 7.2 (release notes of Redis 7.2 RC1);
//     Valkey began as Redis 7.2.
//   - LiteralACL: https://github.com/redis/redis/pull/11224. Redis has it since 7.2; the
//     operator relies on it from the oldest line that is tested with it.
//   - SlotStats: https://redis.io/docs/latest/commands/cluster-slot-stats/ (8.2) and
//     https://github.com/valkey-io/valkey/releases/tag/8.0.0-rc1.
//   - SlotMigration: https://redis.io/docs/latest/commands/cluster-migration/ (8.4) and
//     https://valkey.io/topics/atomic-slot-migration/ (9.0).
//   - RDB: RDB_VERSION in src/rdb.h; Redis 8.6 and 8.8: https://github.com/redis/librdb/pull/93 and
//     https://github.com/redis/librdb/pull/101.
var releases = []Line{
	{v1alpha1.EngineRedis, 7, 0, Capabilities{RDB: 10}},
	{v1alpha1.EngineRedis, 7, 2, Capabilities{AnnouncesName: true, SetListpacks: true, RDB: 11}},
	{v1alpha1.EngineRedis, 7, 4, Capabilities{AnnouncesName: true, SetListpacks: true, RDB: 12}},
	{v1alpha1.EngineRedis, 8, 0, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, RDB: 12}},
	{v1alpha1.EngineRedis, 8, 2, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, SlotStats: true, RDB: 12}},
	{v1alpha1.EngineRedis, 8, 4, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, SlotStats: true, SlotMigration: SlotMigrationPull, RDB: 12}},
	{v1alpha1.EngineRedis, 8, 6, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, SlotStats: true, SlotMigration: SlotMigrationPull, RDB: 13}},
	{v1alpha1.EngineRedis, 8, 8, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, SlotStats: true, SlotMigration: SlotMigrationPull, RDB: 14}},

	{v1alpha1.EngineValkey, 7, 2, Capabilities{AnnouncesName: true, SetListpacks: true, RDB: 11}},
	{v1alpha1.EngineValkey, 8, 0, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, SlotStats: true, RDB: 11}},
	{v1alpha1.EngineValkey, 8, 1, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, SlotStats: true, RDB: 11}},
	{v1alpha1.EngineValkey, 9, 0, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, SlotStats: true, SlotMigration: SlotMigrationPush, RDB: 80}},
	{v1alpha1.EngineValkey, 9, 1, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, SlotStats: true, SlotMigration: SlotMigrationPush, RDB: 80}},
	{v1alpha1.EngineValkey, 9, 2, Capabilities{AnnouncesName: true, SetListpacks: true, LiteralACL: true, SlotStats: true, SlotMigration: SlotMigrationPush, RDB: 81}},
}

// Lines returns the release lines of both engines, those of one engine in ascending order.
func Lines() []Line { return slices.Clone(releases) }

// CapabilitiesOf returns the capabilities of a version: those of the last line of its engine that
// is not later. Zero for a version before the first line.
func CapabilitiesOf(engine v1alpha1.RedisEngine, v Version) Capabilities {
	var out Capabilities
	for _, l := range releases {
		if l.Engine == engine && v.AtLeast(l.Major, l.Minor) {
			out = l.Capabilities
		}
	}
	return out
}

// Capabilities returns what the software can do. With an error, for a version that cannot be read,
// they are zero: nothing is relied on that not all servers have.
func (s Release) Capabilities() (Capabilities, error) {
	v, err := ParseVersion(s.Version)
	if err != nil {
		return Capabilities{}, err
	}
	return CapabilitiesOf(s.Engine, v), nil
}

// FirstWith returns the first line of an engine that has a capability; nil: none has.
func FirstWith(engine v1alpha1.RedisEngine, has func(Capabilities) bool) *Line {
	i := slices.IndexFunc(releases, func(l Line) bool { return l.Engine == engine && has(l.Capabilities) })
	if i < 0 {
		return nil
	}
	return &releases[i]
}
