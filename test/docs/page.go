// Package docs reads the pages of the documentation for the tests that hold them to what they say: that links lead somewhere, that every
// reason is explained, and that commands work when they are carried out in order.
//
// Comments steer what becomes of the block that follows. Readers do not see them.
//
//	<!-- test: setup FILE -->            stands alone: run that script of test/e2e/pages, which makes what the page takes for granted
//	<!-- test: skip because REASON -->   commands that cannot be carried out in a test, or are by another one
//	<!-- test: fails with TEXT -->       commands whose last one is refused with that text
//	<!-- test: apply -->                 resources that are applied as they stand
//	<!-- test: file NAME -->             content of a file that later commands name
//
// Commands (sh) without a comment are carried out. Resources (yaml) without one are not: test/envtest has the API server check those.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Page is one file of Markdown.
type Page struct {
	// Path is relative to the root of the repository.
	Path string
	// Anchors are what links into the page may name after a #.
	Anchors map[string]bool
	// Links are the targets of its links as written, images and code left out.
	Links []Link
	// Steps are its blocks and setups in their order.
	Steps []Step
	// Text is all of it.
	Text string
}

// Link is where a page leads.
type Link struct {
	Line   int
	Target string
}

// Verb is what becomes of a block in a test.
type Verb string

// What may stand in a comment, and Run, which needs none.
const (
	Run   Verb = "run"
	Setup Verb = "setup"
	Skip  Verb = "skip"
	Fails Verb = "fails"
	Apply Verb = "apply"
	File  Verb = "file"
	// None is for blocks that are shown only.
	None Verb = ""
)

// Step is one block, or a setup.
type Step struct {
	// Line of its first line in the page, from 1.
	Line int
	// Language of the block as after its fence; empty for a setup.
	Language string
	Verb     Verb
	// Argument of the verb: a file, a reason, a text.
	Argument string
	Text     string
}

var (
	directive = regexp.MustCompile(`^<!-- test: (\w+)(?: (.*?))? -->$`)
	heading   = regexp.MustCompile(`^#{1,6} (.+)$`)
	link      = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code      = regexp.MustCompile("`[^`]*`")
)

// Read reads a page. path is relative to root.
func Read(root, path string) (Page, error) {
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return Page{}, fmt.Errorf("read a page: %w", err)
	}
	p := Page{Path: path, Anchors: map[string]bool{}, Text: string(raw)}
	if err := p.parse(strings.Split(p.Text, "\n")); err != nil {
		return Page{}, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Pages reads README.md and every page directly in docs.
func Pages(root string) ([]Page, error) {
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, fmt.Errorf("list the pages: %w", err)
	}
	var pages []Page
	for _, path := range append([]string{filepath.Join(root, "README.md")}, paths...) {
		name, err := filepath.Rel(root, path)
		if err != nil {
			return nil, fmt.Errorf("list the pages: %w", err)
		}
		p, err := Read(root, name)
		if err != nil {
			return nil, err
		}
		pages = append(pages, p)
	}
	return pages, nil
}

// parse goes through the lines once.
func (p *Page) parse(lines []string) error {
	var next *Step // what the last comment said of the block to come
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " ")
		if language, fenced := strings.CutPrefix(line, "```"); fenced {
			end := i + 1 + slices.Index(lines[i+1:], "```")
			if end == i {
				return fmt.Errorf("line %d: the block has no end", i+1)
			}
			step, err := block(next, language, i+2, strings.Join(lines[i+1:end], "\n")+"\n")
			if err != nil {
				return err
			}
			p.Steps, next, i = append(p.Steps, step), nil, end
			continue
		}
		if next != nil {
			return fmt.Errorf("line %d: no block follows the comment before it", i+1)
		}
		if m := directive.FindStringSubmatch(line); m != nil {
			step := Step{Line: i + 1, Verb: Verb(m[1]), Argument: m[2]}
			if step.Verb == Setup {
				p.Steps = append(p.Steps, step)
			} else {
				next = &step
			}
			continue
		}
		p.prose(i+1, line)
	}
	if next != nil {
		return fmt.Errorf("line %d: no block follows the comment", next.Line)
	}
	return nil
}

// block is a fenced block with what the comment before it says.
func block(said *Step, language string, line int, text string) (Step, error) {
	s := Step{Line: line, Language: language, Text: text}
	switch {
	case said != nil:
		s.Verb, s.Argument = said.Verb, said.Argument
	case language == "sh":
		s.Verb = Run
	}
	if !s.means() {
		return s, fmt.Errorf("line %d: a %s block cannot have the comment %q %q", line, language, s.Verb, s.Argument)
	}
	for verb, word := range map[Verb]string{Skip: "because ", Fails: "with "} {
		if s.Verb == verb {
			s.Argument = strings.TrimPrefix(s.Argument, word)
		}
	}
	return s, nil
}

// means reports whether a block can be what its comment says.
func (s Step) means() bool {
	commands := s.Language == "sh"
	switch s.Verb {
	case None, Run:
		return true
	case Skip: // A reason has three words at least.
		return commands && strings.HasPrefix(s.Argument, "because ") && len(strings.Fields(s.Argument)) > 3
	case Fails:
		return commands && strings.HasPrefix(s.Argument, "with ")
	case Apply:
		return s.Language == "yaml" && s.Argument == ""
	case File:
		return !commands && s.Argument != "" && filepath.Base(s.Argument) == s.Argument
	case Setup: // It is no block.
	}
	return false
}

// prose takes headings and links out of a line outside of blocks.
func (p *Page) prose(number int, line string) {
	if m := heading.FindStringSubmatch(line); m != nil {
		p.anchor(m[1])
	}
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, "code"), -1) {
		p.Links = append(p.Links, Link{number, m[1]})
	}
}

// anchor adds the anchor of a heading as GitHub makes it: lower case, spaces as hyphens, without punctuation, and a number from the second
// heading of the same text on.
func (p *Page) anchor(title string) {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(title)) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	name := b.String()
	for i := 1; p.Anchors[name]; i++ {
		name = fmt.Sprintf("%s-%d", b.String(), i)
	}
	p.Anchors[name] = true
}

// Executable reports whether a page has anything that a test carries out.
func (p Page) Executable() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Verb == Run || s.Verb == Fails || s.Verb == Apply })
}

// Script is the page as one script of bash, so that what one block exports is there in the next one, as in the shell of a reader. setups is
// the directory of the scripts that setups name. A line that begins with ## tells where in the page it is.
func (p Page) Script(setups string) string {
	var b strings.Builder
	b.WriteString("set -euo pipefail\n")
	for _, s := range p.Steps {
		if s.Verb == None || s.Verb == Skip {
			continue
		}
		fmt.Fprintf(&b, "\necho '## %s:%d' >&2\n", p.Path, s.Line)
		switch s.Verb {
		case Run:
			b.WriteString(s.Text)
		case Setup:
			fmt.Fprintf(&b, "bash -euo pipefail %s\n", quote(filepath.Join(setups, s.Argument)))
		case Apply:
			fmt.Fprintf(&b, "kubectl apply --server-side -f - <<'END-OF-BLOCK'\n%sEND-OF-BLOCK\n", s.Text)
		case File:
			fmt.Fprintf(&b, "cat > %s <<'END-OF-BLOCK'\n%sEND-OF-BLOCK\n", quote(s.Argument), s.Text)
		case Fails:
			fmt.Fprintf(&b, "if refused=$( {\n%s} 2>&1 ); then echo 'it is not refused' >&2; exit 1; fi\n", s.Text)
			fmt.Fprintf(&b, "grep -F -- %s <<< \"$refused\" || { echo \"$refused\" >&2; exit 1; }\n", quote(s.Argument))
		case None, Skip:
		}
	}
	return b.String()
}

// quote makes one word of the shell out of any text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
