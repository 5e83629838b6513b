// Package etcdcluster reconciles EtcdClusters: it applies their objects, observes Kubernetes and
// the members, and carries out one step of the planner. It must not decide: what to do is decided
// in internal/cluster/etcd.
package etcdcluster
