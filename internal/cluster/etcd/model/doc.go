// Package model holds what is known about an etcd cluster: the observed State, the Record that the
// cluster's ConfigMap keeps, versions and what each version can do, and the facts that follow from
// them (which member a pod stands for, who leads, who is healthy).
//
// It does no I/O and decides nothing: what to do about a fact is the planner's business.
package model
