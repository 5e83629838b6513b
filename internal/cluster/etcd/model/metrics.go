package model

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster/anomaly"
)

// MemberMetrics are what the metrics of a member say of its disk, and its time.
type MemberMetrics struct {
	// Fsync and Commit tell how long, in seconds, fsyncs of the log and commits of the database took since the member started
	// (https://etcd.io/docs/v3.6/metrics/).
	Fsync  anomaly.Histogram `json:"fsync"`
	Commit anomaly.Histogram `json:"commit"`
	// Time by its clock, in whole seconds, rounded down.
	Time time.Time `json:"time"`
}

const (
	fsyncFamily  = "etcd_disk_wal_fsync_duration_seconds_bucket"
	commitFamily = "etcd_disk_backend_commit_duration_seconds_bucket"
	// maxVitals is far more than all metrics of a member.
	maxVitals = 8 << 20
	// maxBuckets is far more than a histogram of etcd has: 14.
	maxBuckets = 100
)

// ParseMetrics reads the two histograms out of all metrics of a member, line by line, and nothing else. It is an error when one is missing.
func ParseMetrics(text io.Reader) (MemberMetrics, error) {
	var v MemberMetrics
	limited := &io.LimitedReader{R: text, N: maxVitals}
	lines := bufio.NewScanner(limited)
	for lines.Scan() {
		var err error
		if rest, ok := after(lines.Bytes(), fsyncFamily); ok {
			err = addBucket(&v.Fsync, rest)
		} else if rest, ok := after(lines.Bytes(), commitFamily); ok {
			err = addBucket(&v.Commit, rest)
		}
		if err != nil {
			return MemberMetrics{}, fmt.Errorf("line %.100q: %w", lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil {
		return MemberMetrics{}, err
	}
	if limited.N == 0 { // The last line may be cut off, and a shorter number is one too.
		return MemberMetrics{}, fmt.Errorf("the metrics have more than %d bytes", maxVitals)
	}
	for _, h := range []anomaly.Histogram{v.Fsync, v.Commit} {
		if len(h.Bounds) == 0 || len(h.Counts) != len(h.Bounds)+1 {
			return MemberMetrics{}, errors.New("the metrics have no complete histogram of fsyncs and commits")
		}
	}
	return v, nil
}

// after is what follows the name of a family in a line. Of other lines no copy is made: there are some thousand.
func after(line []byte, family string) (string, bool) {
	if len(line) < len(family) || string(line[:len(family)]) != family {
		return "", false
	}
	return string(line[len(family):]), true
}

// addBucket reads {le="0.001"} 42: the next bound and its count, of which the bound of the last is infinite.
func addBucket(h *anomaly.Histogram, rest string) error {
	label, value, ok := strings.Cut(rest, "} ")
	bound, isBound := strings.CutPrefix(label, `{le="`)
	if !ok || !isBound {
		return errors.New("it is no bucket")
	}
	le, err := strconv.ParseFloat(strings.TrimSuffix(bound, `"`), 64)
	if err != nil {
		return fmt.Errorf("bound: %w", err)
	}
	count, err := strconv.ParseFloat(value, 64)
	if err != nil || !(count >= 0 && count < math.MaxInt64) {
		return fmt.Errorf("count %.40q is no number of values", value)
	}
	last := len(h.Bounds) - 1
	switch {
	case len(h.Counts) == maxBuckets:
		return fmt.Errorf("it is one of more than %d buckets", maxBuckets)
	case len(h.Counts) > len(h.Bounds), last >= 0 && le <= h.Bounds[last]:
		return errors.New("the bounds do not grow")
	case !math.IsInf(le, 1):
		h.Bounds = append(h.Bounds, le)
	}
	h.Counts = append(h.Counts, uint64(count))
	return nil
}
