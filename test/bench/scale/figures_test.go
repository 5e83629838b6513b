package scale

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// snapshot is what a manager has counted so far.
type snapshot struct {
	at       time.Time
	families map[string]*dto.MetricFamily
}

// scrape reads the metrics of a manager, in the format that holds native histograms: the buckets of the others are too wide.
func scrape(ctx context.Context, port int) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", port), nil)
	if err != nil {
		return nil, err
	}
	format := expfmt.NewFormat(expfmt.TypeProtoDelim)
	req.Header.Set("Accept", string(format))
	trusting := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	resp, err := trusting.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	s := &snapshot{at: time.Now(), families: map[string]*dto.MetricFamily{}}
	for decoder := expfmt.NewDecoder(resp.Body, format); ; {
		var f dto.MetricFamily
		if err := decoder.Decode(&f); errors.Is(err, io.EOF) {
			return s, nil
		} else if err != nil {
			return nil, err
		}
		s.families[f.GetName()] = &f
	}
}

// sum adds up the values of a counter or gauge whose labels have the given values.
func (s *snapshot) sum(name string, labels ...string) (total float64) {
	for _, m := range s.families[name].GetMetric() {
		if has(m, labels) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return total
}

// seen counts the clusters that a manager has passed over: it remembers what members told only of those.
func (s *snapshot) seen() int {
	clusters := map[string]bool{}
	for _, name := range []string{"quorate_etcd_quorum_margin", "quorate_redis_replication_lag_bytes"} {
		for _, m := range s.families[name].GetMetric() {
			id := name
			for _, l := range m.GetLabel() {
				if l.GetName() == "namespace" || l.GetName() == "name" {
					id += "/" + l.GetValue()
				}
			}
			clusters[id] = true
		}
	}
	return len(clusters)
}

// has tells whether a series has labels: name, value, name, value.
func has(m *dto.Metric, labels []string) bool {
	for pair := range slices.Chunk(labels, 2) {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == pair[0] && l.GetValue() == pair[1] }) {
			return false
		}
	}
	return true
}

// buckets counts values by their upper bound.
type buckets map[float64]float64

// histogram reads the buckets of all series of a histogram that belong to the clusters' controllers. label tells which those are.
func (s *snapshot) histogram(name, label string) buckets {
	out := buckets{}
	for _, m := range s.families[name].GetMetric() {
		if has(m, []string{label, "etcd"}) || has(m, []string{label, "redis"}) {
			out.add(m.GetHistogram())
		}
	}
	return out
}

// add reads a native histogram: spans of buckets whose bounds are powers of 2^(2^-schema), each count told as the difference to the one before.
// https://prometheus.io/docs/specs/native_histograms/
func (b buckets) add(h *dto.Histogram) {
	b[h.GetZeroThreshold()] += float64(h.GetZeroCount())
	base := math.Pow(2, math.Pow(2, -float64(h.GetSchema())))
	index, count, n := int32(0), int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		index += span.GetOffset()
		for range span.GetLength() {
			count += h.GetPositiveDelta()[n]
			b[math.Pow(base, float64(index))] += float64(count)
			n, index = n+1, index+1
		}
	}
}

// since are the values that came after another time. The bounds of a histogram may have become wider meanwhile: what was in
// narrower buckets is in the wider one that holds them.
func (b buckets) since(before buckets) buckets {
	out, bounds := maps.Clone(b), slices.Sorted(maps.Keys(b))
	for bound, n := range before {
		i, _ := slices.BinarySearchFunc(bounds, bound*(1-1e-9), func(a, b float64) int {
			if a < b {
				return -1
			}
			return 1
		})
		if i < len(bounds) {
			out[bounds[i]] -= n
		}
	}
	return out
}

func (b buckets) count() (n float64) {
	for _, v := range b {
		n += v
	}
	return n
}

// quantile is the upper bound of the bucket that holds it, NaN when nothing was counted.
func (b buckets) quantile(q float64) float64 {
	left := q * b.count()
	for _, bound := range slices.Sorted(maps.Keys(b)) {
		if left -= b[bound]; left <= 1e-9 && b.count() > 0 {
			return bound
		}
	}
	return math.NaN()
}

// figures are what happened between two snapshots.
type figures struct {
	seconds                  float64
	passes                   float64
	queue50, queue99         float64
	reconcile50, reconcile99 float64
	reads, writes            float64
	cpu                      float64
}

func between(a, b *snapshot) figures {
	d := func(name string, labels ...string) float64 { return b.sum(name, labels...) - a.sum(name, labels...) }
	queue := b.histogram("workqueue_queue_duration_seconds", "name").since(a.histogram("workqueue_queue_duration_seconds", "name"))
	work := b.histogram("controller_runtime_reconcile_time_seconds", "controller").since(a.histogram("controller_runtime_reconcile_time_seconds", "controller"))
	f := figures{
		seconds: b.at.Sub(a.at).Seconds(), passes: work.count(),
		queue50: queue.quantile(0.5), queue99: queue.quantile(0.99), reconcile50: work.quantile(0.5), reconcile99: work.quantile(0.99),
		reads: d("rest_client_requests_total", "method", "GET"), cpu: d("process_cpu_seconds_total"),
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		f.writes += d("rest_client_requests_total", "method", method)
	}
	return f
}

func (f figures) String() string {
	return fmt.Sprintf("%.0f s, %.0f passes (%.1f/s), queue p50 %s p99 %s, reconcile p50 %s p99 %s, API reads %.2f and writes %.3f for each pass, %.2f cores",
		f.seconds, f.passes, f.passes/f.seconds, brief(f.queue50), brief(f.queue99), brief(f.reconcile50), brief(f.reconcile99),
		f.reads/f.passes, f.writes/f.passes, f.cpu/f.seconds)
}

// brief is a time with as many digits as the buckets are worth.
func brief(seconds float64) string {
	switch {
	case math.IsNaN(seconds):
		return "none"
	case seconds < 0.001:
		return fmt.Sprintf("%.0f µs", seconds*1e6)
	case seconds < 1:
		return fmt.Sprintf("%.3g ms", seconds*1e3)
	}
	return fmt.Sprintf("%.3g s", seconds)
}

// memory of the manager in bytes.
type memory struct {
	// heap is what is left after a collection, goroutines run meanwhile.
	heap, goroutines float64
	// resident is what the kernel says of now, anonymous of that without the pages of files, and most the most there was.
	resident, anonymous, most float64
}

func (m memory) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("heap %.1f MiB, resident %.1f MiB (%.1f without pages of files, %.1f at most), %.0f goroutines",
		m.heap/mib, m.resident/mib, m.anonymous/mib, m.most/mib, m.goroutines)
}

// kernel fills in what the kernel says of a process.
func (m *memory) kernel(pid int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	found := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		into := map[string]*float64{"VmRSS": &m.resident, "RssAnon": &m.anonymous, "VmHWM": &m.most}[name]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
		if err != nil {
			return err
		}
		found, *into = found+1, kib*1024
	}
	if found != 3 {
		return fmt.Errorf("the kernel says %d of three figures", found)
	}
	return nil
}
