package controllersim

import (
	"github.com/quorate/quorate/internal/cluster"
)

// InWords is a plan as people read it.
func InWords(p cluster.Plan) string {
	text := p.Reason + ": " + p.Message
	if p.Step != nil {
		text = p.Step.String() + ", " + text
	}
	return text
}
