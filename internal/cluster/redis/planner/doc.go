// Package planner decides how a Redis or Valkey cluster gets from its observed state to what its
// specification asks for. Next is its only entry point; phases.go lists all rules in their order, and
// each says why it stands where it does.
//
// It takes values and returns at most one step. It talks to no server and no API server, and keeps
// nothing between calls.
package planner
