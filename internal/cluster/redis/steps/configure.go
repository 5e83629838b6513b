package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Configure tells servers parameters that they have otherwise.
type Configure struct {
	Pods []PodSettings
	// Names are the parameters of spec.config.extra, see config.AnnotationLive.
	Names string
}

// PodSettings are the parameters that the server of one pod has otherwise.
type PodSettings struct {
	Pod    string
	Values map[string]string
}

// ReasonConfigure is the reason of Configure.
const ReasonConfigure = "ConfiguringServers"

func (s Configure) String() string {
	names := map[string]bool{}
	for _, p := range s.Pods {
		for name := range p.Values {
			names[name] = true
		}
	}
	return fmt.Sprintf("set %s on %s", JoinItems(slices.Sorted(maps.Keys(names)), func(n string) string { return n }),
		JoinItems(s.Pods, func(p PodSettings) string { return p.Pod }))
}

// Calls sends CONFIG SET.
func (s Configure) Calls() []Call {
	return calls(s.Pods, func(p PodSettings) Call {
		return Call{p.Pod, func(ctx context.Context, c Client) error { return c.Configure(ctx, p.Values) }}
	})
}
