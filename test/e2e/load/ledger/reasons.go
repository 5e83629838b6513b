package ledger

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Reasons are why writes were not acknowledged, in the order in which they came up; the first few of them.
type Reasons []Miss

// Miss is one reason why writes were not acknowledged.
type Miss struct {
	Error string `json:"error"`
	Count int    `json:"count"`
	// FirstMs and LastMs are when that was noticed, since the load began.
	FirstMs int64 `json:"firstMs"`
	LastMs  int64 `json:"lastMs"`
}

// maxReasons is how many are told apart.
const maxReasons = 8

// ownAddress is the changing part of an error of the network.
var ownAddress = regexp.MustCompile(`[0-9.]+:[0-9]+->`)

func (r *Reasons) add(err error, at int64) {
	what := ownAddress.ReplaceAllString(err.Error(), "")
	i := slices.IndexFunc(*r, func(m Miss) bool { return m.Error == what })
	if i < 0 {
		if len(*r) == maxReasons {
			return
		}
		i = len(*r)
		*r = append(*r, Miss{Error: what, FirstMs: at})
	}
	(*r)[i].Count, (*r)[i].LastMs = (*r)[i].Count+1, at
}

// String is every reason, how often it came up, and when.
func (r Reasons) String() string {
	why := make([]string, len(r))
	for i, m := range r {
		why[i] = fmt.Sprintf("%d x %q (%d to %d ms)", m.Count, m.Error, m.FirstMs, m.LastMs)
	}
	return strings.Join(why, ", ")
}
