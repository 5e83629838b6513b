// Package facts derives from a View what several rules of the planner ask for: which replica may take
// over, whether a copy of the data exists elsewhere, how much memory a server has left.
//
// Functions here answer questions. They return no step and no plan: that is what rules do, in package
// planner. A fact that one rule asks for stands beside that rule.
package facts
