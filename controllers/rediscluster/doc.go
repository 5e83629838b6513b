// Package rediscluster reconciles RedisClusters: it applies their objects, observes Kubernetes and
// the servers, and carries out one step of the planner. It must not decide: what to do is decided
// in internal/cluster/redis.
package rediscluster
