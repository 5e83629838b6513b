package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// style is how a word is shown on a terminal (ECMA-48, Select Graphic Rendition).
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// painter shows words in colours, where that is wanted.
type painter bool

func (p painter) paint(text string, s style) string {
	if !p || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// cell is a word of a table.
type cell struct {
	text  string
	style style
}

// row is a line of a tree: what connects it with the line above, and its cells. Lines without cells are text that fills no column.
type row struct {
	branch string
	cells  []cell
	text   cell
}

// render writes rows, with the cells of all of them below each other. width is that of the terminal, 0: no limit.
func render(w io.Writer, rows []row, p painter, width int) error {
	var widths []int
	for _, r := range rows {
		for i, c := range r.cells[:max(0, len(r.cells)-1)] { // Nothing stands behind the last one.
			n := utf8.RuneCountInString(c.text)
			if i == 0 {
				n += utf8.RuneCountInString(r.branch)
			}
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], n)
		}
	}
	for _, r := range rows {
		if _, err := io.WriteString(w, r.line(widths, p, width)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (r row) line(widths []int, p painter, width int) string {
	line := &strings.Builder{}
	line.WriteString(p.paint(r.branch, faint))
	used := utf8.RuneCountInString(r.branch)
	if len(r.cells) == 0 {
		line.WriteString(p.paint(r.text.text, r.text.style))
		return strings.TrimRight(line.String(), " ")
	}
	for i, c := range r.cells {
		text := c.text
		if i == len(r.cells)-1 && width > 0 {
			text = cut(text, width-used)
		}
		line.WriteString(p.paint(text, c.style))
		n := utf8.RuneCountInString(text)
		used += n
		if i == 0 {
			n += utf8.RuneCountInString(r.branch)
		}
		if i < len(r.cells)-1 {
			pad := widths[i] - n + 2
			line.WriteString(strings.Repeat(" ", pad))
			used += pad
		}
	}
	return strings.TrimRight(line.String(), " ")
}

// cut shortens what does not fit. Less than a word says nothing, and is left to the terminal to break.
func cut(text string, room int) string {
	const least = 20
	if utf8.RuneCountInString(text) <= room || room < least {
		return text
	}
	return string([]rune(text)[:room-1]) + "…"
}

// treeOf is a cluster as a tree.
func treeOf(v clusterView) []row {
	rows := []row{{text: cell{v.title() + "  ", bold}}, {branch: "  ", text: stateCell(v)}}
	for _, p := range v.Problems {
		rows = append(rows, row{branch: "  ! ", text: cell{fmt.Sprintf("%s: %s (%s)", p.Condition, p.Message, p.Reason), red}})
	}
	for i, s := range v.Shards {
		last := i == len(v.Shards)-1
		branch, below := "├─ ", "│  "
		if last {
			branch, below = "└─ ", "   "
		}
		if s.Name == "" {
			rows = append(rows, servers(s.Servers, "")...)
			continue
		}
		rows = append(rows, row{branch: branch, cells: shardCells(s, v.Slots != "")})
		rows = append(rows, servers(s.Servers, below)...)
	}
	return rows
}

func stateCell(v clusterView) cell {
	c := cell{text: v.State, style: yellow}
	switch v.State {
	case "Ready":
		c.style = green
	case "Stalled", "NotReady", "Unknown":
		c.style = red
	}
	if v.Activity != "" {
		c.text += ": " + v.Activity
	}
	if v.Outdated {
		c.text += " (the operator has not seen the latest change of the specification yet)"
	}
	return c
}

func shardCells(s shardView, slotted bool) []cell {
	if !slotted {
		return []cell{{s.Name, bold}}
	}
	slots, err := slots.Parse(s.Slots)
	if err != nil {
		return []cell{{s.Name, bold}, {s.Slots, plain}}
	}
	return []cell{{s.Name, bold}, {fmt.Sprintf("%s %d slots", slotsBar(slots), slots.Count()), plain}}
}

func servers(all []serverView, above string) []row {
	var rows []row
	for i, s := range all {
		branch := "├─ "
		if i == len(all)-1 {
			branch = "└─ "
		}
		health := cell{"ready", green}
		if !s.Ready {
			health = cell{"NOT READY", red}
		}
		cells := []cell{{s.Name, plain}, {s.Role, roleStyle(s.Role)}, health, {s.Version, plain}}
		if s.Size != "" {
			cells = append(cells, cell{"db " + s.Size, faint})
		}
		if s.Lag != "" {
			cells = append(cells, cell{s.Lag, faint})
		}
		if s.Message != "" {
			cells = append(cells, cell{s.Message, yellow})
		}
		rows = append(rows, row{branch: above + branch, cells: cells})
	}
	return rows
}

func roleStyle(role string) style {
	if role == "Leader" || role == "Primary" {
		return bold
	}
	return plain
}

// barWidth in characters: 512 slots each.
const barWidth = 32

// slotsBar shows where in the 16384 slots those are that a shard owns: █ all of that part, ▒ some, ░ none.
func slotsBar(s slots.Set) string {
	var parts [barWidth]int
	const part = slots.Count / barWidth
	for slot := range s.All() {
		parts[slot/part]++
	}
	bar := &strings.Builder{}
	for _, n := range parts {
		switch n {
		case 0:
			bar.WriteRune('░')
		case part:
			bar.WriteRune('█')
		default:
			bar.WriteRune('▒')
		}
	}
	return bar.String()
}
