package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// speaking are the packages whose words users read as the reason of a condition or of an event.
var speaking = []string{
	"api/v1alpha1", "controllers/*", "internal/cluster", "internal/cluster/etcd/*", "internal/cluster/redis/*",
	"internal/cluster/autoscale", "internal/backup/planner", "internal/backup/job",
	"cmd/agent",
}

var (
	camel    = regexp.MustCompile(`^[A-Z][a-z]+([A-Z][A-Za-z]*)?$`)
	constant = regexp.MustCompile(`^(r|.*R)eason`)
)

// words are the literals of a package that are reasons: constants that are named so, what functions reason return, and what the field Reason
// of a value or the function Wait, Refuse or Stall is given.
func words(t *testing.T, dir string) map[string]token.Position {
	t.Helper()
	files := token.NewFileSet()
	out := map[string]token.Position{}
	add := func(e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		if word, err := strconv.Unquote(lit.Value); err == nil && camel.MatchString(word) {
			out[word] = files.Position(lit.Pos())
		}
	}
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no code in %s: %v", dir, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			reasonsOf(n, add)
			return true
		})
	}
	return out
}

// reasonsOf passes what is a reason in one node.
func reasonsOf(n ast.Node, add func(ast.Expr)) {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) && constant.MatchString(name.Name) {
				add(n.Values[i])
			}
		}
	case *ast.FuncDecl:
		if constant.MatchString(n.Name.Name) && n.Body != nil {
			ast.Inspect(n.Body, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
					add(r.Results[0])
				}
				return true
			})
		}
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if name := last(to); i < len(n.Rhs) && constant.MatchString(name) {
				add(n.Rhs[i])
			}
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && constant.MatchString(key.Name) {
			add(n.Value)
		}
	case *ast.CallExpr:
		if name := last(n.Fun); len(n.Args) > 0 && slices.Contains([]string{"Wait", "Refuse", "Stall", "condition"}, name) {
			add(n.Args[0])
		}
	case *ast.CompositeLit: // Errors of the agent with the reason that each of them has.
		if _, keyed := first(n.Elts).(*ast.SelectorExpr); keyed && len(n.Elts) == 4 {
			add(n.Elts[1])
		}
	}
}

// last is the name that an expression ends with: Wait of cluster.Wait.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func first(all []ast.Expr) ast.Expr {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// said is docs/what-it-says.md with the pages that it leads to.
func said(t *testing.T) string {
	t.Helper()
	page, err := Read(root, "docs/what-it-says.md")
	if err != nil {
		t.Fatal(err)
	}
	text := page.Text
	read := map[string]bool{}
	for _, l := range page.Links {
		name, _, _ := strings.Cut(l.Target, "#")
		if name == "" || read[name] || strings.Contains(name, "/") {
			continue
		}
		read[name] = true
		to, err := Read(root, filepath.Join("docs", name))
		if err != nil {
			t.Fatal(err)
		}
		text += to.Text
	}
	return text
}

// silent are words that no user reads: what init containers report to the operator, which tells it in its own words, and tests of it.
var silent = []string{"Start", "SetAside", "Copying"}

func TestEveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	text := said(t)
	found := 0
	for _, dir := range speaking {
		for word, where := range words(t, dir) {
			found++
			if slices.Contains(silent, word) || strings.Contains(text, "`"+word+"`") {
				continue
			}
			t.Errorf("%s: the reason %s is neither in docs/what-it-says.md nor in a page that it leads to", where, word)
		}
	}
	if found < 150 {
		t.Errorf("only %d reasons were found", found)
	}
}

func TestEveryConditionIsExplained(t *testing.T) {
	t.Parallel()
	text := said(t)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api/v1alpha1/conditions.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Condition") {
			return true
		}
		found++
		if word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err != nil || !strings.Contains(text, "| `"+word+"`") {
			t.Errorf("the condition %s is in no table of docs/what-it-says.md or a page that it leads to (%v)", word, err)
		}
		return true
	})
	if found < 10 {
		t.Errorf("only %d conditions were found", found)
	}
}
