package model

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
)

// ClusterOf returns what a cluster is called in messages about another one.
func ClusterOf(name, namespace string) string {
	return fmt.Sprintf("%s in namespace %s", name, namespace)
}

// ParseClaim reads the shard and the ordinal out of the name of a data volume claim, data-<cluster>-<shard>-<ordinal>.
func ParseClaim(name, claim string) (shard, ordinal int, ok bool) {
	pod, found := strings.CutPrefix(claim, cluster.VolumeData+"-")
	shard, ordinal, ok = ParsePod(name, pod)
	return shard, ordinal, ok && found
}

// ParsePod returns the shard and the ordinal in the name of a pod, <cluster>-<shard>-<ordinal>.
func ParsePod(name, pod string) (shard, ordinal int, ok bool) {
	rest, found := strings.CutPrefix(pod, name+"-")
	first, second, cut := strings.Cut(rest, "-")
	shard, isShard := cluster.Number(first)
	ordinal, isOrdinal := cluster.Number(second)
	return shard, ordinal, found && cut && isShard && isOrdinal
}
