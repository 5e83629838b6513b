package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/test/chaos/schedule"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"clock": func(t time.Time) string { return t.UTC().Format(time.TimeOnly) },
	"join":  strings.Join,
	"add":   func(a, b int) int { return a + b },
}).Parse(page))

// Write draws a run as one page that needs nothing else.
func Write(w io.Writer, r *Run) error {
	return pageTemplate.Execute(w, struct {
		*Run
		Picture Picture
		Kept    bool
	}{r, r.picture(), Kept(r.Verdicts)})
}

// The measures of the picture in pixels.
const (
	labelWidth = 250
	plotWidth  = 1150
	rowHeight  = 15
	headHeight = 24
)

// Picture is the timeline.
type Picture struct {
	Width, Height int
	Label, Plot   int
	Rows          []Row
	Ticks         []Tick
}

// Row is a line of the timeline. One without bars is a heading.
type Row struct {
	Label string
	Y     int
	Head  bool
	Bars  []Bar
}

// Bar is something that took a time.
type Bar struct {
	X, W         float64
	Class, Title string
}

// Tick is a minute.
type Tick struct {
	X    float64
	Text string
}

// picture lays the timeline out.
func (r *Run) picture() Picture {
	p := Picture{Label: labelWidth, Plot: plotWidth, Width: labelWidth + plotWidth + 10}
	y := headHeight
	add := func(row Row) {
		row.Y = y
		y += rowHeight
		p.Rows = append(p.Rows, row)
	}
	add(Row{Label: "faults (dark: while it lasts; light: until all is Ready again)", Head: true})
	for _, row := range r.faultRows() {
		add(row)
	}
	add(Row{Label: "planned operations", Head: true})
	for _, c := range r.Clusters {
		add(Row{Label: c.Name, Bars: r.changeBars(c.Name)})
	}
	add(Row{Label: "operator: the steps that it told of", Head: true})
	for _, c := range r.Clusters {
		add(Row{Label: c.Name, Bars: r.stepBars(c.Name)})
	}
	add(Row{Label: "write gaps of 0.5 s and more", Head: true})
	for _, l := range r.Loads {
		for _, row := range r.gapRows(l) {
			add(row)
		}
	}
	for _, c := range r.Clusters {
		add(Row{Label: c.Name + " (" + string(c.Store) + ")", Head: true})
		add(Row{Label: "condition Ready", Bars: r.healthBars(r.Ready[c.Name], r.Ended)})
		for _, pod := range r.podsOf(c.Name) {
			add(Row{Label: pod, Bars: r.healthBars(r.Pods[pod], r.Ended)})
		}
	}
	p.Height = y + 10
	every := max(time.Minute, r.Ended.Sub(r.Began).Truncate(time.Minute)/12)
	for at := time.Duration(0); at <= r.Ended.Sub(r.Began); at += every {
		p.Ticks = append(p.Ticks, Tick{r.x(r.Began.Add(at)), fmt.Sprintf("%d min", int(at.Minutes()))})
	}
	return p
}

// x is where a time is.
func (r *Run) x(t time.Time) float64 {
	all := r.Ended.Sub(r.Began)
	if all <= 0 {
		return labelWidth
	}
	part := float64(t.Sub(r.Began)) / float64(all)
	return labelWidth + plotWidth*max(0, min(1, part))
}

// bar is never too thin to be seen.
func (r *Run) bar(from, to time.Time, class, title string) Bar {
	x := r.x(from)
	return Bar{X: x, W: max(2, r.x(to)-x), Class: class, Title: title}
}

func (r *Run) faultRows() []Row {
	names := make([]string, 0, len(r.Clusters)+2)
	for _, c := range r.Clusters {
		names = append(names, c.Name)
	}
	var rows []Row
	for _, name := range append(names, string(schedule.Node), string(schedule.World)) {
		row := Row{Label: map[string]string{"node": "nodes", "world": "operator, API server, DNS"}[name]}
		if row.Label == "" {
			row.Label = name
		}
		for _, f := range r.Faults {
			where := f.Drawn.Cluster
			if where == "" {
				where = string(f.Kind().Scope)
			}
			if where != name || f.Skipped != "" {
				continue
			}
			title := fmt.Sprintf("round %d: %s: %s; Ready again after %s, longest write gap %s", f.Round, f.Drawn.Kind, f.Target, f.Recovery(), r.Gap(f))
			row.Bars = append(row.Bars, r.bar(f.Ended, f.over(r.Ended), "heal", title), r.bar(f.Began, f.Ended, "fault", title))
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *Run) changeBars(cluster string) []Bar {
	var out []Bar
	for _, c := range r.Changes {
		if c.Drawn.Cluster != cluster {
			continue
		}
		end := c.Ended
		if end.IsZero() {
			end = r.Ended
		}
		out = append(out, r.bar(c.Began, end, "change", fmt.Sprintf("round %d: %s, %.0f s", c.Round, c.What, end.Sub(c.Began).Seconds())))
	}
	return out
}

func (r *Run) stepBars(cluster string) []Bar {
	var out []Bar
	for _, s := range r.Steps {
		if s.Cluster == cluster && !s.At.Before(r.Began) {
			out = append(out, r.bar(s.At, s.At, "step", s.At.UTC().Format(time.TimeOnly)+" "+s.Reason+": "+s.Text))
		}
	}
	return out
}

// gapRows has a row for each lane of a load.
func (r *Run) gapRows(l Load) []Row {
	if l.Summary == nil {
		return []Row{{Label: l.Name + ": " + l.Error}}
	}
	byLane := map[string][]Bar{}
	var lanes []string
	for lane := range l.Summary.LaneStallMs {
		lanes = append(lanes, lane)
	}
	if len(lanes) == 0 {
		lanes = []string{""}
	}
	slices.Sort(lanes)
	for _, s := range l.Summary.Stalls {
		lane := s.Lane
		if len(lanes) == 1 {
			lane = lanes[0]
		}
		from, to := time.UnixMilli(s.FromMs), time.UnixMilli(s.ToMs)
		title := fmt.Sprintf("%s: no write for %.1f s: %s", from.UTC().Format(time.TimeOnly), to.Sub(from).Seconds(), s.Why)
		byLane[lane] = append(byLane[lane], r.bar(from, to, "gap", strings.TrimSuffix(title, ": ")))
	}
	var rows []Row
	for _, lane := range lanes {
		rows = append(rows, Row{Label: strings.TrimSpace(l.Cluster + " " + l.Class + " " + lane), Bars: byLane[lane]})
	}
	return rows
}

func (r *Run) healthBars(all []Health, end time.Time) []Bar {
	var out []Bar
	for i, h := range all {
		to := end
		if i+1 < len(all) {
			to = all[i+1].From
		}
		class := map[bool]string{true: "ok", false: "bad"}[h.OK]
		if h.Reason == Gone {
			continue
		}
		out = append(out, r.bar(h.From, to, class, strings.TrimSpace(h.From.UTC().Format(time.TimeOnly)+" "+h.Reason+" "+h.Text)))
	}
	return out
}

// Gone is the reason of a pod that is not there.
const Gone = "Gone"

// podsOf are the pods of a cluster by name.
func (r *Run) podsOf(cluster string) []string {
	var out []string
	for name := range r.Pods {
		if strings.HasPrefix(name, cluster+"-") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
