package etcdrestore

import (
	"fmt"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/version"
)

// Compatible tells whether an etcd of version to runs with data of version from, see etcd.RunsDataOf. The error is ErrIncompatible.
func Compatible(from, to string) error {
	source, err := known(from)
	if err != nil {
		return err
	}
	target, err := known(to)
	if err != nil {
		return err
	}
	if !model.RunsDataOf(target, source) {
		return fmt.Errorf("%w: data of etcd 3.%d is for 3.%d or 3.%d, not for %s", ErrIncompatible, source.Minor, source.Minor, source.Minor+1, to)
	}
	return nil
}

// known reads versions such as 3.6.16, 3.6.0-rc.1, v3.6 and 3.6 whose data this package reads and writes.
func known(text string) (model.Version, error) {
	first, last := model.Minors()
	v, err := version.Parse(text)
	if err != nil || v.Major != 3 || v.Minor < first || v.Minor > last {
		return model.Version{}, fmt.Errorf("%w: etcd %q is not between 3.%d and 3.%d", ErrIncompatible, text, first, last)
	}
	return v, nil
}

// minor is the minor version of what known reads.
func minor(text string) (int, error) {
	v, err := known(text)
	return v.Minor, err
}
