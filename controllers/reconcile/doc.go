// Package reconcile is the loop of every controller: ensure, observe, plan, act one step,
// report. A kind brings the six functions; the loop brings the order, events, the status write
// and the pause before the next reconcile. It knows no kind.
package reconcile
