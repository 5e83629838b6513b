// Package kubecache says which objects of Kubernetes the manager keeps in its cache, and which of
// their fields. It must not drop a field that a decision reads: each package that decides on cached
// objects has a test that compares its decisions on whole and on cached ones.
package kubecache
