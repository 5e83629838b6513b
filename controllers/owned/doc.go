// Package owned reads and writes the Kubernetes objects that a custom resource of the operator
// owns: server-side apply, adoption, Secrets, certificates, Jobs, pods, nodes, volumes and
// connections to pods. It knows neither data store: no quorum, no slots.
package owned
