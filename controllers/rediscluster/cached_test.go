package rediscluster

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/test/fakeapi"
)

var decisionsOnPods = fakeapi.Decisions[*corev1.Pod]{
	"podOf":       func(p *corev1.Pod) any { return podOf(p, 0, 0) },
	"ResizeOf":    func(p *corev1.Pod) any { return kube.ResizeOf(p, manifests.ContainerServer) },
	"nodeAddress": func(p *corev1.Pod) any { return []string{p.Status.HostIP, p.Spec.NodeName} },
	"has":         func(p *corev1.Pod) any { return []bool{hashes{current: "x"}.has(p), hashes{}.has(p)} },
}

var decisionsOnNodes = fakeapi.Decisions[*corev1.Node]{
	"nodeAddress":   func(n *corev1.Node) any { return n.Status.Addresses },
	"roomElsewhere": func(n *corev1.Node) any { return []any{n.Name, n.Status.Allocatable} },
}

var decisionsOnSets = fakeapi.Decisions[*appsv1.StatefulSet]{
	"StorageChanged": func(s *appsv1.StatefulSet) any {
		return manifests.StorageChanged(fakeapi.RedisCluster().Spec.Storage, s)
	},
	"Set": func(s *appsv1.StatefulSet) any { return shardSet(s) },
}

var decisionsOnBudgets = fakeapi.Decisions[*policyv1.PodDisruptionBudget]{
	"guarded": func(b *policyv1.PodDisruptionBudget) any { return b.Spec.MaxUnavailable },
}

// decidedBy names the decisions above that a function makes. Others read objects, ask servers, or
// write.
var decidedBy = map[string][]string{
	"unreadySince": {"podOf"}, "startedAt": {"podOf"}, "endedBy": {"podOf"}, "gateRemark": {"podOf"}, "hashes": {"has"},
	"observeResize": {"ResizeOf", "has"}, "moveOrWait": {"podOf", "roomElsewhere"}, "roomElsewhere": {"podOf"},
	"observeCertificates": {"podOf"}, "heldBack": {"podOf"}, "observeClaims": {"podOf"}, "observeStranded": {"podOf"},
}

func shardSet(live *appsv1.StatefulSet) any {
	out, err := manifests.Builder{Cluster: fakeapi.RedisCluster(), Owner: kube.Owner("v1", "x", "x", "x")}.Set(0, live)
	if err != nil {
		return err.Error()
	}
	out.Spec.Template = nil
	raw, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestACachedObjectDecidesLikeTheWholeOne(t *testing.T) {
	t.Parallel()
	decisionsOnPods.Compare(t, manifests.ContainerServer, manifests.ContainerGate)
	decisionsOnNodes.Compare(t, "")
	decisionsOnSets.Compare(t, manifests.ContainerServer, manifests.ContainerGate)
	decisionsOnBudgets.Compare(t, "")
	fakeapi.CheckCompared(t, decidedBy, decisionsOnPods, decisionsOnNodes, decisionsOnSets, decisionsOnBudgets)
}
