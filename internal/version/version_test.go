package version_test

import (
	"testing"

	"github.com/quorate/quorate/internal/version"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]version.Version{
		"8.0.2":          {Major: 8, Patch: 2},
		"v3.6.16":        {Major: 3, Minor: 6, Patch: 16},
		"7.2":            {Major: 7, Minor: 2},
		"8.0.2-bookworm": {Major: 8, Patch: 2},
		"7.4-rc_1":       {Major: 7, Minor: 4},
		"v3.6.0-rc.1":    {Major: 3, Minor: 6},
		"255.255.255":    {Major: 255, Minor: 255, Patch: 255},
	} {
		if got, err := version.Parse(text); err != nil || got != want {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "v", "8", "latest", "8.x.1", "8.0.x", "1.2.3.4", "8.-1.0", " 8.0.2", "8.0.2 ", "8.0.2\n", "8..2", "8.0.", "8.0.2rc1", "8.0.2+a", "vv8.0.2",
		"8.0.99999999999", "8.0.99999999999999999999",
	} {
		if v, err := version.Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, v)
		}
	}
}

func TestParseRelease(t *testing.T) {
	want := version.Version{Major: 3, Minor: 6, Patch: 16}
	for _, text := range []string{"3.6.16", "v3.6.16"} {
		if got, err := version.ParseRelease(text); err != nil || got != want {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3", "3.6", "3.6.x", "3.6.-1", "3.6.1.1", "3.6.1-rc1", "3.6.1+a", "3.6.1-", " 3.6.1"} {
		if v, err := version.ParseRelease(text); err == nil {
			t.Errorf("%q is read as %v", text, v)
		}
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	ascending := []version.Version{{}, {Major: 7, Minor: 4, Patch: 9}, {Major: 8}, {Major: 8, Patch: 2}, {Major: 8, Minor: 2}, {Major: 9}}
	for i, v := range ascending {
		for j, o := range ascending {
			if want := i < j; v.Less(o) != want {
				t.Errorf("%s is older than %s: %t", v, o, !want)
			}
		}
	}
	v := version.Version{Major: 8, Minor: 2, Patch: 1}
	if !v.AtLeast(8, 2) || !v.AtLeast(7, 4) || v.AtLeast(8, 3) || v.AtLeast(9, 0) {
		t.Errorf("%s is compared with minor versions wrongly", v)
	}
	if v.String() != "8.2.1" {
		t.Errorf("the version is written as %q", v)
	}
}
