package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// ServerStep is a step that consists of commands to servers.
type ServerStep interface {
	cluster.Step
	// Calls are the commands. Those to different pods may run at the same time.
	Calls() []Call
}

// MoverStep is a step that one server carries out for the user that moves keys.
type MoverStep interface {
	cluster.Step
	// Server is the pod, and the id that its server has to have; empty: any.
	Server() (pod, id string)
	// Run sends the commands.
	Run(ctx context.Context, m Mover) error
}

// SetConfigEpochs gives fresh nodes distinct config epochs before they meet, so that they never have to settle a
// conflict among themselves.
type SetConfigEpochs struct{ Nodes []NodeEpoch }

// NodeEpoch is a node and the epoch it gets.
type NodeEpoch struct {
	Pod   string
	Epoch uint64
}

// Meet introduces nodes to each other. Between nodes that know each other it tells a new address.
type Meet struct{ Pairs []Introduction }

// Introduction is one handshake: Pod calls on the server of the pod Other at Addr, at the port Bus; 0: the usual one.
type Introduction struct {
	Pod, Other string
	Addr       model.Address
	Bus        int
	// ID is the node id of the server that has to answer, see Verify.
	ID string
}

// Introduce returns the handshake of two pods.
func Introduce(p, other *model.Pod) Introduction {
	return Introduction{p.Name, other.Name, other.Addr, other.Node.Self().Bus, other.Node.ID}
}

// Verify returns an error unless the server that answers at an address is the one that is to be
// introduced: one CLUSTER MEET of a server of another cluster makes one cluster of both.
func (i Introduction) Verify(n *model.Node, at model.Address) error {
	announced, _ := n.Announced()
	switch {
	case n.ID != i.ID:
		return fmt.Errorf("pod %s: node %s answers at %s instead of node %s", i.Other, model.ShortID(n.ID), at, model.ShortID(i.ID))
	case at != i.Addr && announced != i.Addr:
		return fmt.Errorf("pod %s: its server moved from %s to %s", i.Other, i.Addr, at)
	}
	return nil
}

// AddSlots gives slots that nobody owns to primaries that own none.
type AddSlots struct{ Owners []Ownership }

// Ownership is a node and the slots it gets.
type Ownership struct {
	Pod   string
	Slots slots.Set
}

// Replicate makes nodes replicas of the primary of their own shard.
type Replicate struct{ Replicas []Following }

// Following is a node and the id of the primary it is to copy.
type Following struct{ Pod, Primary, PrimaryID string }

// AdmitReplicas lets others copy servers that started with nothing to give.
type AdmitReplicas struct {
	Pods []string
	How  model.Admission
}

// Forget removes a node that is gone for good from the tables of all others. All have to hear it within a minute, or
// they tell each other about it again.
type Forget struct {
	ID   string
	Pods []string
}

// Failover hands a shard to a replica that has everything.
type Failover struct {
	Shard    int
	From, To string
}

// Elect makes a replica stand for election in the place of a primary that is dead or lost its data. The majority of the
// primaries has to agree.
type Elect struct {
	Shard     int
	PrimaryID string
	To        string
}

// Restart deletes pods, which their StatefulSets make again from the current template.
type Restart struct {
	Pods []PodRef
	// Cause is the reason shown to users.
	Cause string
}

// PodRef is one very pod, not whichever has its name.
type PodRef struct{ Name, UID string }

// Reasons of the steps.
const (
	ReasonSetConfigEpochs = "SettingConfigEpochs"
	ReasonMeet            = "MeetingNodes"
	ReasonAddSlots        = "AssigningSlots"
	ReasonReplicate       = "AttachingReplicas"
	ReasonAdmitReplicas   = "AdmittingReplicas"
	ReasonForget          = "ForgettingNode"
	ReasonFailover        = "FailingOver"
	ReasonElect           = "ElectingReplica"
	ReasonRestart         = "RestartingPods"
	ReasonReplaceStuck    = "ReplacingStuckPods"
)

func (s SetConfigEpochs) String() string {
	return "set config epochs of " + JoinItems(s.Nodes, func(n NodeEpoch) string { return fmt.Sprintf("%s (%d)", n.Pod, n.Epoch) })
}

func (s Meet) String() string {
	return "introduce " + JoinItems(s.Pairs, func(i Introduction) string { return i.Pod + " to " + i.Other })
}

func (s AddSlots) String() string {
	return "assign slots " + JoinItems(s.Owners, func(o Ownership) string { return fmt.Sprintf("%s to %s", o.Slots, o.Pod) })
}

func (s Replicate) String() string {
	return "make " + JoinItems(s.Replicas, func(f Following) string { return f.Pod + " a replica of " + f.Primary })
}

func (s AdmitReplicas) String() string {
	return "admit replicas to " + JoinItems(s.Pods, func(p string) string { return p }) + map[model.Admission]string{model.AdmitsForGood: " for good"}[s.How]
}

func (s Forget) String() string {
	return fmt.Sprintf("forget node %s on %d nodes", model.ShortID(s.ID), len(s.Pods))
}

func (s Failover) String() string {
	return fmt.Sprintf("hand shard %d from %s to %s", s.Shard, s.From, s.To)
}

func (s Elect) String() string {
	return fmt.Sprintf("elect %s primary of shard %d in the place of node %s", s.To, s.Shard, model.ShortID(s.PrimaryID))
}

func (r Restart) String() string {
	return "restart " + JoinItems(r.Pods, func(p PodRef) string { return p.Name })
}

// Calls sends CLUSTER SET-CONFIG-EPOCH.
func (s SetConfigEpochs) Calls() []Call {
	return calls(s.Nodes, func(n NodeEpoch) Call {
		return Call{n.Pod, func(ctx context.Context, c Client) error { return c.SetConfigEpoch(ctx, n.Epoch) }}
	})
}

// Calls sends CLUSTER MEET.
func (s Meet) Calls() []Call {
	return calls(s.Pairs, func(i Introduction) Call {
		return Call{i.Pod, func(ctx context.Context, c Client) error { return c.Meet(ctx, i.Addr, i.Bus) }}
	})
}

// Calls sends CLUSTER ADDSLOTSRANGE, and then lets the shard's replicas in.
func (s AddSlots) Calls() []Call {
	return slices.Concat(calls(s.Owners, func(o Ownership) Call {
		return Call{o.Pod, func(ctx context.Context, c Client) error { return c.AddSlots(ctx, o.Slots) }}
	}), calls(s.Owners, func(o Ownership) Call { return admit(o.Pod, model.AdmitsForNow) }))
}

// Calls sends CLUSTER REPLICATE, and only then lets others in: a replica refuses to be copied until it has copied its
// own primary (NOMASTERLINK), a primary never does.
func (s Replicate) Calls() []Call {
	return slices.Concat(calls(s.Replicas, func(f Following) Call {
		return Call{f.Pod, func(ctx context.Context, c Client) error { return c.Replicate(ctx, f.PrimaryID) }}
	}), calls(s.Replicas, func(f Following) Call { return admit(f.Pod, model.AdmitsForNow) }))
}

// Calls sends ACL SETUSER, and ACL SAVE for good.
func (s AdmitReplicas) Calls() []Call {
	return calls(s.Pods, func(pod string) Call { return admit(pod, s.How) })
}

func admit(pod string, how model.Admission) Call {
	return Call{pod, func(ctx context.Context, c Client) error { return c.AdmitReplicas(ctx, how) }}
}

// Calls sends CLUSTER FORGET.
func (s Forget) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error { return c.Forget(ctx, s.ID) }}
	})
}

// Calls sends CLUSTER FAILOVER FORCE and waits until it has happened.
func (s Elect) Calls() []Call { return []Call{{s.To, instead(s.PrimaryID, FailoverForce)}} }

func calls[T any](items []T, call func(T) Call) []Call {
	out := make([]Call, len(items))
	for i, item := range items {
		out[i] = call(item)
	}
	return out
}

// JoinItems joins descriptions, and cuts a long list short: events and conditions are read by people.
func JoinItems[T any](items []T, describe func(T) string) string {
	const most = 8
	var parts []string
	for i, item := range items {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(items)-most))
			break
		}
		parts = append(parts, describe(item))
	}
	return strings.Join(parts, ", ")
}

// Candidate returns the pod whose server a step makes stand for election; empty: none.
func Candidate(step cluster.Step) string {
	switch step := step.(type) {
	case Failover:
		return step.To
	case Elect:
		return step.To
	}
	return ""
}
