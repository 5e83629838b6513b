// Package scale measures the manager with a thousand clusters and more. The manager and the API server are real, each in a process of its
// own. What is simulated is the rest of Kubernetes, which makes pods of StatefulSets and starts their servers, and the servers themselves:
// the data stores in memory that the other tests use answer here in the protocols of etcd and Redis, over TLS, each pod at an address of
// its own on loopback. So the manager is measured with the connections, certificates and answers that it has to do with in earnest.
//
//	manager ──HTTPS──> kube-apiserver <──HTTPS── kubelet (simulated)
//	   └──gRPC, RESP over TLS──> 127.x.y.z:2379, :6379: etcdfake, redisfake
//
// What is left out: clusters are made, changed and grown, and not deleted; the only member or server that is stopped is one whose pod is deleted.
package scale
