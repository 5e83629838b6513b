package etcdrestore

import (
	"fmt"
	"strconv"
	"strings"
)

// firstMinor and lastMinor are the minor versions of etcd 3 whose data this package knows.
const (
	firstMinor = 5
	lastMinor  = 7
)

// Compatible tells whether an etcd of version to runs with data of version from: the same minor version, or the next one, which is what
// etcd supports in an upgrade (https://etcd.io/docs/v3.6/upgrades/). Older data directories than that etcd would start with, but nobody
// tests it; newer ones it refuses. The error is ErrIncompatible.
func Compatible(from, to string) error {
	source, err := minor(from)
	if err != nil {
		return err
	}
	target, err := minor(to)
	if err != nil {
		return err
	}
	if target != source && target != source+1 {
		return fmt.Errorf("%w: data of etcd 3.%d is for 3.%d or 3.%d, not for %s", ErrIncompatible, source, source, source+1, to)
	}
	return nil
}

// minor takes versions like 3.6.16, 3.6.0-rc.1, v3.6 and 3.6.
func minor(version string) (int, error) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) >= 2 && parts[0] == "3" {
		if n, err := strconv.Atoi(parts[1]); err == nil && n >= firstMinor && n <= lastMinor {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: etcd %q is not between 3.%d and 3.%d", ErrIncompatible, version, firstMinor, lastMinor)
}
