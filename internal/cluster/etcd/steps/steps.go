package steps

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// SetBudget makes the disruption budget keep so many pods.
type SetBudget struct{ MinAvailable int }

func (s SetBudget) String() string {
	return fmt.Sprintf("keep %d pods through disruptions", s.MinAvailable)
}

// ReasonHibernating says that the pods end because spec.hibernated is true.
const ReasonHibernating = "Hibernating"

// Hibernate ends all pods.
type Hibernate struct{}

// Wake makes the pods again.
type Wake struct{}

func (Hibernate) String() string { return "end all pods" }

func (Wake) String() string { return "make the pods again" }

// Edit is a step that changes the record and nothing else, if the record still is the one that was decided on.
type Edit interface {
	cluster.Step
	// Edit changes the record.
	Edit(r *model.Record)
}

// Edit notes which settings were rejected, and why.
func (s Reject) Edit(r *model.Record) { r.Rejected, r.Verdict = s.Asked, s.Verdict }

// Edit notes the proven settings.
func (s Prove) Edit(r *model.Record) {
	if r.Proven = s.Settings; s.Forget {
		r.Rejected, r.Verdict = "", ""
	}
}

// Edit remembers that logs are free of 3.5.
func (NoteFlushed) Edit(r *model.Record) { r.Flushed = true }

// Edit writes down how far a recovery has got.
func (s SetRecovery) Edit(r *model.Record) { r.Recovery = s.To }

// Edit changes how many pods the disruption budget keeps.
func (s SetBudget) Edit(r *model.Record) { r.MinAvailable = s.MinAvailable }

// Edit ends all pods.
func (Hibernate) Edit(r *model.Record) { r.Hibernated = true }

// Edit makes the pods again.
func (Wake) Edit(r *model.Record) { r.Hibernated = false }

// Edit remembers what snapshot there is.
func (s RecordSnapshot) Edit(r *model.Record) { r.Snapshot = s.Snapshot }

// WriteBootstrap writes the record of a cluster of so many members before its first pod, or after it got lost. It never
// overwrites a cluster id.
type WriteBootstrap struct {
	Bootstrap model.Bootstrap
	Size      int
	Version   model.Version
	// Restore is the backup that they begin with, nil for none.
	Restore *model.Restore
}

// Resize makes the pods of so many ordinals, instead of those that the decision was made on. It changes the record; the
// StatefulSet follows.
type Resize struct{ From, To int }

// SetVersion makes pods with another version from now on, if they still are made with the one that was decided on.
type SetVersion struct{ From, To model.Version }

// Reject sets the settings back to those that are proven, for as long as the specification asks for the rejected ones.
type Reject struct{ Asked, Verdict string }

// Prove remembers settings with which all members are well, and forgets others that were rejected.
type Prove struct {
	Settings string
	Forget   bool
}

// NoteFlushed remembers that no member has entries of 3.5 in its log any more.
type NoteFlushed struct{}

// Downgrade tells the members to go back to an earlier minor version, through the given pod.
type Downgrade struct {
	To  model.Version
	Via string
}

// CancelDowngrade ends that.
type CancelDowngrade struct{ Via string }

// SetTransport makes members listen for plain text and TLS or only for what they are told to use, which is TLS or plain text from
// now on. Told is when they and the clients were told, zero when that does not change.
type SetTransport struct {
	Secure, Both bool
	Told         time.Time
}

// UpdatePeer tells the quorum another URL of the member in a pod, through another pod.
type UpdatePeer struct {
	ID             uint64
	Name, URL, Via string
}

// AddLearner adds the member of a pod without a vote, through another pod.
type AddLearner struct{ Name, URL, Via string }

// Promote gives the learner in a pod its vote.
type Promote struct {
	ID        uint64
	Name, Via string
}

// RemoveMember takes the member of a pod out of the cluster, through another pod, if the pod and its claim still are those that were decided on.
type RemoveMember struct {
	ID        uint64
	Name, Via string
	// Pod and Claim are UIDs; empty: there was none.
	Pod, Claim string
}

// DeleteClaim deletes a claim whose data no member needs any more, if it still is the one that was decided on.
type DeleteClaim struct{ Name, UID, ResourceVersion string }

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

// DeletePod deletes a pod so that the StatefulSet recreates it from its current template, if the
// pod still is the one that the decision was made on: neither another pod of that name nor one that
// is healthy again is deleted.
//
// Gone says that the node is proven to be gone: nothing is left there to confirm that the pod has
// ended.
type DeletePod struct {
	Name, UID, ResourceVersion string
	Gone                       bool
}

func (s WriteBootstrap) String() string {
	return fmt.Sprintf("write bootstrap record (%s, %d members)", s.Bootstrap, s.Size)
}

func (s SetVersion) String() string {
	return fmt.Sprintf("make pods with %s instead of %s", s.To, s.From)
}

func (s SetTransport) String() string {
	if s.Both {
		return "listen for plain text and TLS, use " + WordFor(s.Secure)
	}
	return "listen for " + WordFor(s.Secure) + " alone"
}

func (s UpdatePeer) String() string { return "tell the peers of " + s.Name + " to use " + s.URL }

func (s Reject) String() string { return "set settings " + s.Asked + " back" }

func (s Prove) String() string { return "remember settings " + model.Sum(s.Settings) }

func (NoteFlushed) String() string { return "note that all members have written a snapshot" }

func (s Downgrade) String() string { return "prepare to go back to " + s.To.String() }

func (s CancelDowngrade) String() string { return "stop preparing to go back" }

func (s Resize) String() string { return fmt.Sprintf("make %d pods instead of %d", s.To, s.From) }

func (s AddLearner) String() string { return "add " + s.Name + " as learner through " + s.Via }

func (s Promote) String() string { return "promote " + s.Name }

func (s RemoveMember) String() string { return "remove member " + s.Name + " through " + s.Via }

func (s DeleteClaim) String() string { return "delete claim " + s.Name }

func (s RecordClusterID) String() string { return "record cluster id " + model.FormatID(s.ClusterID) }

func (s EnableAuth) String() string { return "enable authentication through " + s.Pod }

func (s SetRootPassword) String() string { return "set the root password through " + s.Pod }

func (RecordPassword) String() string { return "record the new password of root" }

func (LetClientsIn) String() string { return "let clients in" }

func (s MoveLeader) String() string {
	return fmt.Sprintf("move leadership from %s to %s", s.From, s.Pod)
}

func (s DeletePod) String() string { return "delete pod " + s.Name }

// reason tells scaling out from scaling in.
func (s Resize) reason() string {
	if s.To > s.From {
		return "ScalingOut"
	}
	return "ScalingIn"
}

// reason tells an upgrade from a return to an older version.
func (s SetVersion) reason() string {
	if s.To.Less(s.From) {
		return "SettingVersionBack"
	}
	return "Upgrading"
}
