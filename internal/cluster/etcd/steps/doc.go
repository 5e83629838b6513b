// Package steps lists the changes that the planner of etcd may ask for, one type each, as plain data.
//
// A step names what it changes and with which preconditions. Carrying it out twice has the same effect
// as once. Which step is due is decided in package planner; the controller carries it out.
package steps
