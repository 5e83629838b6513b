package monitoring

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/test/need"
)

const (
	config = "../../config/monitoring"
	pages  = "../../docs/runbooks"
)

// rule is one alert.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var file ruleFile
	read(t, filepath.Join(config, "rules.yaml"), &file)
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) == 0 {
		t.Fatal("there are no alerts")
	}
	return out
}

// promtool runs the program that make test-unit installs.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need.Program(t, "promtool", "`make deps` installs it"), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// testFile is what promtool test rules reads, as far as rules_test.yaml uses it.
type testFile struct {
	RuleFiles []string   `json:"rule_files"`
	Interval  string     `json:"evaluation_interval"`
	Tests     []ruleTest `json:"tests"`
}

type ruleTest struct {
	Name        string              `json:"name"`
	Interval    string              `json:"interval"`
	InputSeries []map[string]string `json:"input_series"`
	Checks      []ruleCheck         `json:"promql_expr_test"`
}

type ruleCheck struct {
	Expr     string       `json:"expr"`
	EvalTime string       `json:"eval_time"`
	Samples  []ruleSample `json:"exp_samples"`
}

type ruleSample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// testOthers runs the tests of alerts with other series, and expects no alert with some labels at any time.
func testOthers(t *testing.T, series func(string) string, labels string) {
	t.Helper()
	var file testFile
	read(t, filepath.Join(config, "rules_test.yaml"), &file)
	rules, err := filepath.Abs(filepath.Join(config, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file.RuleFiles, file.Interval = []string{rules}, "5m" // What is pending counts as well, so that this is often enough.
	for i, test := range file.Tests {
		for _, s := range test.InputSeries {
			s["series"] = series(s["series"])
		}
		for j := range test.Checks {
			test.Checks[j].Expr = `count(ALERTS{alertname="` + test.Name + `"` + labels + `}) or vector(0)`
			test.Checks[j].Samples = []ruleSample{{Labels: "{}"}}
		}
		file.Tests[i] = test
	}
	raw, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "others.yaml"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, dir, "test", "rules", "others.yaml")
}

// A scrape adds the address of the manager to all that it tells: an alert that kept it would wait anew with the next manager.
func TestNoAlertBeginsAnewWithTheNextManager(t *testing.T) {
	testOthers(t, func(series string) string {
		name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		if !strings.HasPrefix(name, "quorate_") {
			return series
		}
		return name + `{instance="10.0.0.1:8443",` + labels + "}"
	}, `,instance!=""`)
}

// Other etcds and Redis servers are scraped by the same Prometheus, and somebody else's alerts tell about them.
func TestNoAlertTellsAboutServersOfOthers(t *testing.T) {
	testOthers(t, func(series string) string {
		if strings.HasPrefix(series, "quorate_") {
			return "other_" + series
		}
		return strings.Replace(series, `managed_by="quorate",`, "", 1)
	}, `,alertname!="QuorateOperatorDown"`)
}

func TestAlertsFireAndClear(t *testing.T) {
	promtool(t, config, "check", "rules", "rules.yaml")
	promtool(t, config, "test", "rules", "rules_test.yaml")
	var file testFile
	read(t, filepath.Join(config, "rules_test.yaml"), &file)
	fires, clears := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.Checks {
			if c.Expr != `count(ALERTS{alertname="`+test.Name+`", alertstate="firing"}) or vector(0)` || len(c.Samples) != 1 {
				t.Errorf("the test %s asks for something else: %s", test.Name, c.Expr)
				continue
			}
			switch {
			case c.Samples[0].Value > 0:
				fires[test.Name] = true
			case fires[test.Name]:
				clears[test.Name] = true
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !clears[a.Alert] {
			t.Errorf("no test shows that %s fires (%t) and then clears (%t)", a.Alert, fires[a.Alert], clears[a.Alert])
		}
	}
}

func TestEveryAlertHasItsPageAndEveryPageItsAlert(t *testing.T) {
	known := map[string]bool{}
	for _, a := range alerts(t) {
		known[a.Alert] = true
		if want := "https://github.com/quorate/quorate/blob/main/docs/runbooks/" + a.Alert + ".md"; a.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %s instead of %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if a.Annotations["summary"] == "" || !strings.Contains("critical warning info", a.Labels["severity"]) || a.Labels["severity"] == "" {
			t.Errorf("%s lacks a summary or a severity", a.Alert)
		}
		raw, err := os.ReadFile(filepath.Join(pages, a.Alert+".md"))
		if err != nil {
			t.Errorf("%s has no page: %v", a.Alert, err)
			continue
		}
		for _, part := range []string{
			"# " + a.Alert + "\n", "Severity: " + a.Labels["severity"] + ". It fires after " + a.For + " of:", a.Expr,
			"\n## What it means\n", "\n## What the operator does\n", "\n## What you decide\n", "\n## Where to look\n",
		} {
			if !bytes.Contains(raw, []byte(part)) {
				t.Errorf("the page of %s lacks %q", a.Alert, part)
			}
		}
	}
	found, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range found {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); !known[name] {
			t.Errorf("there is a page about %s, but no such alert", name)
		}
	}
}
