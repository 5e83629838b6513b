package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
)

func newHibernate(s *session) *cobra.Command {
	return newSleep(s, true, &cobra.Command{
		Use: "hibernate etcdcluster/name", Short: "End all pods of a cluster and keep its data",
		Long: "End all pods of an EtcdCluster and keep everything else: volumes, Secrets, certificates, Services.\n" +
			"It sets spec.hibernated. Where manifests are applied by a tool, set it there: the tool would set it back.",
		Example: "  kubectl quorate hibernate etcdcluster/orders --wait",
	})
}

func newWake(s *session) *cobra.Command {
	return newSleep(s, false, &cobra.Command{
		Use: "wake etcdcluster/name", Short: "Bring a hibernated cluster back, with all its data",
		Long:    "Bring a hibernated EtcdCluster back, with all its data. It takes spec.hibernated back.",
		Example: "  kubectl quorate wake etcdcluster/orders --wait",
	})
}

func newSleep(s *session, asleep bool, cmd *cobra.Command) *cobra.Command {
	var wait bool
	var limit time.Duration
	cmd.Args, cmd.ValidArgsFunction = oneCluster, s.completeCluster
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done")
	cmd.Flags().DurationVar(&limit, "timeout", 10*time.Minute, "how long to wait at most; 0: without end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := limited(cmd.Context(), limit)
		defer cancel()
		return s.sleep(ctx, args[0], asleep, wait)
	}
	return cmd
}

// sleep sets spec.hibernated, and may wait until that is so.
func (s *session) sleep(ctx context.Context, arg string, asleep, wait bool) error {
	c, found, err := s.cluster(ctx, arg)
	if err != nil {
		return err
	}
	o, ok := found.(*v1alpha1.EtcdCluster)
	if !ok {
		return fmt.Errorf("%s cannot hibernate: only an EtcdCluster can. Take a backup (kubectl quorate backup %s) and delete it with "+
			"spec.storage.deletionPolicy Retain: a cluster of the same name finds its volumes again", arg, arg)
	}
	if o.IsHibernated() != asleep {
		before := o.DeepCopy()
		o.Spec.Hibernated = nil
		if asleep {
			o.Spec.Hibernated = &asleep
		}
		if err := c.Patch(ctx, o, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("write spec.hibernated: %w", err)
		}
	}
	if !wait {
		s.say("%s: spec.hibernated is %t; kubectl quorate status %s shows how far it is", arg, asleep, arg)
		return nil
	}
	return s.follow(ctx, c, &v1alpha1.EtcdClusterList{}, client.ObjectKeyFromObject(o), func(seen client.Object) (string, bool, error) {
		c, ok := seen.(*v1alpha1.EtcdCluster)
		if !ok {
			return "", false, nil
		}
		if err := stalled(c, c.Status.Conditions); err != nil {
			return "", false, err
		}
		return c.Status.Activity, slept(c, asleep), nil
	})
}

// slept reports whether a cluster has come to rest in the wanted way.
func slept(c *v1alpha1.EtcdCluster, asleep bool) bool {
	if !asleep {
		return holds(c, c.Status.Conditions, v1alpha1.ConditionReady)
	}
	r := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReconciling)
	return r != nil && r.Reason == v1alpha1.ReasonHibernated && r.ObservedGeneration >= c.Generation
}
