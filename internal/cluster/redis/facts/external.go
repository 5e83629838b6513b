package facts

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Differs are the parameters of what its server announces that it has otherwise than it is to have them.
func Differs(p *model.Pod) map[string]string {
	out := map[string]string{}
	for name, want := range p.Announce {
		if have, ok := p.Node.Announces[name]; ok && have != want {
			out[name] = want
		}
	}
	return out
}

// Clients outside reach a server only where it says that it is outside. So what is planned gives no slots of a server that they reach to
// one that they do not reach yet: its load balancer has no address, or its server has not been told. Whose server is dead, or about to
// end, is replaced all the same.

// CutsOff tells whether clients outside would lose what one server has if another one got it.
// Without endpoints outside (v.Doors) they are meant to lose it.
func CutsOff(v *model.View, from, to *model.Pod) bool {
	return len(v.Doors) > 0 && from.Node.HostOutside() != "" && (to.Node.HostOutside() == "" || len(Differs(to)) > 0)
}

// ReachedFromOutside are those of some pods that may be given what a server has, see CutsOff.
func ReachedFromOutside(v *model.View, from *model.Pod, pods []*model.Pod) []*model.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *model.Pod) bool { return p.Node != nil && CutsOff(v, from, p) })
}

// WhyCutOff says in words what a server waits for that clients outside do not reach yet.
func WhyCutOff(v *model.View, p *model.Pod) string {
	if i := slices.IndexFunc(v.Doors, func(d model.Door) bool { return d.Pod == p.Name && d.Problem != "" }); i >= 0 {
		return v.Doors[i].Problem
	}
	return "its server does not say yet where that is"
}
