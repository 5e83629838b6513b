package etcd

import "fmt"

// WriteBootstrap writes the record of a cluster before its first pod, or after it got lost. It never overwrites a
// cluster id.
type WriteBootstrap struct{ Bootstrap Bootstrap }

// RecordClusterID writes down which cluster this is, which forbids founding it again.
type RecordClusterID struct{ ClusterID uint64 }

// EnableAuth switches authentication on, through the given pod.
type EnableAuth struct{ Pod string }

// SetRootPassword gives root the password of the Secret, through the given pod.
type SetRootPassword struct{ Pod string }

// RecordPassword writes down that root has the password that was set, so that clients get it as well.
type RecordPassword struct{}

// LetClientsIn makes the client Service, and with it the connection Secret.
type LetClientsIn struct{}

// MoveLeader hands leadership from the member in one pod to another member.
type MoveLeader struct {
	From string
	To   uint64
	Pod  string
}

// DeletePod deletes a pod so that the StatefulSet makes it anew from its current template, if it still is what the
// decision was made on: another pod of the name, or one that has got well meanwhile, is left alone.
type DeletePod struct{ Name, UID, ResourceVersion string }

func (s WriteBootstrap) String() string {
	return "write bootstrap record (" + string(s.Bootstrap) + ")"
}
func (s RecordClusterID) String() string { return "record cluster id " + FormatID(s.ClusterID) }
func (s EnableAuth) String() string      { return "enable authentication through " + s.Pod }
func (s SetRootPassword) String() string { return "set the root password through " + s.Pod }
func (RecordPassword) String() string    { return "record the new password of root" }
func (LetClientsIn) String() string      { return "let clients in" }
func (s MoveLeader) String() string {
	return fmt.Sprintf("move leadership from %s to %s", s.From, s.Pod)
}
func (s DeletePod) String() string { return "delete pod " + s.Name }

// Reason names the step in events and conditions.
func (WriteBootstrap) Reason() string { return "Bootstrapping" }

// Reason names the step in events and conditions.
func (RecordClusterID) Reason() string { return "RecordingClusterID" }

// Reason names the step in events and conditions.
func (EnableAuth) Reason() string { return "EnablingAuth" }

// Reason names the step in events and conditions.
func (SetRootPassword) Reason() string { return "SettingRootPassword" }

// Reason names the step in events and conditions.
func (RecordPassword) Reason() string { return "RecordingRootPassword" }

// Reason names the step in events and conditions.
func (LetClientsIn) Reason() string { return "LettingClientsIn" }

// Reason names the step in events and conditions.
func (MoveLeader) Reason() string { return "MovingLeader" }

// Reason names the step in events and conditions.
func (DeletePod) Reason() string { return "RestartingMember" }
