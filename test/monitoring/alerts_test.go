package monitoring

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
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
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v (`make test-unit` installs it)\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlertsFireAndClear(t *testing.T) {
	promtool(t, config, "check", "rules", "rules.yaml")
	promtool(t, config, "test", "rules", "rules_test.yaml")
	var file struct {
		RuleFiles []string `json:"rule_files"`
		Interval  string   `json:"evaluation_interval"`
		Tests     []struct {
			Name, Interval string
			InputSeries    []map[string]string `json:"input_series"`
			Checks         []struct {
				Expr     string
				EvalTime string `json:"eval_time"`
				Samples  []struct {
					Labels string
					Value  float64
				} `json:"exp_samples"`
			} `json:"promql_expr_test"`
		}
	}
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
