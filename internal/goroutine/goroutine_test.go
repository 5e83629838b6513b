package goroutine

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAPanicIsTheErrorOfItsOwnCallAlone(t *testing.T) {
	failure := errors.New("a failure")
	errs := Each(3, func(i int) error {
		switch i {
		case 0:
			return failure
		case 1:
			panic("of one call")
		}
		return nil
	})
	if !errors.Is(errs[0], failure) || errs[1] == nil || errs[1].Error() != "panic: of one call" || errs[2] != nil {
		t.Errorf("errors %v", errs)
	}
}

func TestAPanicOfAGroupEndsItsContext(t *testing.T) {
	g, ctx := NewGroup(t.Context())
	g.Go(func() error {
		<-ctx.Done()
		return nil
	})
	g.Go(func() error {
		var none []int
		return fmt.Errorf("value %d", none[len(t.Name())])
	})
	if p := new(PanicError); !errors.As(g.Wait(), &p) {
		t.Errorf("error %v, want the panic", g.Wait())
	}
}

func TestTheEndOfAGoroutineIsToldOfItsPanic(t *testing.T) {
	end := make(chan error)
	Go(func() error { panic(strings.Repeat("a", 10<<10)) }, func(err error) { end <- err })
	if err := <-end; err == nil || len(err.Error()) > 2*maxText {
		t.Errorf("error %v, want a short one", err)
	}
}

// Tests and the programs below test/ may start goroutines as they like: a panic ends only them.
func TestNoOtherPackageStartsGoroutines(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		here, _ := filepath.Rel(root, path)
		if err != nil || d.IsDir() {
			if slices.Contains([]string{".git", "test", filepath.Join("internal", "goroutine")}, here) {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		for _, found := range starts(t, path, nil) {
			t.Errorf("%s: use internal/goroutine, which turns a panic into an error", found)
		}
		return nil
	})
	if err != nil || files < 200 {
		t.Errorf("%d files are read, error %v", files, err)
	}
}

func TestEveryWayToStartAGoroutineIsFound(t *testing.T) {
	source := `package p
import (
	"sync"
	"golang.org/x/sync/errgroup"
)
var g errgroup.Group
func f() {
	go f()
	var wg sync.WaitGroup
	wg.Go(f)
}`
	if found := starts(t, "p.go", source); len(found) != 3 {
		t.Errorf("found %v, want the import of errgroup, the go statement and the WaitGroup", found)
	}
}

// starts returns the positions in a file that start goroutines. It goes by the type WaitGroup, not
// by calls of its method Go: those cannot be told from others without type checking.
func starts(t *testing.T, path string, source any) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		bad := false
		switch n := n.(type) {
		case *ast.GoStmt:
			bad = true
		case *ast.ImportSpec:
			bad = n.Path.Value == `"golang.org/x/sync/errgroup"`
		case *ast.SelectorExpr:
			of, _ := n.X.(*ast.Ident)
			bad = of != nil && of.Name == "sync" && n.Sel.Name == "WaitGroup"
		}
		if bad {
			found = append(found, set.Position(n.Pos()).String())
		}
		return true
	})
	return found
}
