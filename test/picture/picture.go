// Package picture draws series of figures, and puts the drawings on a page that needs nothing but a browser.
package picture

import (
	"bytes"
	"fmt"
	"html/template"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes of a drawing, in the unit of a browser.
const (
	width  = 420 * vg.Length(72) / 96
	height = 190 * vg.Length(72) / 96
)

// maxNamed is how many lines are named below a drawing: more would hide it.
const maxNamed = 6

// Point is a figure at a time.
type Point struct {
	Time  time.Time
	Value float64
}

// Line is a series of figures, the oldest first.
type Line struct {
	Name   string
	Points []Point
}

// Lines draws series over the time, as SVG.
func Lines(title, unit string, lines []Line) (template.HTML, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text, p.X.Tick.Marker = title, unit, plot.TimeTicks{Format: "15:04:05"}
	p.Title.TextStyle.Font.Size, p.Legend.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 9, 7, 7
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = 6, 7
	p.Add(plotter.NewGrid())
	for i, l := range lines {
		if len(l.Points) == 0 {
			return "", fmt.Errorf("draw %s: %s has no figures", title, l.Name)
		}
		points := make(plotter.XYs, len(l.Points))
		for k, at := range l.Points {
			points[k] = plotter.XY{X: float64(at.Time.UnixMilli()) / 1000, Y: at.Value}
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return "", fmt.Errorf("draw %s: %w", title, err)
		}
		line.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
		dots.Shape, dots.Radius = draw.CircleGlyph{}, 1
		p.Add(line, dots)
		if i < maxNamed {
			p.Legend.Add(l.Name, line)
		}
	}
	p.Legend.Top = true
	return svg(title, p)
}

// Group is what was measured of one side.
type Group struct {
	Name   string
	Values []float64
}

// Dots draws every figure of each group in a column of its own, and a line at its median, as SVG. medians has one for each group.
func Dots(title, unit string, groups []Group, medians []float64) (template.HTML, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, unit
	p.Title.TextStyle.Font.Size, p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size, p.Y.Label.TextStyle.Font.Size = 9, 8, 7, 7
	p.Add(plotter.NewGrid())
	names := make([]string, len(groups))
	for i, g := range groups {
		points := make(plotter.XYs, len(g.Values))
		for k, v := range g.Values {
			// Figures stand next to each other in the order in which they were measured.
			points[k] = plotter.XY{X: float64(i) + 0.5*(float64(k)+0.5)/float64(len(g.Values)) - 0.25, Y: v}
		}
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return "", fmt.Errorf("draw %s: %w", title, err)
		}
		middle, err := plotter.NewLine(plotter.XYs{{X: float64(i) - 0.3, Y: medians[i]}, {X: float64(i) + 0.3, Y: medians[i]}})
		if err != nil {
			return "", fmt.Errorf("draw %s: %w", title, err)
		}
		dots.Color, dots.Shape, dots.Radius, middle.Color = plotutil.Color(i), draw.CircleGlyph{}, 2, plotutil.Color(i)
		p.Add(dots, middle)
		names[i] = g.Name
	}
	p.X.Min, p.X.Max = -0.5, float64(len(groups))-0.5
	p.NominalX(names...)
	return svg(title, p)
}

// svg is a drawing without the head of a file, so that it can stand on a page.
func svg(title string, p *plot.Plot) (template.HTML, error) {
	p.Y.Min = min(0, p.Y.Min)
	if p.Y.Max == 0 { // The library would put a line of zeros in the middle.
		p.Y.Max = 1
	}
	w, err := p.WriterTo(width, height, "svg")
	if err != nil {
		return "", fmt.Errorf("draw %s: %w", title, err)
	}
	var out bytes.Buffer
	if _, err := w.WriteTo(&out); err != nil {
		return "", fmt.Errorf("draw %s: %w", title, err)
	}
	raw := out.Bytes()
	return template.HTML(raw[max(0, bytes.Index(raw, []byte("<svg"))):]), nil // The library has escaped what it was given.
}

// Section is a row of drawings under a heading.
type Section struct {
	Title    string
	Drawings []template.HTML
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>body{font-family:sans-serif;margin:1.5em}section{display:flex;flex-wrap:wrap;gap:1em}h2{margin:1em 0 .3em}</style></head>
<body><h1>{{.Title}}</h1>{{range .Sections}}<h2>{{.Title}}</h2><section>{{range .Drawings}}<figure>{{.}}</figure>{{end}}</section>{{end}}</body></html>
`))

// Page is an HTML file with all sections.
func Page(title string, sections []Section) ([]byte, error) {
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{"Title": title, "Sections": slices.Clone(sections)})
	return out.Bytes(), err
}
