package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// externalPoll is how soon to look again for what is missing: most of it is watched.
const externalPoll = 5 * time.Second

// farewell is how long a Service stays that a server does not announce any more. Clients look for changes now and then, most of them
// every few seconds, or when they fail to connect: one to which all that it knows is gone has to begin anew.
const farewell = time.Minute

// Reasons of external access.
const (
	ReasonExternal = "WaitingForExternalAccess"
)

// toAnnounce are the parameters that a server has otherwise than it is to have them, and whether others are to look for it
// elsewhere then. The certificate that it shows has to vouch for the host first: clients verify that.
func toAnnounce(v *model.View, p *model.Pod) (values map[string]string, moves bool) {
	values = facts.Differs(p)
	if _, ok := values[model.AnnounceHost]; ok && p.Node.Certificate != v.Spec.Certificate {
		return nil, false
	}
	for _, name := range []string{model.AnnounceIP, model.AnnouncePort, model.AnnounceTLSPort} {
		if _, ok := values[name]; ok {
			moves = true
		}
	}
	return values, moves
}

// announce corrects at once what servers announce where it breaks no connection: the host that clients are sent to, and the address
// of a server that nobody reaches anyway, because the Service that it announces is gone.
func announce(v *model.View) (cluster.Plan, bool) {
	var step steps.Announce
	for _, p := range v.Readable {
		if values, moves := toAnnounce(v, p); len(values) > 0 && (!moves || astray(v, p)) {
			step.Pods = append(step.Pods, steps.PodSettings{Pod: p.Name, Values: values})
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "%d servers are reached elsewhere than they say", len(step.Pods))
	plan.After = 2 * facts.Soon
	return plan, ok
}

// astray tells whether what a server announces leads nowhere: it is neither the address of its pod nor that of a Service that there
// is. Gossip does not tell: the others hear from a server that calls on them, wherever it says that it is.
func astray(v *model.View, p *model.Pod) bool {
	return p.Addr != p.HomeAddr && !slices.ContainsFunc(v.Exposed, func(e model.Exposure) bool { return e.Pod == p.Name && e.Inside == p.Addr })
}

// waitForHosts waits until every server knows where clients are sent to for every other one: it is the others that send them there.
// Gossip takes a moment to tell all of them, and slots that had been moved by then would be looked for in the wrong place. Ports of nodes may
// come later than hosts, which several servers share.
func waitForHosts(v *model.View) (cluster.Plan, bool) {
	checked := map[*model.Table]bool{}
	for _, p := range v.Readable {
		if checked[p.Node.Table()] {
			continue
		}
		checked[p.Node.Table()] = true
		for _, other := range v.Readable {
			host := other.Node.Announces[model.AnnounceHost]
			if host == "" {
				continue
			}
			peer, ok := p.Node.Peer(other.Node.ID)
			if ok && (peer.Host != host || peer.Addr.Port != other.Addr.Port) {
				return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon, facts.Later), "%s has yet to hear that clients are sent to %s, port %d, for %s",
					p.Name, host, other.Addr.Port, other.Name)
			}
		}
	}
	return cluster.Pass()
}

// moveAddress has one server after the other say that it is reached elsewhere, replicas first: the others connect to it anew, and its
// replicas to their primary. What would lead nowhere shows with the first of them, and harms nobody as long as it is a replica.
func moveAddress(v *model.View) (cluster.Plan, bool) {
	var next *steps.PodSettings
	for _, p := range v.Readable {
		values, moves := toAnnounce(v, p)
		if moves && (next == nil || (!v.PodNamed(next.Pod).Node.Self().Replica && p.Node.Self().Replica)) {
			next = &steps.PodSettings{Pod: p.Name, Values: values}
		}
	}
	if next == nil {
		return cluster.Pass()
	}
	for _, p := range v.Readable {
		for _, other := range v.Readable {
			if p != other && !facts.CanFind(p.Node, other) {
				return cluster.Wait(ReasonGossip, facts.Soon*3, "%s does not know yet that %s is at %s", p.Name, other.Name, other.Addr)
			}
		}
	}
	plan, ok := cluster.Do(steps.Announce{Pods: []steps.PodSettings{*next}}, "the others are told where %s is reached", next.Pod)
	plan.After = facts.Soon * 5
	return plan, ok
}

// deleteUnannouncedServices deletes the Services that are not asked for any more. All servers announce what they are to announce by now; those of a
// pod that there is stay for a while, and one inside for as long as somebody would look for a server there.
func deleteUnannouncedServices(v *model.View) (cluster.Plan, bool) {
	var step steps.Withdraw
	for _, e := range v.Exposed {
		used := v.PodNamed(e.Pod) != nil && (e.Unused.IsZero() || v.Now.Sub(e.Unused) < farewell)
		if !e.Wanted && !used && !leadsTo(v, e) {
			step.Services = append(step.Services, e)
		}
	}
	if len(step.Services) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "nobody is sent to %d Services any more", len(step.Services))
}

// leadsTo tells whether some server looks for another one at the address of a Service.
func leadsTo(v *model.View, e model.Exposure) bool {
	return e.Inside.IP != "" && slices.ContainsFunc(v.Readable, func(p *model.Pod) bool {
		if p.Node.Asks == e.Inside {
			return true
		}
		for peer := range p.Node.All() {
			if peer.Addr == e.Inside {
				return true
			}
		}
		return false
	})
}

// waitForExternal says what is missing for clients outside to reach all servers. It comes last: the cluster works without.
func waitForExternal(v *model.View) (cluster.Plan, bool) {
	if v.Spec.Unannounced == "" {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonExternal, externalPoll, "%s", v.Spec.Unannounced)
}

// waitForOutside holds up what is less urgent than a hand-over that waits for its server to be reached from outside. Until here everything
// goes on that it waits for.
func waitForOutside(v *model.View) (cluster.Plan, bool) {
	for shard, pods := range v.Shards {
		primary := v.Primary(shard)
		if primary == nil || (!primary.Outdated && slices.Contains(facts.Staying(v, shard), primary)) {
			continue
		}
		if best := facts.BestReplica(v, facts.Current(pods), primary); best != nil && facts.CutsOff(v, primary, best) {
			return waitOutside("%s is to take over from %s as soon as clients outside reach it: %s", best.Name, primary.Name, facts.WhyCutOff(v, best))
		}
	}
	return cluster.Pass()
}

// waitOutside looks again soon for what is missing outside: gossip tells nobody of it.
func waitOutside(format string, args ...any) (cluster.Plan, bool) {
	return cluster.Wait(ReasonExternal, facts.Later, "%s", fmt.Sprintf(format, args...))
}

// openMoves are the moves after which clients outside reach the slots that they reached before. to is the first server that others wait
// for; nil: none do.
func openMoves(v *model.View, moves []slots.Move) (open []slots.Move, to *model.Pod) {
	for _, m := range moves {
		from, target := v.Primary(m.From), v.DesignatedPrimary(m.To)
		if from == nil || target == nil || !facts.CutsOff(v, from, target) {
			open = append(open, m)
		} else if to == nil {
			to = target
		}
	}
	return open, to
}
