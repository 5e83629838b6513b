package etcdhistory

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Directory is where all segments are below.
const Directory = "log/"

// Name is what a segment is called: log/<timeline>/<from>-<to>, with both revisions in 16 hexadecimal digits.
type Name struct {
	// Timeline tells histories apart which have revisions of their own: the ID of the cluster in hexadecimal, and whatever else is
	// necessary. Letters, digits, dots, hyphens and underscores.
	Timeline string
	// From is the revision before the first in the segment, and To its last.
	From, To int64
}

func (n Name) String() string {
	return fmt.Sprintf("%s%016x-%016x", Prefix(n.Timeline), n.From, n.To)
}

// Prefix is what the names of all segments of a timeline begin with.
func Prefix(timeline string) string { return Directory + timeline + "/" }

var (
	timelines = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	names     = regexp.MustCompile(`^log/([A-Za-z0-9][A-Za-z0-9._-]{0,127})/([0-9a-f]{16})-([0-9a-f]{16})$`)
)

// ParseName is the reverse of String. What is not the name of a segment is not an error: others may keep things nearby.
func ParseName(s string) (Name, bool) {
	parts := names.FindStringSubmatch(s)
	if parts == nil {
		return Name{}, false
	}
	from, err1 := strconv.ParseInt(parts[2], 16, 64)
	to, err2 := strconv.ParseInt(parts[3], 16, 64)
	if err1 != nil || err2 != nil || from >= to {
		return Name{}, false
	}
	return Name{parts[1], from, to}, true
}

// Names returns the segments of a timeline among the objects of a store, in order.
func Names(objects []Object, timeline string) []Name {
	var out []Name
	for _, o := range objects {
		if n, ok := ParseName(o.Name); ok && n.Timeline == timeline {
			out = append(out, n)
		}
	}
	return sorted(out)
}

// sorted puts what begins first in front, and of these what reaches farthest.
func sorted(in []Name) []Name {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.To, a.To))
	})
	return out
}

// Chain picks segments that hold, one after the other, every revision after base up to and including to; to 0 is the newest revision in
// any of them. They may overlap. Nothing is necessary for to <= base. If a revision is missing, the error is ErrGap and names the first
// range that is.
func Chain(names []Name, base, to int64) ([]Name, error) {
	if to == 0 {
		to = newest(names)
	}
	chain, reached := extend(names, base, to)
	if reached >= to {
		return chain, nil
	}
	next := to
	for _, n := range names {
		if n.From > reached {
			next = min(next, n.From)
		}
	}
	return nil, fmt.Errorf("%w: from %d to %d", ErrGap, reached+1, next)
}

// Latest is the newest revision that segments lead to without a hole from base on.
func Latest(names []Name, base int64) int64 {
	_, reached := extend(names, base, max(base, newest(names)))
	return reached
}

func newest(names []Name) (revision int64) {
	for _, n := range names {
		revision = max(revision, n.To)
	}
	return revision
}

// extend takes, time and again, the segment that reaches farthest of those that begin no later than where the last one ended.
func extend(names []Name, base, to int64) (chain []Name, reached int64) {
	reached = base
	rest := sorted(names)
	for reached < to {
		var best Name
		for len(rest) > 0 && rest[0].From <= reached {
			if rest[0].To > best.To {
				best = rest[0]
			}
			rest = rest[1:]
		}
		if best.To <= reached {
			break
		}
		chain, reached = append(chain, best), best.To
	}
	return chain, reached
}

// Obsolete returns the segments that no restore needs any more when the oldest full snapshot that is kept holds the revision base.
func Obsolete(names []Name, base int64) (out []Name) {
	for _, n := range names {
		if n.To <= base {
			out = append(out, n)
		}
	}
	return out
}
