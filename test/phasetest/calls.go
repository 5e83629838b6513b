package phasetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// CheckCalls checks that the lists of the package in the working directory are the whole order:
// each rule is a plain function with the name of the rule, and no other function of the package
// uses it. So a rule neither decides in the place of another one nor wraps it.
func CheckCalls(t *testing.T) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	rules, faults := findCalls(fset, files)
	if rules == 0 {
		t.Error("the package lists no rule")
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// findCalls returns the number of rules that the files of a package list, and what is wrong with
// them. Imports stay unresolved: the functions of the package are known without them.
func findCalls(fset *token.FileSet, files []*ast.File) (int, []string) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}}
	_, _ = config.Check("planner", fset, files, info)
	listed, rules := map[*ast.Ident]bool{}, map[types.Object]bool{}
	var faults []string
	for _, call := range newRules(files) {
		name, fn := call.Args[0].(*ast.BasicLit), plain(call.Args[2])
		if name == nil || fn == nil || name.Value != strconv.Quote(fn.Name) {
			faults = append(faults, fmt.Sprintf("%s: the rule is not a plain function with its name", fset.Position(call.Pos())))
			continue
		}
		listed[fn], rules[info.Uses[fn]] = true, true
	}
	for ident, object := range info.Uses {
		if rules[object] && !listed[ident] {
			faults = append(faults, fmt.Sprintf("%s: %s uses the rule %s, which may decide in its own place only: "+
				"share a fact or a helper, or list another rule", fset.Position(ident.Pos()), caller(files, ident), ident.Name))
		}
	}
	slices.Sort(faults)
	return len(rules), faults
}

// newRules returns the calls of cluster.NewRule.
func newRules(files []*ast.File) (calls []*ast.CallExpr) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 3 {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "NewRule" {
					calls = append(calls, call)
				}
			}
			return true
		})
	}
	return calls
}

func plain(e ast.Expr) *ast.Ident {
	ident, _ := e.(*ast.Ident)
	return ident
}

// caller names the function that uses an identifier.
func caller(files []*ast.File, ident *ast.Ident) string {
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Pos() <= ident.Pos() && ident.Pos() < f.End() {
				return f.Name.Name
			}
		}
	}
	return "a variable of the package"
}
