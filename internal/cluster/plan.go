// Package cluster holds what the planners of all data stores share: the shape of a decision and the names of what a
// cluster is made of. It does no I/O and knows nothing of any one data store.
package cluster

import (
	"fmt"
	"strings"
	"time"
)

// Step is one change to the world, as plain data. Carrying a step out twice has the same effect as once.
type Step interface {
	fmt.Stringer
	// Meta describes the step to the code that takes and reports it.
	Meta() Meta
}

// Meta describes a step to the reconcile loop, events and metrics. The file step_meta.go of each
// planner lists that of all its steps.
type Meta struct {
	// Reason is the CamelCase word that names the step in events, conditions and metrics.
	Reason string
	// Repair marks a step that restores running servers and depends on none of the objects that the
	// specification asks for: the reconcile loop takes it even if it could not apply those.
	Repair bool
	// Incremental marks a step that does one part of an operation and is followed by more of its
	// type: until the resource is Ready, only the first with its Reason emits an event.
	Incremental bool
	// NonBlocking marks a step whose failure does not block the rules after it: Plan.Fallback holds
	// what they decide.
	NonBlocking bool
	// HandsOver marks a step that moves leadership (etcd) or the role of a primary (Redis, Valkey)
	// and returns when that has moved: metrics record how long it takes, which clients may notice.
	HandsOver bool
}

// Plan is the decision of a planner: at most one step, and why.
type Plan struct {
	// Step to take now; nil: nothing is to be done, or something has to be waited for.
	Step Step
	// Reason is the CamelCase word for conditions and events, empty when nothing is left to do; Message says the same
	// in one sentence.
	Reason, Message string
	// After says how long to wait before the world is looked at again when no watch reports a change. Zero with a
	// step: at once. Zero without a step: the slow health poll.
	After time.Duration
	// Stalled says that only a human can change the outcome.
	Stalled bool
	// Fallback is the decision of the rules after that of Step, for when Step fails; nil unless Step
	// is NonBlocking.
	Fallback *Plan
}

// ToAnnotate is the command by which somebody allows what is waited for. It names the group of the kind, because other operators have kinds of that
// name as well, and the namespace, unless that is not known.
func ToAnnotate(kind, namespace, name, annotation, value string) string {
	if namespace != "" {
		name += " -n " + namespace
	}
	return fmt.Sprintf("kubectl annotate %s.quorate.dev %s %s=%s --overwrite", kind, name, annotation, value)
}

// MadeWithin is how soon Kubernetes makes the pods of a StatefulSet or a Job, if nothing keeps it from that.
const MadeWithin = time.Minute

// Unmade says who knows why Kubernetes has not made a pod: the events of what it belongs to, which the operator has no right to read. It makes one
// that was deleted within a moment, so that only what lasts needs a look.
func Unmade(kind, namespace, name string) string {
	return fmt.Sprintf("Kubernetes has not made it: if that lasts, `kubectl -n %s describe %s %s` says why (a quota, a limit range, an admission policy)", namespace, kind, name)
}

// Refined returns the plan with a function applied to it and to its fallback.
func (p Plan) Refined(refine func(Plan) Plan) Plan {
	if p.Fallback != nil {
		fallback := p.Fallback.Refined(refine)
		p.Fallback = &fallback
	}
	return refine(p)
}

// WithTerminating returns the plan with the claims that are being deleted under running pods in its
// message, if it waits for something else: a user who removes that cause could end a pod, and its
// volume would go with it.
func (p Plan) WithTerminating(claims []string) Plan {
	if len(claims) == 0 || p.Step != nil || p.Settled() || strings.Contains(p.Message, claims[0]) {
		return p
	}
	p.Message += fmt.Sprintf(". Claims %s are being deleted, and their volumes go when their pods end: delete no pod before they are replaced", strings.Join(claims, ", "))
	return p
}

// Settled reports whether nothing is left to do.
func (p Plan) Settled() bool { return p.Step == nil && p.Reason == "" }

// Rule looks at a state and either decides (true) or leaves the decision to the rules after it
// (false).
type Rule[S any] struct {
	// Name is that of the function.
	Name string
	// Why says in a sentence why the rule stands where it does.
	Why    string
	Decide func(S) (Plan, bool)
}

// Phase is a part of the order in which rules are asked.
type Phase[S any] struct {
	// Name is one or two words; Why says why the phase stands where it does.
	Name, Why string
	Rules     []Rule[S]
}

// NewRule returns a rule with the name of its function, and why it stands where it does.
func NewRule[S any](name, why string, decide func(S) (Plan, bool)) Rule[S] {
	return Rule[S]{Name: name, Why: why, Decide: decide}
}

// NewPhase returns a phase with its name, and why it stands where it does.
func NewPhase[S any](name, why string, rules ...Rule[S]) Phase[S] {
	return Phase[S]{Name: name, Why: why, Rules: rules}
}

// Check looks at what a rule has decided before it counts: it may replace the plan, or leave the
// decision to the rules after it (false).
type Check[S any] func(S, Plan) (Plan, bool)

// Decide returns the plan of the first rule that decides, and a settled plan if none does. The list
// is the whole order. check may be nil.
func Decide[S any](s S, phases []Phase[S], check Check[S]) Plan {
	p, _ := decideAfter(s, phases, check, 0)
	return p
}

// Explanation names the rule that made a plan: all are empty if no rule decides.
type Explanation struct{ Phase, Rule, Why string }

// Explain names the rule that decides.
func Explain[S any](s S, phases []Phase[S], check Check[S]) Explanation {
	_, n := decideAfter(s, phases, check, 0)
	for _, phase := range phases {
		if n > 0 && n <= len(phase.Rules) {
			rule := phase.Rules[n-1]
			return Explanation{phase.Name, rule.Name, rule.Why}
		}
		n -= len(phase.Rules)
	}
	return Explanation{}
}

// Outline lists the rules of phases in their order.
func Outline[S any](phases []Phase[S]) []Section {
	var out []Section
	for _, phase := range phases {
		section := Section{Name: phase.Name, Why: phase.Why}
		for _, rule := range phase.Rules {
			section.Rules = append(section.Rules, Explanation{phase.Name, rule.Name, rule.Why})
		}
		out = append(out, section)
	}
	return out
}

// Section is a phase without its functions.
type Section struct {
	Name, Why string
	Rules     []Explanation
}

// decideAfter asks the rules after the first n, and returns the number of the one that decides; 0 for
// none.
func decideAfter[S any](s S, phases []Phase[S], check Check[S], n int) (Plan, int) {
	number := 0
	for _, phase := range phases {
		for _, rule := range phase.Rules {
			if number++; number <= n {
				continue
			}
			p, ok := rule.Decide(s)
			if ok && check != nil {
				p, ok = check(s, p)
			}
			if !ok {
				continue
			}
			if p.Step != nil && p.Step.Meta().NonBlocking {
				fallback, _ := decideAfter(s, phases, check, number)
				p.Fallback = &fallback
			}
			return p, number
		}
	}
	return Plan{Message: "the cluster is as specified"}, 0
}

// Do decides on a step; format and args say why in one sentence.
func Do(step Step, format string, args ...any) (Plan, bool) {
	return Plan{Step: step, Reason: step.Meta().Reason, Message: fmt.Sprintf(format, args...)}, true
}

// Wait decides to wait and to look again after the given time.
func Wait(reason string, after time.Duration, format string, args ...any) (Plan, bool) {
	return Plan{Reason: reason, Message: fmt.Sprintf(format, args...), After: after}, true
}

// Refuse decides that a human has to act; the message names the cause and the cure.
func Refuse(reason, format string, args ...any) (Plan, bool) {
	return Plan{Reason: reason, Message: fmt.Sprintf(format, args...), Stalled: true}, true
}

// Pass leaves the decision to the next rule.
func Pass() (Plan, bool) { return Plan{}, false }

// Hold is an error that passes by itself: it becomes a wait instead of a failure.
type Hold struct {
	Reason, Message string
	// After says how long to wait before it is looked at again, zero: a second.
	After time.Duration
}

// Error returns the message, which names what is waited for.
func (h Hold) Error() string { return h.Message }

// Refusal is an error that only a human can resolve: it becomes a Stalled condition instead of a retry storm.
type Refusal struct{ Reason, Message string }

// Error returns the message, which names the cause and the cure.
func (r Refusal) Error() string { return r.Message }
