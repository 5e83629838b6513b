package planner_test

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// noVersion is one that there is no image of.
const noVersion = "8.9.9"

// simVersions are asked for in any order.
var simVersions = []string{"8.0.2", "8.0.3", "8.2.1", "8.4.0", noVersion}

// template is what pods are made from now.
func (s *simulation) template() string { return fmt.Sprintf("%s/%d", s.spec.Version, s.changes) }

func (s *simulation) outdated(p *simPod) bool { return p.exists && p.template != s.template() }

// hold says why a new pod cannot start, empty when it can. The gate empties a replica's disk that its server cannot read.
func (s *simulation) hold(p *simPod) string {
	switch {
	case s.spec.Version == noVersion:
		return "ImagePullBackOff: no such image"
	case p.server == nil || !software.Older(s.spec.Version, p.server.Version):
		return ""
	case len(p.server.Slots()) > 0 || p.server.Imports():
		return "CrashLoopBackOff: held back over data of a later version"
	}
	s.log("the gate sets the data of %s aside", p.name)
	clear(p.server.Data)
	return ""
}

// correctVersion is a human who does what a stalled plan says, or a pod that cannot start.
func (s *simulation) correctVersion(p cluster.Plan) {
	stalled := p.Stalled && (p.Reason == planner.ReasonVersion || p.Reason == planner.ReasonCanary)
	if !stalled && !strings.Contains(p.Message, "cannot start") {
		return
	}
	was := s.spec.Version
	s.spec.Version = simVersions[0]
	for _, o := range s.present() {
		if o.server != nil && software.Older(s.spec.Version, o.server.Version) {
			s.spec.Version = o.server.Version
		}
	}
	if s.spec.Version == was {
		return
	}
	s.log("a human sets the version to %s", s.spec.Version)
}

// checkLeftBehind insists that no pod of a shard is too old to copy the one that is promoted, but for the one that hands over and those that
// are too old for that one already.
func (s *simulation) checkLeftBehind(st steps.Failover, to *simPod) {
	for _, o := range s.staff() {
		if o.exists && o.name != st.From && o.shard == to.shard && o.server != nil && o.ordinal < s.spec.Copies() && software.Older(o.server.Version, to.server.Version) && !software.Older(o.server.Version, s.pod(st.From).server.Version) {
			s.fail("%s: %s runs %s and cannot copy %s", st, o.name, o.server.Version, to.server.Version)
		}
	}
}
