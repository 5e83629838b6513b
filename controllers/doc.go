// Package controllers registers the controllers of all kinds with a manager. A kind of cluster has
// the package of its name, users are in dbuser, schedules in backup; what several kinds need is in
// conditions, kubecache, owned and reconcile. It must not read or write a resource itself.
package controllers
