// Package kubecache says which objects of Kubernetes the manager keeps in its cache, and which
// of their fields. A field that a decision reads must stay: each package that decides on cached
// objects has a test which compares its decisions on whole and on cached ones.
package kubecache
