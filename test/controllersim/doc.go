// Package controllersim simulates a Kubernetes cluster with etcd or Redis in it: the API server
// of package fakeapi, a kubelet, servers in memory, and between all of them and the operator a
// Wire that counts calls and injects faults. What is simulated does not depend on the
// controllers of clusters: a test passes the constructor of the one under test. The tests of
// this package run whole workloads: sweeps over every call, pairs of operations, drift of every
// field, and misoperation.
package controllersim
