// Package figures keeps what benchmarks measure, every single figure of it, in files from which docs/performance.md is made.
package figures

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figure is one measurement of one side. Sides of the same thing are measured in turns, in the same run.
type Figure struct {
	// What was measured, Side whose it is, and Unit of the value: s, ms, MiB/s, keys/s.
	What, Side, Unit string
	Value            float64
}

var header = []string{"what", "side", "unit", "value"}

// File is what one benchmark has measured so far.
type File struct {
	f *os.File
	w *csv.Writer
}

// Create begins the file of a benchmark in a directory, in place of the one of a former run.
func Create(dir, benchmark string) (*File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("keep figures: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, filepath.Base(benchmark)+".csv"))
	if err != nil {
		return nil, fmt.Errorf("keep figures: %w", err)
	}
	if _, err := fmt.Fprintf(f, "# %s\n", provenance(time.Now())); err != nil {
		return nil, fmt.Errorf("keep figures: %w", err)
	}
	out := &File{f, csv.NewWriter(f)}
	return out, out.write(header)
}

// provenance says when and on what something was measured.
func provenance(now time.Time) string {
	return fmt.Sprintf("%s, %d processors (%s), %s", now.UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOARCH, runtime.Version())
}

// Add writes a figure at once: what was measured before a run is broken off stays.
func (o *File) Add(f Figure) error {
	return o.write([]string{f.What, f.Side, f.Unit, strconv.FormatFloat(f.Value, 'g', 6, 64)})
}

func (o *File) write(record []string) error {
	err := o.w.Write(record)
	o.w.Flush()
	if err := errors.Join(err, o.w.Error()); err != nil {
		return fmt.Errorf("keep figures: %w", err)
	}
	return nil
}

// Close ends the file.
func (o *File) Close() error { return o.f.Close() }

// Read reads a file: when and on what it was measured, and all figures.
func Read(r io.Reader) (measured string, all []Figure, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return "", nil, fmt.Errorf("read figures: %w", err)
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	measured, found := strings.CutPrefix(first, "# ")
	if !found {
		return "", nil, errors.New("read figures: the first line does not say when and on what they were measured")
	}
	records, err := csv.NewReader(strings.NewReader(rest)).ReadAll()
	if err != nil {
		return "", nil, fmt.Errorf("read figures: %w", err)
	}
	if len(records) == 0 || !slices.Equal(records[0], header) {
		return "", nil, fmt.Errorf("read figures: the second line is not %v", header)
	}
	for i, fields := range records[1:] {
		value, err := strconv.ParseFloat(fields[3], 64)
		if err != nil {
			return "", nil, fmt.Errorf("read figures: line %d: %w", i+3, err)
		}
		all = append(all, Figure{fields[0], fields[1], fields[2], value})
	}
	return measured, all, nil
}

// Summary is what many figures of one side come to.
type Summary struct {
	What, Side, Unit string
	// Values in the order in which they were measured.
	Values           []float64
	Median, P95, Max float64
}

// String says how many there are, and what they come to.
func (s Summary) String() string {
	return fmt.Sprintf("%s: median %.4g %s, p95 %.4g, max %.4g of %d", s.Side, s.Median, s.Unit, s.P95, s.Max, len(s.Values))
}

// Summarize puts figures together by what was measured and whose it is, in the order in which these came first. All sides of one thing follow each other.
func Summarize(figures []Figure) []Summary {
	var out []Summary
	for _, f := range figures {
		i := slices.IndexFunc(out, func(s Summary) bool { return s.What == f.What && s.Side == f.Side })
		if i < 0 {
			i, out = len(out), append(out, Summary{What: f.What, Side: f.Side, Unit: f.Unit})
		}
		out[i].Values = append(out[i].Values, f.Value)
	}
	first := func(s Summary) int { return slices.IndexFunc(figures, func(f Figure) bool { return f.What == s.What }) }
	slices.SortStableFunc(out, func(a, b Summary) int { return cmp.Compare(first(a), first(b)) })
	for i := range out {
		s := slices.Sorted(slices.Values(out[i].Values))
		n := len(s)
		out[i].Median = (s[(n-1)/2] + s[n/2]) / 2
		// The nearest rank: of fewer than twenty it is the greatest.
		out[i].P95, out[i].Max = s[min(n-1, (95*n+99)/100-1)], s[n-1]
	}
	return out
}
