package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/quorate/quorate/internal/cluster"
)

// Promote names a server the primary, and then makes it one.
type Promote struct {
	Pod    string
	Record AssignRoles
}

// Follow makes servers replicas of the primary.
type Follow struct {
	Pods    []string
	Primary string
	Addr    Address
}

// HandOver makes a living primary hand over to a replica, without losing a write, and then writes that down.
type HandOver struct {
	From, To string
	Addr     Address
	Record   AssignRoles
}

// GuardWrites tells the primary how many replicas have to acknowledge what it writes.
type GuardWrites struct {
	Pod      string
	Replicas int
}

// Unguarded lets the primary take writes that no replica acknowledges, and then takes the last replica away.
type Unguarded struct {
	Record AssignRoles
	Guard  GuardWrites
	Then   cluster.Step
}

// AssignRoles writes down who is the primary, and labels pods. Only Kubernetes hears of it, no server does.
type AssignRoles struct {
	Appointment Appointment
	Pods        []PodRole
	// Ends are the pods of those that hang and were the primary: going on, they would answer what clients have sent them meanwhile before they
	// notice that nobody copies them any more.
	Ends []PodRef
}

// PodRole is a pod and the label that it gets, empty for none.
type PodRole struct {
	Pod  PodRef
	Role string
}

// Reasons of the mode Replicated.
const (
	ReasonPromote     = "PromotingReplica"
	ReasonFollow      = "FollowingPrimary"
	ReasonGuardWrites = "GuardingWrites"
	ReasonAssignRoles = "AssigningRoles"
	ReasonRivals      = "SeveralPrimaries"
	ReasonFence       = "WaitingForFence"
)

func (s Promote) String() string { return "promote " + s.Pod }

func (s Follow) String() string {
	return "make " + list(s.Pods, func(p string) string { return p }) + " copy " + s.Primary
}

func (s HandOver) String() string { return fmt.Sprintf("hand over from %s to %s", s.From, s.To) }

func (s Unguarded) String() string {
	return s.Then.String() + ", after " + s.Guard.Pod + " needs no replica"
}

func (s GuardWrites) String() string {
	return fmt.Sprintf("have %d replicas acknowledge the writes of %s", s.Replicas, s.Pod)
}

func (s AssignRoles) String() string {
	text := fmt.Sprintf("name %s the primary, label %s", s.Appointment.Pod,
		list(s.Pods, func(p PodRole) string { return fmt.Sprintf("%s %q", p.Pod.Name, p.Role) }))
	if len(s.Ends) > 0 {
		text += ", end " + list(s.Ends, func(p PodRef) string { return p.Name })
	}
	return text
}

// Calls sends REPLICAOF NO ONE, after the server may be copied and needs nobody to acknowledge its first writes.
func (s Promote) Calls() []Call {
	return []Call{
		admit(s.Pod, AdmitsForNow),
		GuardWrites{s.Pod, 0}.Calls()[0],
		{s.Pod, func(ctx context.Context, c Client) error { return c.Promote(ctx, s.Record.Appointment.History) }},
	}
}

// Calls sends REPLICAOF.
func (s Follow) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error { return c.ReplicaOf(ctx, s.Addr) }}
	})
}

// Guard has the heir take writes only while a replica acknowledges them, from the first one on: that is the former primary.
func (s HandOver) Guard() GuardWrites { return GuardWrites{s.To, 1} }

// Calls sends FAILOVER and waits until it has happened.
func (s HandOver) Calls() []Call {
	return []Call{{s.From, func(ctx context.Context, c Client) error { return c.FailoverTo(ctx, s.Addr) }}}
}

// Calls sends CONFIG SET.
func (s GuardWrites) Calls() []Call {
	return []Call{{s.Pod, func(ctx context.Context, c Client) error {
		return c.Configure(ctx, map[string]string{writeGuard: strconv.Itoa(s.Replicas)})
	}}}
}
