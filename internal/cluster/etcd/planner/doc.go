// Package planner decides what happens next to an etcd cluster. Next is its only entry point;
// phases.go lists all rules in their order, and each says why it stands where it does.
//
// It takes values and returns at most one step. It talks to no etcd and no API server, and keeps
// nothing between calls.
//
// A cluster comes to life in this order, each arrow being one step that can be repeated after a crash:
//
//	record written -> StatefulSet -> members form a quorum -> cluster id recorded -> authentication on -> clients let in
//
// The record (a ConfigMap) is there before the first pod, and says whether an empty disk may form a
// cluster. Only the operator can write to the cluster before its id is recorded, so nothing
// acknowledged can be lost before the start gate knows which cluster a member belongs to.
package planner
