package gate

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/redistest"
)

func FuzzParseNodes(f *testing.F) {
	f.Add(redistest.NodesText)
	f.Add("a b c d e f 1 h 5-3")
	f.Add("a :@ myself - 0 0 1 connected 99999")
	f.Fuzz(func(t *testing.T, text string) {
		peers, err := model.ParseNodes(text)
		if err != nil {
			return
		}
		for _, p := range peers {
			for _, r := range p.Slots {
				if r.From < 0 || r.To < r.From || r.To >= slots.Count {
					t.Errorf("range %v out of %q", r, text)
				}
			}
		}
		Decide(Disk{Nodes: text})
	})
}
