package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
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
	// afterStep is how soon the world is looked at again after a step, unless a watch reports something sooner.
	afterStep = 100 * time.Millisecond
	// afterRefusal is how soon a refusal is examined again: its cure may be something that is not watched.
	afterRefusal = 10 * time.Second
	// afterHold is how soon something is looked at again that passes by itself.
	afterHold = time.Second
	// statusTries is how often a status is written while somebody else writes to the metadata of its resource.
	statusTries = 3
	// requeuePending is how soon a resource is reconciled again whose last status write the cache does
	// not show yet: what follows from the stale one would be refused as a conflict.
	requeuePending = 20 * time.Millisecond
	// healthPoll is how often a settled cluster is looked at.
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
	// Observe reads the state of the world. It writes nothing.
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

// outcome is what one pass over a resource came to.
type outcome[S any] struct {
	state S
	plan  cluster.Plan
	err   error
	// unmade says that the step of the plan was refused or held back, so that nothing was done.
	unmade bool
}

// Reconcile makes one pass over a resource. Its status is written on every path, and only when it changed. No pass is made over what the
// cache has from before the last one.
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
	out := l.pass(owned.WithCache(ctx, o), o)
	l.Kind.Report(o, out.state, out.plan, out.err)
	conditions.BoundStatus(o)
	l.emit(before, o, out.plan, out.unmade)
	if k, ok := l.Kind.(measurer[S]); ok {
		figures := k.Figures(out.state)
		l.emitAnomalies(o, figures.Anomalies)
		l.Metrics.Pass(l.Name, o.GetUID(), figures, o.GetConditions())
	}
	err := l.writeStatus(ctx, before, o)
	if err != nil && !apierrors.IsConflict(err) {
		return ctrl.Result{}, errors.Join(out.err, err)
	}
	next, failed := result(out.plan, out.err, out.unmade)
	if failed != nil {
		l.expectations.Forget(o) // To wait for the cache would end the back-off.
	}
	if err != nil && failed == nil {
		log.FromContext(ctx).Info("the resource has changed since it was read: its status is written at the next look", "conflict", err.Error())
		next.RequeueAfter = min(next.RequeueAfter, afterHold)
	}
	return next, failed
}

func (l *Loop[O, S]) pass(ctx context.Context, o O) (out outcome[S]) {
	ctx, end := l.Snapshots.Begin(ctx, o)
	defer func() { end(out.err == nil && out.plan.Settled()) }()
	var ensureErr error
	switch {
	case o.GetDeletionTimestamp() != nil:
	case o.IsPaused():
		ensureErr = l.Kind.RenewWhilePaused(ctx, o)
	default:
		ensureErr = l.Kind.Ensure(ctx, o)
	}
	out.state, out.err = l.Kind.Observe(ctx, o)
	if out.err != nil {
		out.err = owned.JoinDistinct(ensureErr, out.err)
		return out
	}
	out.err = ensureErr
	out.plan = l.Kind.Next(out.state)
	if o.IsPaused() {
		out.plan = l.paused(out.plan, out.state)
	}
	if ensureErr != nil {
		out.plan = repairs(out.plan)
	}
	if out.plan.Step != nil {
		if err := owned.ConfirmCached(ctx); err != nil {
			out.plan, out.err = cluster.Plan{}, owned.JoinDistinct(ensureErr, err)
			return out
		}
	}
	var err error
	if out.plan, err = l.carryOut(ctx, o, out.plan); err != nil {
		out.err, out.unmade = owned.JoinDistinct(ensureErr, err), declined(err)
	}
	return out
}

// declined reports whether an error says that nothing was done, and not that it is not known.
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
	for p.Otherwise != nil {
		p = *p.Otherwise
	}
	if _, repair := p.Step.(cluster.Repair); !repair {
		p.Step = nil
	}
	return p
}

// carryOut takes the step of a plan. When one fails that stands aside, what is planned otherwise is carried out, and told along with
// what is wrong. It is no error of the pass then: what waits for nothing shall not wait for the next attempt either.
func (l *Loop[O, S]) carryOut(ctx context.Context, o O, p cluster.Plan) (cluster.Plan, error) {
	if p.Step == nil {
		return p, nil
	}
	log.FromContext(ctx).Info("step", "step", p.Step.String(), "reason", p.Reason, "why", p.Message)
	done := l.Metrics.Begin(l.Name, o.GetUID(), p.Step)
	err := l.Kind.Act(ctx, o, p.Step)
	done(err)
	if err == nil {
		return p, nil
	}
	err = fmt.Errorf("%s: %w", p.Step, err)
	if p.Otherwise == nil {
		return p, err
	}
	log.FromContext(ctx).Error(err, "a step that nothing waits for")
	rest, restErr := l.carryOut(ctx, o, *p.Otherwise)
	if restErr != nil {
		return rest, errors.Join(restErr, err)
	}
	return withSideError(rest, p.Step.Reason(), err), nil
}

// withSideError is a plan, and what went wrong on the side and is tried again.
func withSideError(p cluster.Plan, reason string, err error) cluster.Plan {
	if p.Settled() {
		p.Reason, p.Message = reason, err.Error()
	} else {
		p.Message += "; besides, " + err.Error()
	}
	p.After = max(p.After, afterHold)
	return p
}

// Where a status was refused, it is looked at why.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdclusters;redisclusters;etcdusers;redisusers;autoscalers;backups;backupschedules;restores,verbs=get

// writeStatus writes what has changed in a status. It is refused as a conflict where it was made from a resource whose specification or status is
// not the newest one: parts of two of them would make a status that nobody has seen, and that the API server may not even take.
func (l *Loop[O, S]) writeStatus(ctx context.Context, before, o O) error {
	if equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	for try := 1; ; try++ {
		err := l.Client.Status().Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err == nil && o.GetResourceVersion() != before.GetResourceVersion() {
			l.expectations.Wrote(o)
		}
		if !apierrors.IsConflict(err) || try == statusTries {
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("write status: %w", err)
			}
			return nil
		}
		newest := reflect.New(reflect.TypeOf(before).Elem()).Interface().(O) //nolint:forcetypeassert // Its type is O.
		if l.Direct.Get(ctx, client.ObjectKeyFromObject(before), newest) != nil || !differInMetadataAlone(before, newest) {
			return fmt.Errorf("write status: %w", err)
		}
		before.SetResourceVersion(newest.GetResourceVersion())
	}
}

// differInMetadataAlone reports whether nothing but what others write to the metadata tells two versions of a resource apart.
func differInMetadataAlone[O owned.Owner](a, b O) bool {
	same := b.DeepCopyObject().(O)                                                 //nolint:forcetypeassert // It is a copy.
	same.GetObjectKind().SetGroupVersionKind(a.GetObjectKind().GroupVersionKind()) // Objects have it that come from the cache.
	same.SetResourceVersion(a.GetResourceVersion())
	same.SetManagedFields(a.GetManagedFields())
	same.SetAnnotations(a.GetAnnotations())
	same.SetLabels(a.GetLabels())
	return equality.Semantic.DeepEqual(same, a)
}

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
