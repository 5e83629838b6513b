package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// dashboard is Grafana's model as far as these dashboards use it (schema version 39).
type dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	SchemaVersion int    `json:"schemaVersion"`
	Tags          []string
	Editable      bool
	Timezone      string
	Refresh       string
	Time          struct{ From, To string }
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name, Label, Type, Query, AllValue string
	Datasource                         map[string]string
	Refresh, Sort                      int
	IncludeAll, Multi                  bool
}

type panel struct {
	ID                       int
	Title, Description, Type string
	Datasource               map[string]string
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct {
		RefID, Expr, LegendFormat, Format string
		Instant                           bool
		Datasource                        map[string]string
	}
	FieldConfig struct {
		Defaults  struct{ Unit string }
		Overrides []any
	}
	Options map[string]any
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(config, "dashboards", "*.json"))
	if err != nil || len(files) != 5 {
		t.Fatalf("found %d dashboards: %v", len(files), err)
	}
	out := map[string]dashboard{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		var d dashboard
		if err := decoder.Decode(&d); err != nil {
			t.Errorf("%s is none of Grafana's: %v", file, err)
		}
		out[filepath.Base(file)] = d
	}
	return out
}

func TestDashboardsAreWhatGrafanaReads(t *testing.T) {
	uids := map[string]string{}
	for file, d := range dashboards(t) {
		if other, taken := uids[d.UID]; taken || d.UID == "" || len(d.UID) > 40 || d.Title == "" || d.SchemaVersion < 30 {
			t.Errorf("%s: uid %q (taken by %q), title %q, schema %d", file, d.UID, other, d.Title, d.SchemaVersion)
		}
		uids[d.UID] = file
		var variables []string
		for _, v := range d.Templating.List {
			variables = append(variables, v.Name)
			if !slices.Contains([]string{"datasource", "query"}, v.Type) || v.Query == "" {
				t.Errorf("%s: variable %s is of type %q and asks %q", file, v.Name, v.Type, v.Query)
			}
		}
		ids, places := map[int]bool{}, map[string]bool{}
		for _, p := range d.Panels {
			place := fmt.Sprint(p.GridPos)
			if ids[p.ID] || p.ID == 0 || places[place] || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || p.GridPos.H == 0 {
				t.Errorf("%s: panel %q has the number %d and the place %+v, alone and within 24 columns it must be", file, p.Title, p.ID, p.GridPos)
			}
			ids[p.ID], places[place] = true, true
			if p.Title == "" || !slices.Contains([]string{"timeseries", "stat", "table"}, p.Type) || len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s: panel %q of type %q, unit %q, %d queries", file, p.Title, p.Type, p.FieldConfig.Defaults.Unit, len(p.Targets))
			}
			for _, q := range p.Targets {
				if q.Datasource["uid"] != "${datasource}" || q.RefID == "" {
					t.Errorf("%s: panel %q asks %v", file, p.Title, q.Datasource)
				}
				for _, used := range chosen.FindAllString(q.Expr, -1) {
					if !slices.Contains(append(variables, "__rate_interval"), used[1:]) {
						t.Errorf("%s: panel %q goes by %s, which cannot be chosen", file, p.Title, used)
					}
				}
			}
		}
	}
}

// chosen are the variables of a query.
var chosen = regexp.MustCompile(`\$\w+`)

// Prometheus itself reads every query, as that of a rule.
func TestQueriesOfDashboardsAreValid(t *testing.T) {
	type record struct {
		Record string            `json:"record"`
		Expr   string            `json:"expr"`
		Labels map[string]string `json:"labels"`
	}
	var rules []record
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				rules = append(rules, record{"query", filled(q.Expr), map[string]string{"panel": fmt.Sprint(file, " ", p.Title, " ", q.RefID)}})
			}
		}
	}
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "queries.yaml"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, dir, "check", "rules", "queries.yaml")
}

// filled puts something in the place of Grafana's variables.
func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$namespace", ".*", "$name", ".*").Replace(expr)
}
