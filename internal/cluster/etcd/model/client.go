package model

import (
	"context"
	"errors"
)

// ErrNotInSync is what a promotion ends with while the learner is behind: etcd demands nine tenths of the leader's log
// (readyPercentThreshold in server/etcdserver/server.go).
var ErrNotInSync = errors.New("the learner has not caught up with the leader")

// ErrNotNow is what a change of the membership ends with that etcd considers too dangerous at the moment: a member was not
// connected throughout the last five seconds, or there is a learner already (strict-reconfig-check).
var ErrNotNow = errors.New("etcd does not allow a change of its members at the moment")

// ErrPassword is what a member answers to a client whose password is not that of root.
var ErrPassword = errors.New("etcd does not accept the password of root")

// Status is what one member says about itself.
type Status struct {
	MemberID, ClusterID uint64
	// Leader is the id of the member that it takes for the leader, 0 for none.
	Leader  uint64
	Learner bool
	Version string
	// Storage is the version of the format that it writes its data in, zero before 3.6.
	Storage Version
	// Downgrade is the version that the members prepare to go back to, empty when they do not.
	Downgrade string
	// DBSize of its database file in bytes, and how much of it is in use: the rest is freed by a defragmentation.
	DBSize, DBInUse int64
	// Revision of its data.
	Revision int64
	// Applied is the index of the last raft entry that it applied.
	Applied uint64
	// Alarms of all members, as far as it knows.
	Alarms []Alarm
}

// AlarmNoSpace is raised when the database has reached its quota.
const AlarmNoSpace = "NOSPACE"

// Alarm is an etcd alarm, which stays until it is disarmed.
type Alarm struct {
	MemberID uint64
	// Type is AlarmNoSpace or CORRUPT.
	Type string
}

// Member of the cluster as its members agree on it. Name is empty until it has started for the first time.
type Member struct {
	ID      uint64
	Name    string
	PeerURL string
	Learner bool
	// Published says that it has announced where clients reach it, which it does once it has joined.
	Published bool
}

// Auth is what is known about authentication.
type Auth struct {
	Enabled bool
	// PasswordWorks says that root authenticates with the wanted password. It is only meaningful when Enabled.
	PasswordWorks bool
	// Root says that the password does not work, but that the client is root all the same: by its certificate, or by the
	// password from before.
	Root bool
}

// Client talks to one member of a cluster. Every call is bound by the time limit of its context.
type Client interface {
	// Status of this member. It needs no quorum.
	Status(ctx context.Context) (Status, error)
	// Members reads the member list through the quorum.
	Members(ctx context.Context) ([]Member, error)
	// Auth tells whether authentication is on and the password is right.
	Auth(ctx context.Context, password string) (Auth, error)
	// EnableAuth creates the root user with the password and the root role where they are missing, and switches
	// authentication on.
	EnableAuth(ctx context.Context, password string) error
	// SetRootPassword changes the password of root. It works only where the client's certificate or the password from before
	// proves it to be root.
	SetRootPassword(ctx context.Context, password string) error
	// MoveLeader makes another voter the leader. The client must be that of the leader.
	MoveLeader(ctx context.Context, to uint64) error
	// AddLearner adds a member that gets the log but has no vote. One that is listed with this peer URL is no error. Like the
	// two that follow, it may end with ErrNotNow.
	AddLearner(ctx context.Context, peerURL string) error
	// Promote gives a learner its vote. One that has it is no error; ErrNotInSync says that it is too early.
	Promote(ctx context.Context, id uint64) error
	// RemoveMember takes a member out of the cluster, for good. One that is not listed is no error.
	RemoveMember(ctx context.Context, id uint64) error
	// UpdatePeer changes the peer URL of a member that has a vote: etcd would give a learner one (etcd issue 21694).
	UpdatePeer(ctx context.Context, id uint64, peerURL string) error
	// ClusterVersion is the version that the members have agreed on, 3.6.0 for example. It needs no quorum. It stays behind
	// until the last member has been upgraded, and follows a few seconds later.
	ClusterVersion(ctx context.Context) (Version, error)
	// Downgrade tells the members to go back to an earlier minor version, after etcd has checked that it can be done. One that
	// is under way is no error.
	Downgrade(ctx context.Context, to Version) error
	// CancelDowngrade ends that. It is no error when there is none.
	CancelDowngrade(ctx context.Context) error
	// Vitals returns a few metrics of this member, and the time of its clock.
	Vitals(ctx context.Context) (MemberMetrics, error)
	Maintainer
	// Close releases the connection.
	Close() error
}
