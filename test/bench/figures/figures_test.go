package figures

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFiguresAreReadBackAndSummed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bench")
	file, err := Create(dir, "ready")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Figure{
		{"etcd, three members", "floor", "s", 4},
		{"etcd, three members", "Quorate", "s", 5.25},
		{"etcd, three members", "floor", "s", 2},
		{"etcd, three members", "Quorate", "s", 5},
		{"etcd, three members", "floor", "s", 3},
	} {
		if err := file.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.Open(filepath.Join(dir, "ready.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	measured, all, err := Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	if today := time.Now().UTC().Format(time.DateOnly); !strings.HasPrefix(measured, today) {
		t.Errorf("measured %q, today is %s", measured, today)
	}
	want := []Summary{
		{"etcd, three members", "floor", "s", []float64{4, 2, 3}, 3, 4, 4},
		{"etcd, three members", "Quorate", "s", []float64{5.25, 5}, 5.125, 5.25, 5.25},
	}
	sums := Summarize(all)
	if diff := cmp.Diff(want, sums); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := sums[1].String(); got != "Quorate: median 5.125 s, p95 5.25, max 5.25 of 2" {
		t.Error(got)
	}
}

func TestTheGreatestOfManyIsNotTheirP95(t *testing.T) {
	var all []Figure
	for i := range 40 {
		all = append(all, Figure{"gap", "Quorate", "ms", float64(40 - i)})
	}
	if s := Summarize(all)[0]; s.P95 != 38 || s.Max != 40 || s.Median != 20.5 {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsNoFileOfFiguresIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "nothing of where it was measured": "what,side,unit,value\na,b,s,1\n", "another head": "# here\na,b,c,d\n",
		"no number": "# here\nwhat,side,unit,value\na,b,s,fast\n", "a field too few": "# here\nwhat,side,unit,value\na,b,s\n",
	} {
		if _, _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func TestFiguresAreShownAsATable(t *testing.T) {
	got := Table(Summarize([]Figure{
		{"a leader is killed", "no operator", "ms", 1000},
		{"all are restarted", "quorate", "s", 61.23},
		{"a leader is killed", "quorate", "ms", 1234.5},
	}))
	want := `| | | median | p95 | most | of |
|---|---|---|---|---|---|
| a leader is killed | no operator | 1,000 ms | 1,000 ms | 1,000 ms | 1 |
| | quorate | 1,230 ms (1.23 times) | 1,230 ms | 1,230 ms | 1 |
| all are restarted | quorate | 61.2 s | 61.2 s | 61.2 s | 1 |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
