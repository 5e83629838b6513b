package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/metrics"
)

const (
	// afterStep is how soon a resource is reconciled again after a step, unless a watch reports something sooner.
	afterStep = 100 * time.Millisecond
	// afterRefusal is how soon it is after a refusal: its cure may be something that is not watched.
	afterRefusal = 10 * time.Second
	// afterHold is how soon it is after a Hold, whose cause is temporary.
	afterHold = time.Second
	// requeuePending is how soon a resource is reconciled again whose last status write the cache does
	// not show yet: what follows from the stale one would be refused as a conflict.
	requeuePending = 20 * time.Millisecond
	// healthPoll is how often a settled resource is reconciled.
	healthPoll = 15 * time.Second
)

// Kind is what one kind of resource brings to the loop: S is the state that its planner decides on.
type Kind[O owned.Owner, S any] interface {
	// Ensure applies the children that are safe to apply at any time. It is not called while the resource is paused or
	// being deleted.
	Ensure(ctx context.Context, o O) error
	// RenewWhilePaused takes the place of Ensure while the resource is paused: it renews what is there and would expire, and changes
	// nothing else.
	RenewWhilePaused(ctx context.Context, o O) error
	// Observe reads the actual state. It writes nothing.
	Observe(ctx context.Context, o O) (S, error)
	// Next decides what to do. It is pure.
	Next(s S) cluster.Plan
	// Act carries out one step.
	Act(ctx context.Context, o O, step cluster.Step) error
	// Report fills in the status of o. It is pure.
	Report(o O, s S, p cluster.Plan, err error)
}

// renewer is a Kind that owes its servers something also while nothing else may be changed: to be told of what was renewed, or
// their clients back.
type renewer[S any] interface {
	// Renewal is a plan with the step that does so, or with none.
	Renewal(s S) cluster.Plan
}

// repairer is a Kind that takes steps to prepare others.
type repairer[S any] interface {
	// Repairs takes the place of Next while Ensure fails: it prepares no step that is not a repair.
	Repairs(s S) cluster.Plan
}

// measurer is a Kind whose states have figures for metrics and findings for events.
type measurer[S any] interface {
	Figures(s S) cluster.Figures
}

// Loop is the reconciler of every kind: observe, plan, act one step, report.
type Loop[O owned.Owner, S any] struct {
	Kind   Kind[O, S]
	Client client.Client
	// Direct reads past the cache.
	Direct client.Reader
	Events events.EventRecorder
	// Name of the kind, and Metrics that the loop counts in; nil: it counts nothing.
	Name    string
	Metrics *metrics.Metrics

	events       eventDeduper
	expectations owned.Expectations
	Snapshots    owned.Snapshots
}

// outcome is the result of one reconcile.
type outcome[S any] struct {
	state S
	plan  cluster.Plan
	err   error
	// unmade says that the step of the plan was refused or held back, so that nothing was done.
	unmade bool
}

// Reconcile reconciles a resource once. Its status is written on every path, and only when it
// changed. A resource that the cache has from before the last status write is left for a moment.
func (l *Loop[O, S]) Reconcile(ctx context.Context, o O) (ctrl.Result, error) {
	if o.GetDeletionTimestamp() != nil && !controllerutil.ContainsFinalizer(o, v1alpha1.Finalizer) {
		l.expectations.Forget(o)
		return ctrl.Result{}, nil // The children go by owner reference, the claims by the policy of their StatefulSet.
	}
	if l.expectations.Pending(o) {
		return ctrl.Result{RequeueAfter: requeuePending}, nil
	}
	before, ok := o.DeepCopyObject().(O)
	if !ok {
		return ctrl.Result{}, fmt.Errorf("copy of %T has another type", o)
	}
	out := l.reconcile(owned.WithCache(ctx, o), o)
	l.report(before, o, out)
	writeErr := l.writeStatus(ctx, before, o)
	if writeErr != nil && !apierrors.IsConflict(writeErr) {
		return ctrl.Result{}, errors.Join(out.err, writeErr)
	}
	next, err := result(out.plan, out.err, out.unmade)
	if err != nil {
		l.expectations.Forget(o) // To wait for the cache would end the back-off.
		return next, err
	}
	if writeErr != nil {
		log.FromContext(ctx).Info("the resource has changed since it was read: its status is written by the next reconcile", "conflict", writeErr.Error())
		next.RequeueAfter = min(next.RequeueAfter, afterHold)
	}
	return next, nil
}

// reconcile ensures the children, observes, plans, and acts one step.
func (l *Loop[O, S]) reconcile(ctx context.Context, o O) (out outcome[S]) {
	ctx, end := l.Snapshots.Begin(ctx, o)
	defer func() { end(out.err == nil && out.plan.Settled()) }()
	ensureErr := l.ensure(ctx, o)
	if out.state, out.err = l.Kind.Observe(ctx, o); out.err != nil {
		out.err = owned.JoinDistinct(ensureErr, out.err)
		return out
	}
	out.plan = l.plan(o, out.state, ensureErr)
	if out.plan.Step != nil {
		if err := owned.ConfirmCached(ctx); err != nil {
			out.plan, out.err = cluster.Plan{}, owned.JoinDistinct(ensureErr, err)
			return out
		}
	}
	var err error
	out.plan, err = l.act(ctx, o, out.plan)
	out.err, out.unmade = owned.JoinDistinct(ensureErr, err), declined(err)
	return out
}

// ensure applies the children, as far as the resource allows it.
func (l *Loop[O, S]) ensure(ctx context.Context, o O) error {
	switch {
	case o.GetDeletionTimestamp() != nil:
		return nil
	case o.IsPaused():
		return l.Kind.RenewWhilePaused(ctx, o)
	}
	return l.Kind.Ensure(ctx, o)
}

// plan returns what is to be done, as far as a pause and children that could not be ensured allow it.
func (l *Loop[O, S]) plan(o O, s S, ensureErr error) cluster.Plan {
	next := l.Kind.Next
	if k, ok := l.Kind.(repairer[S]); ok && ensureErr != nil {
		next = k.Repairs
	}
	p := next(s)
	if o.IsPaused() {
		p = l.paused(p, s)
	}
	if ensureErr != nil {
		p = repairs(p)
	}
	return p
}

// report fills in the status of o and emits its events and metrics.
func (l *Loop[O, S]) report(before, o O, out outcome[S]) {
	l.Kind.Report(o, out.state, out.plan, out.err)
	conditions.BoundStatus(o)
	l.emit(before, o, out.plan, out.unmade)
	if k, ok := l.Kind.(measurer[S]); ok {
		figures := k.Figures(out.state)
		l.emitAnomalies(o, figures.Anomalies)
		l.Metrics.Pass(l.Name, o.GetUID(), figures, o.GetConditions())
	}
}

// declined reports whether an error is a Refusal or a Hold: nothing was done.
func declined(err error) bool {
	var (
		refusal cluster.Refusal
		hold    cluster.Hold
	)
	return errors.As(err, &refusal) || errors.As(err, &hold)
}

// paused is what is left of a plan while spec.paused is true.
func (l *Loop[O, S]) paused(p cluster.Plan, s S) cluster.Plan {
	if k, ok := l.Kind.(renewer[S]); ok {
		if renewal := k.Renewal(s); renewal.Step != nil {
			renewal.Message += " (spec.paused is true)"
			return renewal
		}
	}
	return cluster.Pause(p)
}

// repairs is what is left of a plan while children cannot be brought into place: any other step may build on them.
func repairs(p cluster.Plan) cluster.Plan {
	for p.Fallback != nil {
		p = *p.Fallback
	}
	if p.Step != nil && !p.Step.Meta().Repair {
		p.Step = nil
	}
	return p
}

// result returns when the resource is reconciled again, or the error by which the queue backs off.
func result(p cluster.Plan, err error, unmade bool) (ctrl.Result, error) {
	var (
		refusal cluster.Refusal
		hold    cluster.Hold
	)
	switch {
	case p.Step != nil && !unmade && declined(err):
		return ctrl.Result{RequeueAfter: max(p.After, afterHold)}, nil // A repair was made, and there may be more to do.
	case errors.As(err, &refusal), err == nil && p.Stalled:
		return ctrl.Result{RequeueAfter: max(p.After, afterRefusal)}, nil
	case errors.As(err, &hold):
		return ctrl.Result{RequeueAfter: max(hold.After, afterHold)}, nil
	case err != nil:
		return ctrl.Result{}, err
	case p.After > 0:
		return ctrl.Result{RequeueAfter: p.After}, nil
	case p.Step != nil:
		return ctrl.Result{RequeueAfter: afterStep}, nil
	}
	return ctrl.Result{RequeueAfter: healthPoll}, nil
}
