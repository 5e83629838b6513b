package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

// follow watches one object until done says so, and says what changes on the way. state returns what to say of it at the moment.
func (s *session) follow(
	ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, state func(client.Object) (said string, done bool, err error),
) error {
	last := ""
	for {
		w, err := c.Watch(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
		if err != nil {
			return fmt.Errorf("watch %s: %w", key.Name, err)
		}
		if err := stillThere(ctx, c, list, key); err != nil {
			w.Stop()
			return err
		}
		done, err := s.followOnce(w, state, &last)
		w.Stop()
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", key.Name, context.Cause(ctx))
		}
	}
}

// stillThere is an error when the object of a watch that has begun is gone: what was deleted before that, the watch tells nothing of.
func stillThere(ctx context.Context, c client.Client, list client.ObjectList, key client.ObjectKey) error {
	gvk, err := c.GroupVersionKindFor(list)
	if err != nil {
		return fmt.Errorf("watch %s: %w", key.Name, err)
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(gvk)
	switch err := c.Get(ctx, key, o); {
	case apierrors.IsNotFound(err):
		return deleted(key.Name)
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%s: %w", key.Name, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("read %s: %w", key.Name, err)
	}
	return nil
}

func deleted(name string) error { return fmt.Errorf("%s was deleted meanwhile", name) }

// followOnce reads one watch to its end.
func (s *session) followOnce(w watch.Interface, state func(client.Object) (string, bool, error), last *string) (bool, error) {
	for event := range w.ResultChan() {
		o, ok := event.Object.(client.Object)
		if !ok {
			return false, nil // The API server says why it ends the watch. The next one begins anew.
		}
		if event.Type == watch.Deleted {
			return false, deleted(o.GetName())
		}
		said, done, err := state(o)
		if said != "" && said != *last {
			s.say("%s  %s", s.now().Format(time.TimeOnly), said)
			*last = said
		}
		if done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// stalled is the error of an object that needs a human, nil for none. What was said of an earlier generation does not count.
func stalled(o client.Object, conditions []metav1.Condition) error {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration < o.GetGeneration() {
		return nil
	}
	return fmt.Errorf("it needs you: %s (%s)", c.Message, c.Reason)
}

// holds reports whether a condition is True of the object as it is.
func holds(o client.Object, conditions []metav1.Condition, kind string) bool {
	c := meta.FindStatusCondition(conditions, kind)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= o.GetGeneration()
}

// limited bounds how long a command waits; 0 is no limit.
func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not done within %s: what was asked for goes on; wait longer with --timeout", limit))
}
