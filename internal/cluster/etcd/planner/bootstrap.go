package planner

import (
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// writeRecord writes the record before anything can start. Whether an empty disk may found the cluster is decided
// here, once, from the claims that are there before the first pod.
func writeRecord(s model.State) (cluster.Plan, bool) {
	if s.Record != nil {
		return cluster.Pass()
	}
	if s.Set != nil {
		return cluster.Do(steps.WriteBootstrap{Bootstrap: model.BootstrapRecovered, Size: made(s), Version: s.Set.MadeWith(s.Want.Version), Restore: nil},
			"the record was deleted under a living cluster: it is written anew")
	}
	for _, c := range s.Claims {
		if c.Leaving {
			return cluster.Wait(ReasonClaimsLeaving, whileWaiting,
				"claim %s of an earlier cluster of this name is being deleted", c.Name)
		}
	}
	if len(s.Claims) > 0 && !s.Want.Persistent {
		var names []string
		for _, c := range s.Claims {
			names = append(names, c.Name)
		}
		return cluster.Refuse(ReasonStorage, "the claims %s of an earlier cluster of this name may hold its data, and spec.storage is not set: "+
			"delete this cluster and create it with spec.storage, or with another name, or delete the claims to do without", strings.Join(names, ", "))
	}
	size := max(s.Want.Size, claimed(s)) // A smaller cluster comes of it by scaling in.
	if s.Want.Restore != nil {
		return beginWithBackup(s, size)
	}
	if len(s.Claims) == 0 {
		return cluster.Do(steps.WriteBootstrap{Bootstrap: model.BootstrapNew, Size: size, Version: s.Want.Version, Restore: nil}, "no volume of an earlier cluster exists: %d members found a new one", size)
	}
	return cluster.Do(steps.WriteBootstrap{Bootstrap: model.BootstrapRetained, Size: size, Version: s.Want.Version, Restore: nil},
		"volumes of an earlier cluster exist: its members start with their data, and none founds a new cluster")
}

// made is the number of members of a cluster whose record is gone: that of its pods, or of its claims where it hibernated.
func made(s model.State) int {
	if s.Set.Replicas > 0 {
		return s.Set.Replicas
	}
	return max(claimed(s), 1)
}

// claimed is the number of ordinals up to the highest that has a claim.
func claimed(s model.State) int {
	n := 0
	for _, c := range s.Claims {
		n = max(n, min(c.Ordinal+1, len(s.Want.Peers)))
	}
	return n
}

// bootstrapOverEmptyClaims lets the members found a cluster when every claim that was found turned out to be empty: the
// earlier cluster had never started.
func bootstrapOverEmptyClaims(s model.State) (cluster.Plan, bool) {
	if s.Record.Bootstrap != model.BootstrapRetained || s.Record.ClusterID != 0 || len(s.Claims) > len(s.Record.Members) {
		return cluster.Pass()
	}
	for _, m := range s.Record.Members {
		p := s.PodNamed(m.Name)
		if p == nil || p.Terminating || p.Gate == nil || p.Gate.Reason != model.GateNoPeers {
			return cluster.Pass()
		}
	}
	return cluster.Do(steps.WriteBootstrap{Bootstrap: model.BootstrapNew, Size: len(s.Record.Members), Version: s.Record.Version, Restore: nil},
		"every volume that was left by an earlier cluster is empty: the members found a new one")
}
