// Package reconcile is the loop of every controller: ensure, observe, plan, act one step,
// report. A kind brings the six functions; the loop brings the order, events, the status write
// and the pause before the next reconcile. It knows no kind.
//
// Read Loop.Reconcile in loop.go first. act.go carries out a step, status.go writes the status,
// eventpolicy.go says which conditions have events, register.go registers the controllers.
package reconcile
