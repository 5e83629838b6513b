package redisdump

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// ErrIncompatible is returned for a dump that a server does not take.
var ErrIncompatible = errors.New("the server cannot load the dump")

// Software is what a server runs.
type Software struct {
	// Engine is EngineRedis or EngineValkey.
	Engine string
	// Version as the server tells it, such as 8.0.2.
	Version string
}

// String has the engine and the version in it.
func (s Software) String() string { return strings.TrimSpace(s.Engine + " " + s.Version) }

// Versions of RDB between these are Redis's alone, and Valkey refuses them unless its rdb-version-check is relaxed
// (RDB_FOREIGN_VERSION in src/rdb.h of Valkey).
const (
	firstForeign = 12
	lastForeign  = 79
)

// Compatible tells whether a server takes a dump, by versions alone: a nil error promises nothing about values of modules. The error is an
// ErrIncompatible that says what would take it.
func Compatible(from Software, rdbVersion int, to Software) error {
	newest, err := to.rdb()
	if err != nil {
		return err
	}
	foreign := to.Engine == EngineValkey && rdbVersion >= firstForeign && rdbVersion <= lastForeign
	if rdbVersion <= newest && !foreign {
		return nil
	}
	return fmt.Errorf("%w: what %s wrote has RDB version %d, and %s takes up to %s; restore it into %s",
		ErrIncompatible, from, rdbVersion, to, upTo(to.Engine, newest), takers(rdbVersion))
}

// upTo is the highest version of RDB that is not foreign, for the message.
func upTo(engine string, newest int) string {
	if engine == EngineValkey && newest > lastForeign {
		return fmt.Sprintf("%d, and %d to %d", firstForeign-1, lastForeign+1, newest)
	}
	return strconv.Itoa(newest)
}

// takers names the first versions that read a version of RDB.
func takers(rdbVersion int) string {
	var names []string
	for _, engine := range []string{EngineRedis, EngineValkey} {
		for _, l := range software.Lines() {
			foreign := engine == EngineValkey && rdbVersion >= firstForeign && rdbVersion <= lastForeign
			native := engine == EngineRedis && rdbVersion > lastForeign
			if string(l.Engine) == engine && l.RDB >= rdbVersion && !foreign && !native {
				names = append(names, l.String()+" or later")
				break
			}
		}
	}
	if len(names) == 0 {
		return "a later version of the engine that wrote it"
	}
	return strings.Join(names, ", or ")
}

// rdb is the version of RDB that the software writes. It reads that one and all earlier ones.
func (s Software) rdb() (int, error) {
	can, err := software.Release{Engine: v1alpha1.RedisEngine(s.Engine), Version: s.Version}.Capabilities()
	if err != nil {
		return 0, fmt.Errorf("the version %q cannot be read: %w", s.Version, err)
	}
	if can.RDB == 0 {
		return 0, fmt.Errorf("%w: %s is not supported", ErrIncompatible, s)
	}
	return can.RDB, nil
}
