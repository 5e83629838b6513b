package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

const (
	// function reports in a mutated file whether a mutant is the one that is tested.
	function        = "mutantIsActive"
	variable        = "QUORATE_MUTANT"
	reachedVariable = "QUORATE_MUTANTS_REACHED"
)

// mutant is one change of the source.
type mutant struct {
	at   token.Position
	text string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.at.Filename, m.at.Line, m.at.Column, m.text)
}

// instrumented is a file with all its mutants, which are numbered from 1.
type instrumented struct {
	// name is that of the package.
	name, source string
	mutants      []mutant
}

// instrumenter only inserts text, so that mutants nest.
type instrumenter struct {
	files   *token.FileSet
	source  []byte
	first   int
	mutants []mutant
	inserts []insert
	// skip are expressions that have a mutant already that means the same.
	skip map[ast.Expr]bool
}

type insert struct {
	offset int
	// order decides at one offset: ends come before beginnings, inner ends before outer ones, outer
	// beginnings before inner ones.
	order int
	text  string
}

// instrument returns a file in which function decides which mutant is active. The mutants are
// numbered after those of other files.
func instrument(name string, source []byte, after int) (instrumented, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return instrumented{}, err
	}
	in := &instrumenter{files: files, source: source, first: after, skip: map[ast.Expr]bool{}}
	ast.Inspect(file, in.visit)
	return instrumented{name: file.Name.Name, source: in.result(), mutants: in.mutants}, nil
}

// visit adds the mutants of a node: conditions that are always or never true, operands of && and ||
// that do not count, == for != and < for <= and the other way round, and statements that are left out.
func (in *instrumenter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.IfStmt:
		in.force(n.Cond, true, true)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, clause := range n.Body.List {
				if c, ok := clause.(*ast.CaseClause); ok {
					in.conditions(c.List)
				}
			}
		}
	case *ast.BinaryExpr:
		in.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT && !in.skip[n] {
			in.wrap(n, "not negated", func(id string) string { return ") != " + id + ")" })
		}
	case *ast.BlockStmt:
		in.statements(n.List)
	case *ast.CaseClause:
		in.statements(n.Body)
	case *ast.CommClause:
		in.statements(n.Body)
	}
	return true
}

func (in *instrumenter) conditions(list []ast.Expr) {
	for _, condition := range list {
		in.force(condition, true, true)
	}
}

func (in *instrumenter) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.LAND:
		in.force(n.X, true, false)
		in.force(n.Y, true, false)
	case token.LOR:
		in.force(n.X, false, true)
		in.force(n.Y, false, true)
	case token.EQL, token.NEQ:
		if !in.skip[n] {
			in.wrap(n, "the opposite", func(id string) string { return ") != " + id + ")" })
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		// The two differ where both sides are equal.
		same := fmt.Sprintf("((%s) == (%s))", in.raw(n.X), in.raw(n.Y))
		in.wrap(n, "with the other boundary", func(id string) string { return ") != (" + id + " && " + same + "))" })
	}
}

// force makes a condition always true, or never.
func (in *instrumenter) force(e ast.Expr, always, never bool) {
	if p, ok := e.(*ast.ParenExpr); ok {
		in.force(p.X, always, never)
		return
	}
	in.skip[e] = always && never
	if always {
		in.wrap(e, "always true", func(id string) string { return ") || " + id + ")" })
	}
	if never {
		in.wrap(e, "never true", func(id string) string { return ") && !" + id + ")" })
	}
}

// statements leaves out calls and assignments. A declaration is needed by what follows.
func (in *instrumenter) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt:
			if strings.HasPrefix(in.raw(s), "panic(") {
				continue // It ends a function.
			}
		case *ast.IncDecStmt:
		default:
			continue
		}
		id := in.mutant(s, "left out")
		in.insert(s, "if !"+id+" { ", " }")
	}
}

func (in *instrumenter) wrap(e ast.Expr, what string, end func(id string) string) {
	in.insert(e, "((", end(in.mutant(e, what)))
}

func (in *instrumenter) insert(n ast.Node, begin, end string) {
	// Inspect visits the outer node first: what is added first begins first and ends last.
	order := len(in.inserts) + 1
	from, to := in.offset(n.Pos()), in.offset(n.End())
	in.inserts = append(in.inserts, insert{from, order, begin}, insert{to, -order, end})
}

// mutant adds a mutant and returns the call that says whether it is active.
func (in *instrumenter) mutant(n ast.Node, what string) string {
	in.mutants = append(in.mutants, mutant{in.files.Position(n.Pos()), in.text(n) + ": " + what})
	return fmt.Sprintf("%s(%d)", function, in.first+len(in.mutants))
}

func (in *instrumenter) offset(p token.Pos) int { return in.files.Position(p).Offset }

func (in *instrumenter) raw(n ast.Node) string {
	return string(in.source[in.offset(n.Pos()):in.offset(n.End())])
}

func (in *instrumenter) text(n ast.Node) string { return strings.Join(strings.Fields(in.raw(n)), " ") }

func (in *instrumenter) result() string {
	slices.SortFunc(in.inserts, func(a, b insert) int {
		if a.offset != b.offset {
			return a.offset - b.offset
		}
		return a.order - b.order
	})
	var out strings.Builder
	last := 0
	for _, i := range in.inserts {
		out.Write(in.source[last:i.offset])
		out.WriteString(i.text)
		last = i.offset
	}
	out.Write(in.source[last:])
	return out.String()
}

// runtimeOf is the file that tells which mutant is active, and notes those that are asked for.
func runtimeOf(name string, mutants int) string {
	return fmt.Sprintf(`package %[1]s

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

var (
	activeMutant, _ = strconv.Atoi(os.Getenv(%[4]q))
	notReached      [%[3]d + 1]sync.Once
	reachedMutants  = openReached()
)

func openReached() *os.File {
	f, err := os.OpenFile(os.Getenv(%[5]q), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	return f
}

func %[2]s(id int) bool {
	if reachedMutants != nil {
		notReached[id].Do(func() { fmt.Fprintln(reachedMutants, id) })
	}
	return id == activeMutant
}
`, name, function, mutants, variable, reachedVariable)
}
