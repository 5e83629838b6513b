// Command performance writes docs/performance.md and its charts, out of what is measured: the files in docs/performance. It is run by make
// manifests, in the root of the repository.
//
//	go run ./hack/performance             write the page anew
//	go run ./hack/performance bin/bench   first take over what was measured there
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/quorate/quorate/test/bench/figures"
	"github.com/quorate/quorate/test/picture"
)

const (
	dir    = "docs/performance"
	target = "docs/performance.md"
)

//go:embed performance.md.tmpl
var page string

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "performance:", err)
		os.Exit(1)
	}
}

func run(from []string) error {
	for _, d := range from {
		if err := take(d); err != nil {
			return err
		}
	}
	t, err := template.New(target).Funcs(template.FuncMap{"figures": show}).Parse(page)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return err
	}
	return os.WriteFile(target, []byte(b.String()), 0o644) //nolint:gosec // Everybody may read what is in the repository.
}

// take copies the files of all benchmarks that are published.
func take(from string) error {
	published, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil {
		return err
	}
	for _, path := range published {
		text, err := fs.ReadFile(os.DirFS(from), filepath.Base(path))
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was not measured again.
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // Everybody may read what is in the repository.
			return err
		}
	}
	return nil
}

// show is a benchmark as a table and charts.
func show(benchmark string) (string, error) {
	f, err := os.DirFS(dir).Open(benchmark + ".csv")
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	measured, all, err := figures.Read(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", benchmark, err)
	}
	sums := figures.Summarize(all)
	var b strings.Builder
	b.WriteString(figures.Table(sums))
	b.WriteString("\n")
	for i := 0; i < len(sums); {
		sides := alike(sums[i:])
		name := fmt.Sprintf("%s-%d.svg", benchmark, i)
		if err := draw(filepath.Join(dir, name), sides); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "![%s](performance/%s)\n", sides[0].What, name)
		i += len(sides)
	}
	fmt.Fprintf(&b, "\n[Every figure](performance/%s.csv), %s.", benchmark, measured)
	return b.String(), nil
}

// alike are the sides of what comes first.
func alike(sums []figures.Summary) []figures.Summary {
	n := 1
	for n < len(sums) && sums[n].What == sums[0].What {
		n++
	}
	return sums[:n]
}

func draw(path string, sides []figures.Summary) error {
	var groups []picture.Group
	var medians []float64
	for _, s := range sides {
		groups = append(groups, picture.Group{Name: s.Side, Values: s.Values})
		medians = append(medians, s.Median)
	}
	svg, err := picture.Dots(sides[0].What, sides[0].Unit, groups, medians)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(svg), 0o644) //nolint:gosec // Likewise.
}
