package redis

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// calm is for how long all pods have to have been ready before primaries are moved just to divide them among the nodes: one that
// comes and goes must not take its shard along each time. While there is no key, nobody minds.
const calm = time.Minute

// lastWords is what a pod does before its server is told to end, in the words of a shell: while the server is the primary and has a
// replica, it waits for the operator to have that take over, for ten seconds at most. When that is done, it stays for a moment to
// send clients on that have not noticed.
const lastWords = `waited=
for _ in $(seq 50); do
  %s || break
  waited=y
  sleep 0.2
done
[ -z "$waited" ] || [ -n "$primary" ] || sleep 2`

// leads tells in such words whether a server owns slots and has a replica that is not known to have failed. The server keeps its table in
// the file (clusterSaveConfig), and writes it whenever somebody is promoted.
const leads = `me=$(sed -n 's/^\([0-9a-f]*\) .*myself,master - .* connected [0-9].*/\1/p' ` + dataDir + "/" + NodesFile + `)
  primary=$(grep myself,master ` + dataDir + "/" + NodesFile + `)
  [ -n "$me" ] && grep -q " slave $me " ` + dataDir + "/" + NodesFile

// leadsAlone tells it in the mode Replicated, where no file does: the server is asked as its replicas ask theirs, with the passwords that
// the Secret holds at present. The kubelet may be a phase behind while they are replaced, so that each is tried: what fails leaves the one before in
// force. Of a primary the answer is its role, an offset and three lines for each replica.
const leadsAlone = `primary=$({ for f in ` + replicationDir + `/*; do sed 's/[\\"]/\\&/g; s/.*/AUTH ` + UserReplication + ` "&"/' "$f"; echo; done; echo ROLE; } |
    $(command -v valkey-cli || command -v redis-cli) -h 127.0.0.1 -p 6379%s 2>/dev/null | sed -n '/^master$/,$p')
  [ $(echo "$primary" | wc -l) -gt 2 ]`

// lastWords of the servers of this cluster.
func (b Builder) lastWords() string {
	if !b.Cluster.Spec.IsReplicated() {
		return fmt.Sprintf(lastWords, leads)
	}
	secure := ""
	if b.TLSSecret != "" {
		secure = " --tls --cacert " + tlsDir + "/ca.crt"
	}
	return fmt.Sprintf(lastWords, fmt.Sprintf(leadsAlone, secure))
}

// handOverFromLeavingPod hands shards over whose primary is about to end, or is on a node that is being emptied. It comes early: others may be
// about to end as well.
func handOverFromLeavingPod(v *view) (cluster.Plan, bool) {
	for shard, pods := range v.shards {
		i := slices.IndexFunc(pods, func(p *Pod) bool {
			return p.Node != nil && p.ownsSlots() && p.Node.StateOK && (p.Deleting || p.Cordoned != "") && (!v.Spec.Replicated || p == v.leader())
		})
		if i < 0 {
			continue
		}
		primary, why := pods[i], pods[i].Cordoned
		if primary.Deleting {
			why = "is about to end"
		}
		if best := v.stayer(primary); best != nil && v.atRest() {
			return cluster.Do(Failover{shard, primary.Name, best.Name}, "%s %s; %s has all of its data", primary.Name, why, best.Name)
		}
	}
	return cluster.Pass()
}

// stayer is the replica that takes over from a primary that leaves: one that clients outside reach, or any when there is no time to wait.
func (v *view) stayer(primary *Pod) *Pod {
	stays := func(p *Pod) bool { return !p.Deleting && p.Cordoned == "" }
	best := v.bestOf(primary, func(p *Pod) bool { return stays(p) && !v.cutsOff(primary, p) })
	if best == nil && primary.Deleting {
		return v.bestOf(primary, stays)
	}
	return best
}

// bestOf is the best replica of those that stay in the shard and that a condition holds for; nil when there is none.
func (v *view) bestOf(primary *Pod, fits func(*Pod) bool) *Pod {
	var fit []*Pod
	for _, p := range v.staying(primary.Shard) {
		if p != primary && p.Node != nil && fits(p) && !v.leavesBehind(p) {
			fit = append(fit, p)
		}
	}
	return v.bestReplica(fit, primary)
}

// spreadPrimaries divides primaries among the nodes: each hand-over makes the busier one of two nodes less busy, so that it ends.
func spreadPrimaries(v *view) (cluster.Plan, bool) {
	primaries := map[string]int{}
	inUse := slices.ContainsFunc(v.read, func(p *Pod) bool { return p.Node.Keys > 0 })
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.NodeName == "" || !p.Ready || (inUse && v.Now.Sub(p.Since) < calm) {
			return cluster.Pass()
		}
		if p.ownsSlots() {
			primaries[p.NodeName]++
		}
	}
	if !v.atRest() {
		return cluster.Pass()
	}
	for shard := range v.shards {
		primary := v.primary(shard)
		if primary == nil || !slices.Contains(v.staying(shard), primary) {
			continue
		}
		best := v.bestOf(primary, func(p *Pod) bool {
			return !p.Outdated && p.Cordoned == "" && !v.cutsOff(primary, p) && primaries[primary.NodeName]-primaries[p.NodeName] >= 2
		})
		if best != nil {
			return cluster.Do(Failover{shard, primary.Name, best.Name}, "node %s has %d primaries and node %s has %d; %s has all data of %s",
				primary.NodeName, primaries[primary.NodeName], best.NodeName, primaries[best.NodeName], best.Name, primary.Name)
		}
	}
	return cluster.Pass()
}
