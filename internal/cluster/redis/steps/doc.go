// Package steps lists the changes that the planner of Redis may ask for, one type each, as plain data,
// with the calls to servers that carry them out (see Client).
//
// Carrying a step out twice has the same effect as once. Which step is due is decided in package
// planner; the controller carries it out.
package steps
