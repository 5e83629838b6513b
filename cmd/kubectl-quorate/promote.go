package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	etcdsteps "github.com/quorate/quorate/internal/cluster/etcd/steps"
	redismodel "github.com/quorate/quorate/internal/cluster/redis/model"
	redisplanner "github.com/quorate/quorate/internal/cluster/redis/planner"
	redissteps "github.com/quorate/quorate/internal/cluster/redis/steps"
)

const promoteHelp = `Make another member the leader of etcd, or a replica the primary of its shard, without losing a write.

It is the step that the operator takes itself before it restarts a leader or a primary, taken once, through a forwarded port:
etcd moves leadership, and a primary of Redis lets the replica catch up before it steps down (CLUSTER FAILOVER). It is refused
while the operator has something to do about the cluster.

A cluster of spec.mode Replicated has its primary appointed by the operator: to have it moved, delete the pod of the primary.
It hands over before it ends.`

const promoteExamples = `  kubectl quorate promote etcdcluster/orders orders-2
  kubectl quorate promote rediscluster/carts carts-0-1`

func newPromote(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "promote kind/name pod", Short: "Make another member the leader, or a replica the primary of its shard", Long: promoteHelp, Example: promoteExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%d arguments: %s, and then the pod that is to lead", len(args), badName)
			}
			return oneCluster(cmd, args[:1])
		},
		ValidArgsFunction: s.completePromote,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.promote(cmd.Context(), args[0], args[1]) },
	}
}

// completePromote offers clusters first, and then the pods that do not lead.
func (s *session) completePromote(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return s.completeCluster(cmd, args, word)
	}
	c, ns, err := s.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	found, err := wanted(cmd.Context(), c, ns, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, shard := range viewOf(found[0], nil).Shards {
		for _, server := range shard.Servers {
			if server.Role == string(v1alpha1.EtcdFollower) || server.Role == string(v1alpha1.RedisReplica) {
				out = append(out, server.Name)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (s *session) promote(ctx context.Context, arg, pod string) error {
	c, o, err := s.cluster(ctx, arg)
	if err != nil {
		return err
	}
	if r, ok := o.(*v1alpha1.RedisCluster); ok && r.Spec.IsReplicated() {
		return fmt.Errorf("%s is of spec.mode Replicated, where the operator appoints the primary: delete the pod of the primary instead, it hands over before it ends", arg)
	}
	seen, err := s.observe(ctx, c, o, true)
	if err != nil {
		return err
	}
	steps, err := promotion(seen, pod)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		s.say("%s leads already", pod)
		return nil
	}
	for _, step := range steps {
		if err := seen.act(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		if _, err := fmt.Fprintf(s.out, "done: %s\n", step); err != nil {
			return err
		}
	}
	return nil
}

// promotion returns the steps that make a pod lead, none when it does.
func promotion(seen *outlook, pod string) ([]cluster.Step, error) {
	switch {
	case seen.err != nil:
		return nil, seen.err
	case !seen.plan.Settled() && seen.plan.Reason != cluster.ReasonPaused:
		return nil, fmt.Errorf("the operator has something to do first: %s. Wait until the cluster is Ready, and try again", seen.plan.Message)
	case seen.etcd != nil:
		return promoteMember(seen.etcd, pod)
	}
	steps, err := promoteReplica(seen.redis, pod)
	if len(steps) > 1 && seen.paused {
		return nil, fmt.Errorf("for a hand-over primaries have to take writes that fewer than spec.config.minReplicasToWrite replicas acknowledge, and the operator would not hold them to it again while the cluster is paused: set spec.paused to false, and try again")
	}
	return steps, err
}

// promoteMember moves leadership to a voter that answers.
func promoteMember(s *etcdmodel.State, pod string) ([]cluster.Step, error) {
	at := func(name string) *etcdmodel.Pod {
		if i := slices.IndexFunc(s.Pods, func(p etcdmodel.Pod) bool { return p.Name == name && p.Status != nil }); i >= 0 {
			return &s.Pods[i]
		}
		return nil
	}
	to := at(pod)
	switch {
	case to == nil:
		return nil, fmt.Errorf("%s is no member that answers: kubectl quorate status shows those that do", pod)
	case to.Status.Learner:
		return nil, fmt.Errorf("%s is a learner, which has no vote: wait until the operator has promoted it", pod)
	case to.Status.Leader == to.Status.MemberID:
		return nil, nil
	}
	for _, p := range s.Pods {
		if p.Status != nil && p.Status.MemberID == to.Status.Leader {
			return []cluster.Step{etcdsteps.MoveLeader{From: p.Name, To: to.Status.MemberID, Pod: pod}}, nil
		}
	}
	return nil, fmt.Errorf("the leader does not answer: wait until there is one (kubectl quorate status --watch)")
}

// promoteReplica hands a shard to a replica that has everything.
func promoteReplica(s *redismodel.State, pod string) ([]cluster.Step, error) {
	i := slices.IndexFunc(s.Pods, func(p redismodel.Pod) bool { return p.Name == pod && p.Node != nil })
	if i < 0 {
		return nil, fmt.Errorf("%s is no server that answers: kubectl quorate status shows those that do", pod)
	}
	to := s.Pods[i]
	if !to.Node.Self().Replica {
		return nil, nil
	}
	from := primaryOf(s.Pods, to)
	switch {
	case from == nil:
		return nil, fmt.Errorf("the primary of %s does not answer: there is nobody who could hand over. Servers elect another one by themselves", pod)
	case from.Shard != to.Shard:
		return nil, fmt.Errorf("%s copies %s of another shard: wait until the operator has set that right", pod, from.Name)
	}
	if err := redisplanner.MayTakeOver(*s, from.Name, pod); err != nil {
		return nil, fmt.Errorf("%w. Wait a moment, and try again", err)
	}
	return redisplanner.Lift(*s, redissteps.Failover{Shard: to.Shard, From: from.Name, To: to.Name}), nil
}
