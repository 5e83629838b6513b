package picture

import (
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"strings"
	"testing"
	"time"
)

func TestLinesStandOnAPage(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	drawing, err := Lines("Keys <of> a & b", "keys", []Line{
		{"a<script>", []Point{{began, 1}, {began.Add(time.Minute), 3}}},
		{"b", []Point{{began, 2}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := Page("Figures & more", []Section{{"Redis", []template.HTML{drawing}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<title>Figures &amp; more</title>", "<h2>Redis</h2>", "<svg", "</svg>", "12:00:00"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(string(page), "<script>") {
		t.Error("a name became part of the page")
	}
	wellFormed(t, drawing)
}

func TestDotsHaveAColumnForEachGroup(t *testing.T) {
	drawing, err := Dots("Time to Ready", "s", []Group{{"floor", []float64{3, 4}}, {"Quorate", []float64{5}}}, []float64{3.5, 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">floor<", ">Quorate<", ">Time to Ready<"} {
		if !strings.Contains(string(drawing), want) {
			t.Errorf("the drawing has no %s", want)
		}
	}
	wellFormed(t, drawing)
}

func wellFormed(t *testing.T, drawing template.HTML) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(drawing)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the drawing is no XML: %v", err)
		}
	}
}

func TestALineWithoutFiguresIsNotDrawn(t *testing.T) {
	if _, err := Lines("Keys", "keys", []Line{{Name: "a"}}); err == nil || !strings.Contains(err.Error(), "a has no figures") {
		t.Error(err)
	}
}
