// Package controllers registers the controllers of all kinds with a manager. What a kind does is in
// the package of its name; what several kinds need is in conditions, kubecache, owned and reconcile.
package controllers
