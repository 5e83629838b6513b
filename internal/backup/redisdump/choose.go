package redisdump

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrNoSource is returned by Choose if no server of a shard can be copied.
var ErrNoSource = errors.New("no server can be copied")

// Position is a place in the stream of writes that a primary sends to its replicas.
type Position struct {
	// ReplicationID names the stream. It changes with a failover.
	ReplicationID string
	// Offset in bytes.
	Offset int64
}

// Candidate is a server of a shard as it describes itself.
type Candidate struct {
	Name string
	// Primary is false for a replica.
	Primary bool
	// LinkUp says of a replica that it follows its primary, and has got everything at first.
	LinkUp bool
	// Loading says that it does not serve yet.
	Loading bool
	// Position up to which it has got writes.
	Position Position
}

// ParseCandidate reads the answer to INFO, of which the sections replication and persistence are of interest.
// https://redis.io/docs/latest/commands/info/
func ParseCandidate(name, info string) (Candidate, error) {
	fields := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		if key, value, found := strings.Cut(strings.TrimSpace(lines.Text()), ":"); found {
			fields[key] = value
		}
	}
	c := Candidate{Name: name, Loading: fields["loading"] == "1", Position: Position{ReplicationID: fields["master_replid"]}}
	offset := "master_repl_offset"
	switch fields["role"] {
	case "master":
		c.Primary = true
	case "slave":
		c.LinkUp = fields["master_link_status"] == "up" && fields["master_sync_in_progress"] != "1"
		offset = "slave_repl_offset"
	default:
		return c, fmt.Errorf("INFO of %s tells the role %q", name, fields["role"])
	}
	var err error
	if c.Position.Offset, err = strconv.ParseInt(fields[offset], 10, 64); err != nil {
		return c, fmt.Errorf("INFO of %s tells no %s: %w", name, offset, err)
	}
	return c, nil
}

// Choice is the server of a shard to copy.
type Choice struct {
	Candidate
	// PrimarySeen says that the primary answered, and PrimaryPosition where it was.
	PrimarySeen     bool
	PrimaryPosition Position
	// Gap is how many bytes of writes the choice was behind its primary, as far as that is known.
	Gap int64
	// Reason in words.
	Reason string
}

// Choose picks the replica that is furthest and at most maxGap bytes behind the primary, and else the primary itself. If no primary
// answered, a replica that still follows it does. It is to be given what the servers said at about the same time: offsets of
// a replica that was asked later than its primary may be ahead of that, which counts as no gap.
func Choose(servers []Candidate, maxGap int64) (Choice, error) {
	var primary *Candidate
	var replicas []Candidate
	for _, s := range servers {
		switch {
		case s.Loading:
		case s.Primary && primary != nil:
			return Choice{}, fmt.Errorf("%w: both %s and %s are primaries", ErrNoSource, primary.Name, s.Name)
		case s.Primary:
			primary = &s
		case s.LinkUp:
			replicas = append(replicas, s)
		}
	}
	slices.SortFunc(replicas, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Position.Offset, a.Position.Offset), strings.Compare(a.Name, b.Name))
	})
	if primary == nil {
		if len(replicas) == 0 {
			return Choice{}, fmt.Errorf("%w: among %d servers is no primary, and no replica with a link to one", ErrNoSource, len(servers))
		}
		return Choice{Candidate: replicas[0], Reason: "the replica that is furthest; the primary did not answer"}, nil
	}
	choice := Choice{Candidate: *primary, PrimarySeen: true, PrimaryPosition: primary.Position, Reason: "no replica follows the primary"}
	for _, r := range replicas {
		if r.Position.ReplicationID != primary.Position.ReplicationID {
			continue
		}
		gap := max(0, primary.Position.Offset-r.Position.Offset)
		if gap > maxGap {
			choice.Reason = fmt.Sprintf("the best replica is %d bytes behind", gap)
			return choice, nil
		}
		choice.Candidate, choice.Gap, choice.Reason = r, gap, "a replica that has caught up"
		return choice, nil
	}
	return choice, nil
}
