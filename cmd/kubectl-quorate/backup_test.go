package main

import (
	"strings"
	"testing"
	"time"
)

func TestANameWithATimeIsShortEnough(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, want := range map[string]string{
		"orders":                "orders-20260501-120000",
		strings.Repeat("x", 40): strings.Repeat("x", 32) + "-20260501-120000",
		strings.Repeat("x", 31) + "-" + "rest-of": strings.Repeat("x", 31) + "-20260501-120000",
	} {
		if got := timedName(name, at); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
