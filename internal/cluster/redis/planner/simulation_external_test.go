package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// ensureServices makes Services for all pods that the sets have room for, as the controller does before each pass.
func (s *simulation) ensureServices() {
	if !s.external {
		return
	}
	for _, p := range s.pods {
		if _, ok := s.services[p.name]; ok || !s.housed(p) {
			continue
		}
		s.ips++
		a := model.Announcement{Host: "outside.example.com", IP: fmt.Sprintf("10.96.%d.%d", s.ips/250, s.ips%250), TLSPort: 30000 + s.ips%2000}
		s.services[p.name] = a
		s.net.Services[model.Address{IP: a.IP, Port: a.TLSPort}] = p.name + ".c-peers"
	}
}

// housed tells whether the set of a pod has room for it.
func (s *simulation) housed(p *simPod) bool {
	set, ok := s.sets[p.shard]
	return ok && p.ordinal < max(set.Replicas, s.spec.Copies())
}

// announcement is what the server of a pod is to announce.
func (s *simulation) announcement(p *simPod) model.Announcement {
	if !s.external {
		return model.Announcement{}
	}
	return s.services[p.name]
}

func (s *simulation) observeServices(state *model.State) {
	s.ensureServices()
	for _, name := range slices.Sorted(maps.Keys(s.services)) {
		a := s.services[name]
		if s.external {
			state.Doors = append(state.Doors, model.Door{Pod: name, Announcement: a, NodePort: a.TLSPort})
		}
		i := slices.IndexFunc(s.pods, func(p *simPod) bool { return p.name == name })
		state.Exposed = append(state.Exposed, model.Exposure{
			Name: name, Pod: name, Inside: model.Address{IP: a.IP, Port: a.TLSPort}, Wanted: s.external && i >= 0 && s.housed(s.pods[i]),
			Unused: state.Now.Add(-time.Hour), // The others are to have moved by then all the same.
		})
	}
}

// withdraw deletes Services, at which nobody may be looked for.
func (s *simulation) withdraw(st steps.Withdraw) {
	for _, e := range st.Services {
		if s.dies() {
			return
		}
		for _, p := range s.pods {
			if p.server != nil && p.server.Up && p.server.Announces["cluster-announce-ip"] == e.Inside.IP {
				s.fail("%s: %s says that it is reached there", st, p.name)
			}
		}
		s.deleteService(e.Name)
	}
}

func (s *simulation) deleteService(name string) {
	a := s.services[name]
	delete(s.net.Services, model.Address{IP: a.IP, Port: a.TLSPort})
	delete(s.services, name)
}

// loseService is a human who deletes the Services of a pod: the next ones have other addresses.
func (s *simulation) loseService(p *simPod) {
	if _, ok := s.services[p.name]; !ok || !p.exists || p.server == nil {
		return
	}
	s.log("fault: a human deletes the Services of %s", p.name)
	s.hit(p)
	s.deleteService(p.name)
}
