package steps

import (
	"context"
	"fmt"
	"strconv"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Appoint writes into the Service of the primary which pod that is, and which one is about to take over. No server hears of it.
type Appoint struct {
	Appointment model.Appointment
	Candidate   model.FailoverCandidate
}

// Promote makes a server the primary that was named the failover candidate with this history.
type Promote struct{ Pod, History string }

// Follow makes servers replicas of the primary.
type Follow struct {
	Pods    []string
	Primary string
	Addr    model.Address
}

// HandOver makes a living primary hand over to a replica, without losing a write.
type HandOver struct {
	From, To string
	Addr     model.Address
}

// GuardWrites tells the primary how many replicas have to acknowledge what it writes.
type GuardWrites struct {
	Pod      string
	Replicas int
}

// AssignRoles labels pods with their roles. No server hears of it.
type AssignRoles struct{ Pods []PodRole }

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
	return "make " + JoinItems(s.Pods, func(p string) string { return p }) + " copy " + s.Primary
}

func (s HandOver) String() string { return fmt.Sprintf("hand over from %s to %s", s.From, s.To) }

func (s Appoint) String() string {
	switch c := s.Candidate; {
	case s.beginsHandOver():
		return fmt.Sprintf("send clients to %s, which %s is to hand over to", c.Pod, s.Appointment.Pod)
	case c.Pod != "" && !c.Planned():
		return fmt.Sprintf("name %s the next primary", c.Pod)
	}
	return fmt.Sprintf("name %s the primary", s.Appointment.Pod)
}

// beginsHandOver reports whether the step leads the Service of the primary to a replica that the
// primary is to hand over to.
func (s Appoint) beginsHandOver() bool {
	return s.Candidate.Planned() && s.Candidate.Pod != s.Appointment.Pod
}

func (s GuardWrites) String() string {
	return fmt.Sprintf("have %d replicas acknowledge the writes of %s", s.Replicas, s.Pod)
}

func (s AssignRoles) String() string {
	return "label " + JoinItems(s.Pods, func(p PodRole) string { return fmt.Sprintf("%s %q", p.Pod.Name, p.Role) })
}

// Calls sends REPLICAOF NO ONE, after the server may be copied and needs nobody to acknowledge its first writes.
func (s Promote) Calls() []Call {
	return []Call{
		admit(s.Pod, model.AdmitsForNow),
		GuardWrites{s.Pod, 0}.Calls()[0],
		{s.Pod, func(ctx context.Context, c Client) error { return c.Promote(ctx, s.History) }},
	}
}

// Calls sends REPLICAOF.
func (s Follow) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error { return c.ReplicaOf(ctx, s.Addr) }}
	})
}

// Calls sends FAILOVER and waits until it has happened.
func (s HandOver) Calls() []Call {
	return []Call{{s.From, func(ctx context.Context, c Client) error { return c.FailoverTo(ctx, s.Addr) }}}
}

// Calls sends CONFIG SET.
func (s GuardWrites) Calls() []Call {
	return []Call{{s.Pod, func(ctx context.Context, c Client) error {
		return c.Configure(ctx, map[string]string{model.WriteGuard: strconv.Itoa(s.Replicas)})
	}}}
}
