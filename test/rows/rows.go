// Package rows runs tables of tests whose rows check themselves.
package rows

import "testing"

// Row is a row of a table: what is set up, and what has to come of it.
type Row interface{ Check(t *testing.T) }

// Run checks every row in a subtest of its name.
func Run[R Row](t *testing.T, rows map[string]R) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, r.Check)
	}
}
