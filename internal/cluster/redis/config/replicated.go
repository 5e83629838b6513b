package config

import (
	"strconv"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// replicatedStart is the part of the configuration that servers read when they start.
func replicatedStart() []directive {
	return []directive{
		{"cluster-enabled", []string{"no"}},
		{"replicaof", []string{model.Nobody.IP, strconv.Itoa(model.Nobody.Port)}},
		{"repl-ping-replica-period", []string{"1"}}, // So that silence means something, see model.Replication.
	}
}

// fencing returns when a primary counts a replica as lost. How many it needs is set on the running
// server, see setMinReplicasOfPrimary in package planner.
func fencing(c *v1alpha1.RedisConfig) []directive {
	return []directive{{model.WriteGuardLag, []string{strconv.Itoa(int(MaxSilence(NodeTimeout(c)).Seconds()))}}}
}

// MaxSilence is how long a primary takes writes without hearing from a replica: the node timeout, in whole seconds, and no less than replicas
// need to report.
func MaxSilence(nodeTimeout time.Duration) time.Duration {
	return max((nodeTimeout + time.Second - 1).Truncate(time.Second), model.LeastLag)
}
