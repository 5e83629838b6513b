// Command mutate changes one condition or statement of a package at a time and runs the tests of the
// package. A mutant whose tests pass is a survivor: it is printed with its position.
//
//	go run ./hack/mutate -skip Simulation ./internal/cluster/etcd/planner
//	go run ./hack/mutate -files planner.go,recovery.go -limit 25m ./internal/cluster/etcd/planner
//	go run ./hack/mutate -skip Simulation -every 10 ./internal/cluster/redis/planner
//
// All mutants are compiled into one test binary, because a build takes longer than the tests of a
// planner. A mutant is chosen by an environment variable.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the flags and the directory of the package.
type options struct {
	dir, files, run, skip string
	limit, timeout        time.Duration
	every                 int
}

func main() {
	var o options
	flag.StringVar(&o.files, "files", "", "mutate only these files, separated by commas")
	flag.StringVar(&o.run, "run", "", "run only the tests that match")
	flag.StringVar(&o.skip, "skip", "", "skip the tests that match")
	flag.DurationVar(&o.limit, "limit", time.Hour, "start no other mutant after this time")
	flag.IntVar(&o.every, "every", 1, "run one of so many mutants, evenly spread")
	flag.DurationVar(&o.timeout, "timeout", time.Minute, "a mutant whose tests take longer is killed")
	flag.Parse()
	if flag.NArg() != 1 || o.every < 1 {
		fmt.Fprintln(os.Stderr, "usage: mutate [flags] PACKAGE_DIRECTORY")
		os.Exit(2)
	}
	o.dir = flag.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := mutate(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// mutate prints the survivors of a package, and how many mutants there were.
func mutate(ctx context.Context, o options, out io.Writer) error {
	began := time.Now()
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	mutants, overlay, err := instrumentPackage(o, tmp)
	if err != nil {
		return err
	}
	t := tester{options: o, binary: filepath.Join(tmp, "mutants.test"), reached: filepath.Join(tmp, "reached")}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", t.binary, ".") //nolint:gosec // A developer's own command.
	build.Dir = o.dir
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the mutants: %w\n%s", err, text)
	}
	if text, ok := t.passes(ctx, 0); !ok {
		return fmt.Errorf("the tests fail without a mutant:\n%s", text)
	}
	reached, err := t.reachedMutants()
	if err != nil {
		return err
	}
	killed, survived, unreached, left := 0, 0, 0, 0
	for i, m := range mutants {
		switch {
		case !reached[i+1]:
			unreached++
			_, _ = fmt.Fprintf(out, "%s (not reached)\n", m)
		case i%o.every != 0 || ctx.Err() != nil || time.Since(began) > o.limit:
			left++
		default:
			if _, ok := t.passes(ctx, i+1); ok {
				survived++
				_, _ = fmt.Fprintln(out, m)
			} else {
				killed++
			}
		}
	}
	_, err = fmt.Fprintf(out, "%s: %d mutants: %d killed, %d survived, %d not reached by a test, %d not run\n",
		o.dir, len(mutants), killed, survived, unreached, left)
	return errors.Join(err, ctx.Err())
}

// instrumentPackage writes the instrumented files to a directory, and the overlay that puts them in
// the place of the real ones.
func instrumentPackage(o options, tmp string) (mutants []mutant, overlay string, err error) {
	files, err := filepath.Glob(filepath.Join(o.dir, "*.go"))
	if err != nil {
		return nil, "", err
	}
	only := strings.FieldsFunc(o.files, func(r rune) bool { return r == ',' })
	replace, name := map[string]string{}, ""
	for _, file := range files {
		base := filepath.Base(file)
		if strings.HasSuffix(base, "_test.go") || len(only) > 0 && !slices.Contains(only, base) {
			continue
		}
		source, err := os.ReadFile(file) //nolint:gosec // A developer's own files.
		if err != nil {
			return nil, "", err
		}
		in, err := instrument(file, source, len(mutants))
		if err != nil {
			return nil, "", err
		}
		mutants, name = append(mutants, in.mutants...), in.name
		if err := put(replace, o.dir, base, tmp, in.source); err != nil {
			return nil, "", err
		}
	}
	if len(mutants) == 0 {
		return nil, "", fmt.Errorf("nothing in %s can be mutated", o.dir)
	}
	if err := put(replace, o.dir, "mutants_of_hack_mutate.go", tmp, runtimeOf(name, len(mutants))); err != nil {
		return nil, "", err
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	overlay = filepath.Join(tmp, "overlay.json")
	return mutants, overlay, os.WriteFile(overlay, raw, 0o600)
}

func put(replace map[string]string, dir, base, tmp, source string) error {
	path, err := filepath.Abs(filepath.Join(dir, base))
	if err != nil {
		return err
	}
	replace[path] = filepath.Join(tmp, base)
	return os.WriteFile(replace[path], []byte(source), 0o600)
}

// tester runs the test binary.
type tester struct {
	options
	binary, reached string
}

// passes runs the tests with one mutant, 0 for none, and returns what they print. Without a mutant
// the tests write down which ones they reach.
func (t tester) passes(ctx context.Context, mutant int) (string, bool) {
	args := []string{"-test.short", "-test.timeout", t.timeout.String()}
	if mutant > 0 {
		args = append(args, "-test.failfast")
	}
	if t.run != "" {
		args = append(args, "-test.run", t.run)
	}
	if t.skip != "" {
		args = append(args, "-test.skip", t.skip)
	}
	test := exec.CommandContext(ctx, t.binary, args...) //nolint:gosec // Built above.
	test.Dir = t.dir
	test.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, mutant))
	if mutant == 0 {
		test.Env = append(test.Env, reachedVariable+"="+t.reached)
	}
	text, err := test.CombinedOutput()
	return string(text), err == nil
}

func (t tester) reachedMutants() (map[int]bool, error) {
	raw, err := os.ReadFile(t.reached)
	if err != nil {
		return nil, fmt.Errorf("no mutant is reached by a test: %w", err)
	}
	out := map[int]bool{}
	for _, line := range strings.Fields(string(raw)) {
		id, err := strconv.Atoi(line)
		if err != nil {
			return nil, err
		}
		out[id] = true
	}
	return out, nil
}
