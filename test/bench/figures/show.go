package figures

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Table shows figures in Markdown. How many times the first side of the same thing another one is stands behind its median.
func Table(sums []Summary) string {
	var b strings.Builder
	b.WriteString("| | | median | p95 | most | of |\n|---|---|---|---|---|---|\n")
	var first Summary
	for _, s := range sums {
		what, times := s.What+" ", ""
		if s.What == first.What {
			what, times = "", fmt.Sprintf(" (%.2f times)", s.Median/first.Median)
		} else {
			first = s
		}
		fmt.Fprintf(&b, "| %s| %s | %s%s | %s | %s | %d |\n", what, s.Side, s.text(s.Median), times, s.text(s.P95), s.text(s.Max), len(s.Values))
	}
	return b.String()
}

// text is a value with its unit, to three digits.
func (s Summary) text(value float64) string {
	if value >= 1000 {
		digits := math.Pow(10, math.Floor(math.Log10(value))-2)
		value = math.Round(value/digits) * digits
	}
	number := strconv.FormatFloat(value, 'f', -1, 64)
	if value < 1000 {
		number = strconv.FormatFloat(value, 'g', 3, 64)
	}
	for i := len(number) - 3; i > 0 && value >= 1000; i -= 3 {
		number = number[:i] + "," + number[i:]
	}
	return number + " " + s.Unit
}
