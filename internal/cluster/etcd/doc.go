// Package etcd decides what has to happen to an etcd cluster, and builds the Kubernetes objects and the configuration
// it runs with. It takes values and returns values: reading the world and changing it is left to package controllers
// and to the adapter in etcdclient.
//
// A cluster comes to life in this order, each arrow being one step that can be repeated after a crash:
//
//	record written -> StatefulSet -> members form a quorum -> cluster id recorded -> authentication on -> clients let in
//
// The record (a ConfigMap) is there before the first pod, and says whether an empty disk may form a cluster. Nobody
// but the operator can write to the cluster before its id is recorded, so nothing acknowledged can be lost before the
// start gate knows which cluster a member belongs to.
package etcd
