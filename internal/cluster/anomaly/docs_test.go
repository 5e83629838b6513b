package anomaly_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/anomaly"
)

// The page for users has the limits that hold.
func TestLimitsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/anomalies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range anomaly.Measures() {
		row := fmt.Sprintf("| `%s` | %s | %s%s | %s%s |\n", m.Finding, m.What, m.Up, lasting(m.For), m.Down, lasting(m.ClearFor))
		if !strings.Contains(string(raw), row) {
			t.Errorf("docs/anomalies.md lacks\n%s", row)
		}
		if !strings.Contains(string(raw), "\n**"+string(m.Finding)+"**") {
			t.Errorf("docs/anomalies.md does not say what to do about %s", m.Finding)
		}
	}
}

func lasting(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("; %d min", d/time.Minute)
}
