package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// pages are those that hold to the rules: all of them.
func pages(t *testing.T) []Page {
	t.Helper()
	all, err := Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// written is a page with this text.
func written(t *testing.T, text string) (Page, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "page.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(dir, "page.md")
}

const example = "# One `page`, two\n\nSee [it](other.md#there) and `[not](this)`.\n\n<!-- test: setup one.sh -->\n\n```sh\nname=orders\n```\n\n" +
	"<!-- test: file a b.yaml -->\n```yaml\nkind: $A\n```\n\n<!-- test: skip because it needs the moon -->\n```sh\nfalse\n```\n\n## One page two\n\n" +
	"```console\n$ false\n```\n\n<!-- test: fails with it's $name -->\n```sh\necho \"it's \\$name\"; cat < 'a b.yaml' | grep -F 'kind: $A'\ncat none\n```\n\n" +
	"```sh\necho \"got $name $(cat made)\"\n```\n"

func TestAPageIsReadAndBecomesAScript(t *testing.T) {
	t.Parallel()
	p, err := written(t, example)
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{5, "", Setup, "one.sh", ""},
		{8, "sh", Run, "", "name=orders\n"},
		{13, "yaml", File, "a b.yaml", "kind: $A\n"},
		{18, "sh", Skip, "it needs the moon", "false\n"},
		{24, "console", None, "", "$ false\n"},
		{29, "sh", Fails, "it's $name", "echo \"it's \\$name\"; cat < 'a b.yaml' | grep -F 'kind: $A'\ncat none\n"},
		{34, "sh", Run, "", "echo \"got $name $(cat made)\"\n"},
	}
	if diff := cmp.Diff(want, p.Steps); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Link{{3, "other.md#there"}}, p.Links); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"one-page-two": true, "one-page-two-1": true}, p.Anchors); diff != "" {
		t.Error(diff)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "one.sh"), []byte("echo it > made\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for last, fails := range map[string]bool{"": false, "\n```sh\nfalse\ntrue\n```\n": true, "\n<!-- test: fails with x -->\n```sh\ntrue\n```\n": true} {
		p, err := written(t, example+last)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", p.Script(dir))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if (err != nil) != fails || !strings.Contains(string(out), "got orders it\n") || !strings.Contains(string(out), "## page.md:34\n") {
			t.Errorf("with %q: %v\n%s", last, err, out)
		}
	}
}

func TestCommentsThatMeanNothingAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"<!-- test: skip -->\n```sh\ntrue\n```\n",
		"<!-- test: skip because no -->\n```sh\ntrue\n```\n",
		"<!-- test: skip because it needs the moon -->\n```yaml\na: b\n```\n",
		"<!-- test: skip because it needs the moon -->\n\n```sh\ntrue\n```\n",
		"<!-- test: skip because it needs the moon -->\n",
		"<!-- test: apply -->\n```sh\ntrue\n```\n",
		"<!-- test: file ../a -->\n```yaml\na: b\n```\n",
		"<!-- test: fails -->\n```sh\ntrue\n```\n",
		"<!-- test: ignore -->\n```sh\ntrue\n```\n",
		"```sh\ntrue\n",
	} {
		if p, err := written(t, text+"\nfurther text\n"); err == nil {
			t.Errorf("%q is taken for %+v", text, p.Steps)
		}
	}
}

func TestEverySkipHasAReasonAndEverySetupIsThere(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	ran := 0
	for _, p := range pages(t) {
		for _, s := range p.Steps {
			switch s.Verb {
			case Skip:
				t.Logf("%s:%d is not carried out because %s", p.Path, s.Line, s.Argument)
			case Run, Fails, Apply:
				ran++
			case Setup:
				used[s.Argument] = true
			case File, None:
			}
		}
	}
	if ran == 0 {
		t.Error("nothing is carried out")
	}
	there, err := filepath.Glob(filepath.Join(root, "test/e2e/pages/*.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		name := filepath.Base(path)
		if !used[name] {
			t.Errorf("no page needs %s", path)
		}
		delete(used, name)
	}
	for name := range used {
		t.Errorf("there is no test/e2e/pages/%s", name)
	}
}

// linked are the files whose links have to lead somewhere.
func linked(t *testing.T) []Page {
	t.Helper()
	all := pages(t)
	for _, pattern := range []string{"docs/runbooks/*.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "charts/quorate/*.md", "hack/kind/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Read(root, name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
	}
	return all
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, p := range linked(t) {
		for _, l := range p.Links {
			if strings.Contains(l.Target, "://") || strings.HasPrefix(l.Target, "mailto:") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(l.Target, "#")
			path := p.Path
			if file != "" {
				path = filepath.Join(filepath.Dir(p.Path), file)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s:%d: there is no %s", p.Path, l.Line, path)
				continue
			}
			if anchor == "" {
				continue
			}
			if to, err := Read(root, path); err != nil || !to.Anchors[anchor] {
				t.Errorf("%s:%d: %s has no heading for #%s (%v)", p.Path, l.Line, path, anchor, err)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links were found", checked)
	}
}

func TestTheMapHasEveryPage(t *testing.T) {
	t.Parallel()
	overview, err := Read(root, "docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		name := filepath.Base(p.Path)
		has := slices.ContainsFunc(overview.Links, func(l Link) bool { return l.Target == name })
		if filepath.Dir(p.Path) == "docs" && name != "README.md" && !has {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

func TestTheScriptsOfThePagesAreWellFormed(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		cmd := exec.CommandContext(t.Context(), "bash", "-n")
		cmd.Stdin = strings.NewReader(p.Script("setups"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", p.Path, err, out)
		}
	}
}
