package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

// pollEvery is how often a condition is looked at that cannot be watched.
const pollEvery = 250 * time.Millisecond

// Eventually asks again until check says yes. It fails at the deadline with what and the last answer; an error of check
// counts as no.
func Eventually(ctx context.Context, what string, timeout time.Duration, check func(context.Context) (bool, string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, state, err := check(ctx)
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("%s: not within %s: %s: %w", what, timeout, state, err)
			}
			return fmt.Errorf("%s: not within %s: %s", what, timeout, state)
		case <-tick.C:
		}
	}
}

// Throughout asks again and again for the whole window and fails as soon as check reports an error.
func Throughout(ctx context.Context, window time.Duration, check func(context.Context) error) error {
	over := time.NewTimer(window)
	defer over.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := check(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over.C:
			return nil
		case <-tick.C:
		}
	}
}

// Deadline says what a test waits for, and for how long.
type Deadline struct {
	What   string
	Within time.Duration
}

// Until watches one object until ok says yes, and leaves its last state in o. An object that does not exist is waited for.
func Until[O client.Object](ctx context.Context, c *Cluster, o O, d Deadline, ok func(O) (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, d.Within)
	defer cancel()
	state := "it does not exist"
	for {
		done, err := watchOnce(ctx, c, o, func(seen O) bool {
			var yes bool
			yes, state = ok(seen)
			return yes
		})
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: not within %s: %s", d.What, d.Within, state)
		case err != nil:
			return fmt.Errorf("%s: %w", d.What, err)
		}
	}
}

// watchOnce opens one watch, which begins with the object as it is, and reads it to its end or until stop says so.
func watchOnce[O client.Object](ctx context.Context, c *Cluster, o O, stop func(O) bool) (bool, error) {
	list, err := listFor(c, o)
	if err != nil {
		return false, err
	}
	w, err := c.Watch(ctx, list, client.InNamespace(o.GetNamespace()), client.MatchingFields{"metadata.name": o.GetName()})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type != watch.Added && event.Type != watch.Modified {
			continue
		}
		seen, ok := event.Object.(O)
		if !ok {
			return false, fmt.Errorf("watch of %T returned %T", o, event.Object)
		}
		if stop(seen) {
			return true, copyInto(seen, o)
		}
	}
	return false, nil
}

// listFor makes an empty list of the object's kind.
func listFor(c *Cluster, o client.Object) (client.ObjectList, error) {
	gvk, err := c.GroupVersionKindFor(o)
	if err != nil {
		return nil, err
	}
	gvk.Kind += "List"
	list, err := c.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	typed, ok := list.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%s is no list", gvk)
	}
	return typed, nil
}

// copyInto makes to what from is.
func copyInto[O client.Object](from, to O) error {
	type intoer interface{ DeepCopyInto(to O) }
	if f, ok := any(from).(intoer); ok {
		f.DeepCopyInto(to)
		return nil
	}
	return errors.New("the object cannot be copied")
}

// Conditioned is a cluster resource.
type Conditioned interface {
	client.Object
	GetConditions() []metav1.Condition
}

// WaitReady waits until the condition Ready is True for the current generation.
func WaitReady[O Conditioned](ctx context.Context, c *Cluster, o O, timeout time.Duration) error {
	return WaitCondition(ctx, c, o, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}, timeout)
}

// WaitCondition waits until the condition of a type has a status for the current generation. It takes
// the type and the status out of want.
func WaitCondition[O Conditioned](ctx context.Context, c *Cluster, o O, want metav1.Condition, timeout time.Duration) error {
	what := fmt.Sprintf("%s %s/%s: condition %s to become %s", kindOf(c, o), o.GetNamespace(), o.GetName(), want.Type, want.Status)
	return Until(ctx, c, o, Deadline{What: what, Within: timeout}, func(seen O) (bool, string) {
		found := meta.FindStatusCondition(seen.GetConditions(), want.Type)
		if found == nil {
			return false, "it has no such condition"
		}
		yes := found.Status == want.Status && found.ObservedGeneration == seen.GetGeneration()
		return yes, fmt.Sprintf("%s, %s: %s", found.Status, found.Reason, found.Message)
	})
}

func kindOf(c *Cluster, o client.Object) string {
	gvk, err := c.GroupVersionKindFor(o)
	if err != nil {
		return fmt.Sprintf("%T", o)
	}
	return gvk.Kind
}
