package reconcile

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quorate/quorate/internal/cluster"
)

// act carries out the step of a plan. When it fails and the plan has a fallback, that is carried out
// instead, and the error is part of its message. The reconcile does not fail then: its back-off would
// delay the fallback.
func (l *Loop[O, S]) act(ctx context.Context, o O, p cluster.Plan) (cluster.Plan, error) {
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
	if p.Fallback == nil {
		return p, err
	}
	log.FromContext(ctx).Error(err, "a step that nothing waits for")
	rest, restErr := l.act(ctx, o, *p.Fallback)
	if restErr != nil {
		return rest, errors.Join(restErr, err)
	}
	return withSideError(rest, p.Step.Meta().Reason, err), nil
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
