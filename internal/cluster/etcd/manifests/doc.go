// Package manifests builds the Kubernetes objects of an etcd cluster as apply configurations:
// StatefulSet, Services, ConfigMap data, disruption budget, connection Secret.
//
// The same specification gives the same objects, so that an upgrade of the operator restarts no
// member. It talks to no API server.
package manifests
