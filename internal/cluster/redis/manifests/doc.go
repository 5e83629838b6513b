// Package manifests builds the Kubernetes objects of a Redis or Valkey cluster as apply
// configurations: StatefulSets, Services, ConfigMaps, disruption budgets, the exporter, the connection
// Secret.
//
// The same specification gives the same objects, so that an upgrade of the operator restarts no
// server. It talks to no API server.
package manifests
