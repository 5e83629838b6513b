package model

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// State is what was observed of a cluster. Where something could not be read, it says so; it never leaves a gap that
// could be taken for "there is none".
type State struct {
	Want Want
	// Record is nil until it has been written.
	Record *Record
	// Set is nil while there is no StatefulSet.
	Set    *Set
	Claims []Claim
	Pods   []Pod
	// Members as the quorum has them; nil: unknown, because no member answered.
	Members []Member
	// ClusterVersion is what the members have agreed on, zero when unknown. It is asked for while the version changes only.
	ClusterVersion Version
	// Auth is nil when unknown; AuthError says why.
	Auth      *Auth
	AuthError error
	// Open says that clients are let in: the client Service exists.
	Open        bool
	Maintenance Maintenance
	// Backups are those that were made before upgrades of this cluster, the newest first, and BackupNames the names of all that there
	// are in the namespace. They are looked for while the version changes only.
	Backups     []Backup
	BackupNames []string
	// BackupHealth is what the schedules of the cluster say of its backups, for the status; nil: there are none.
	BackupHealth *metav1.Condition
	// Monitoring says, for the status, how far what spec.monitoring asks for is in place; nil: nothing is asked for.
	Monitoring *metav1.Condition
	// Anomalies are what is unusual about the members, for the status; nil: none could be asked.
	Anomalies *anomaly.Report
	// Certificates in use, for the status.
	Certificates clustertls.Report
	Now          time.Time
}

// Want is what the specification asks for.
type Want struct {
	Name, Namespace string
	// Size is the number of members.
	Size int
	// Peers are the members of all ordinals that there can be, whatever the size, with the URLs that the record tells.
	Peers []Peer
	// TLS says that connections are to be encrypted.
	TLS bool
	// Hold is how long clients may take to follow their Secret.
	Hold         time.Duration
	TemplateHash string
	// Version of etcd that is to be reached.
	Version Version
	// Settings are the encoded settings that pods are made with now, Asked tells those apart that the specification asks for.
	Settings, Asked string
	// Snapshot says that an upgrade needs a snapshot, SnapshotPlace that there is somewhere to keep one.
	Snapshot, SnapshotPlace bool
	// ImageOverridden says that the image does not follow the version.
	ImageOverridden bool
	// Auth says that clients must authenticate, with the password in PasswordSecret.
	Auth           bool
	PasswordSecret string
	// NewPassword says that the wanted password is to replace another one, which root may still have.
	NewPassword bool
	// CertificateIsRoot says that the operator's certificate makes it root without a password.
	CertificateIsRoot bool
	// Persistent says that the members' disks outlive their pods.
	Persistent bool
	// StorageChanged says that spec.storage was added or removed.
	StorageChanged bool
	// Approved is the incident that a human wants the quorum to be recovered from, RecoverAfter when it is without one; zero: never.
	Approved     string
	RecoverAfter time.Duration
	// Storage that spec.storage asks for. NoClass says that its StorageClass does not exist, StorageQuota is what it leaves to
	// the database.
	Storage      Storage
	NoClass      bool
	StorageQuota int64
	// Hibernated says that no member is to run.
	Hibernated  bool
	Maintenance Policy
	// Restore is the backup that the cluster is to begin with, nil when it is to begin empty, or was founded before.
	Restore *RestoreWish
	// RestoreInPlace is the backup that replaces the data of the existing cluster, nil for none.
	RestoreInPlace *InPlaceRestore
}

// Set is the StatefulSet.
type Set struct {
	UID string
	// Age is how long ago it was made.
	Age time.Duration
	// Overdue says that Kubernetes should have made all of its pods by now.
	Overdue bool
	// Storage that it makes claims with.
	Storage Storage
	// KeepsClaims says that it has no claim deleted when it is.
	KeepsClaims bool
	// Replicas is the number of pods that it makes.
	Replicas int
	// Version that it makes them with, zero when it does not say.
	Version Version
}

// MadeWith is the version of the pods, as far as the set says.
func (s Set) MadeWith(otherwise Version) Version {
	if s.Version == (Version{}) {
		return otherwise
	}
	return s.Version
}

// Claim is the volume claim of an ordinal.
type Claim struct {
	Name, UID, ResourceVersion string
	Ordinal                    int
	// Owned says that it goes with the StatefulSet.
	Owned bool
	// Pending says that it has no volume yet.
	Pending bool
	// Request is the size in bytes that it asks for, Capacity that of its volume, 0 while it has none.
	Request, Capacity int64
	// Class is its StorageClass.
	Class string
	// Resizing says in words what Kubernetes tells of its expansion, empty when it tells nothing.
	Resizing string
	// Rigid says that its StorageClass does not allow to expand it, Refused why the API server does not let it be expanded
	// otherwise, empty when it does. They are asked for only when it is to grow.
	Rigid   bool
	Refused string
	// Age is how long ago it was made.
	Age time.Duration
	// Lost says in words why its volume cannot come back, empty while it can.
	Lost string
	// Stranded says in words why its pod cannot be scheduled where its volume is, empty while it can.
	Stranded string
	// Unlabelled says that it lacks labels of this cluster: another tool made the claim, or removed them.
	Unlabelled bool
	// Leaving says that it is being deleted, or will be, together with an earlier cluster of the same name.
	Leaving bool
}

// Pod is the pod of a member.
type Pod struct {
	Name, UID, ResourceVersion string
	Ordinal                    int
	// Version that it was made with.
	Version Version
	// Ready as the kubelet sees it.
	Ready        bool
	Terminating  bool
	TemplateHash string
	// OldRevision says that the StatefulSet has another template by now. Unlike the hash, which leaves the operator's own
	// image out, it tells a gate that runs from an outdated image.
	OldRevision bool
	// Plain and TLS say what it was made to listen for.
	Plain, TLS bool
	// EverRan says that etcd has run in this pod, so that its disk may hold data.
	EverRan bool
	// Age is how long ago it was made.
	Age time.Duration
	// Started is when etcd was last started in this pod, zero when it does not run.
	Started time.Time
	// Stuck says that the pod does not run and will not by itself.
	Stuck bool
	// Fatal says in words why etcd will never start from the data in this pod, empty while it may.
	Fatal string
	// Full says that etcd ends again and again because the disk of the pod has no room left.
	Full bool
	// Agreed is the minor version that the members had agreed on by the data on its disk, before etcd was started in it; 0: unknown.
	Agreed int
	// Gone says that its node is proven to be gone, so that nothing of the pod runs any more.
	Gone bool
	// Cordoned says in words why its node is being emptied, empty when it is not, or nobody can tell.
	Cordoned string
	// Problem says in words what keeps the pod from running, empty when nothing does.
	Problem string
	// Gate is why the start gate holds the pod back, nil when it does not or has not said so.
	Gate *GateReport
	// Status is what the member reports, nil when it does not answer: it is unknown then, not dead.
	Status *Status
	// Took is how long it took to say so, or not to; zero: unknown.
	Took time.Duration
	// Metrics are a few of the member's metrics, nil when they were not read or could not be read.
	// Clock is how far its clock is ahead, and is read with them.
	Metrics *MemberMetrics
	Clock   anomaly.Clock
	// Unreachable is why the member does not answer.
	Unreachable error
	// Drained says that the client Service leaves the pod out.
	Drained bool
	// Defragmentation is the last one that this operator began, nil when it remembers none.
	Defragmentation *Defragmentation
	// Hash of its data, nil when unknown: it is asked for only while there is an alarm. Corrupt says that it differs from
	// that of the majority.
	Hash    *Hash
	Corrupt bool
}

// Members are the peers of the first n ordinals.
func (w Want) Members(n int) []Peer { return w.Peers[:min(n, len(w.Peers))] }

// Ordinal of a member, -1 for one that is not ours. A member and a pod are the same thing when the host in their peer URL is.
func (s State) Ordinal(m Member) int {
	return slices.IndexFunc(s.Want.Peers, func(p Peer) bool { return SameHost(p.URL, m.PeerURL) })
}

// Pod returns the pod that stands for a member.
func (s State) Pod(m Member) *Pod {
	if i := s.Ordinal(m); i >= 0 {
		return s.PodNamed(s.Want.Peers[i].Name)
	}
	return nil
}

// Member returns the member that a peer URL leads to, nil when the quorum lists none.
func (s State) Member(url string) *Member {
	for i := range s.Members {
		if SameHost(s.Members[i].PeerURL, url) {
			return &s.Members[i]
		}
	}
	return nil
}

// Claim returns the claim of an ordinal.
func (s State) Claim(ordinal int) *Claim {
	for i := range s.Claims {
		if s.Claims[i].Ordinal == ordinal {
			return &s.Claims[i]
		}
	}
	return nil
}

// PodNamed returns the pod with the name, nil for none.
func (s State) PodNamed(name string) *Pod {
	for i := range s.Pods {
		if s.Pods[i].Name == name {
			return &s.Pods[i]
		}
	}
	return nil
}

// Healthy reports whether a member answers, follows a leader and is the member that its pod should be.
func (s State) Healthy(m Member) bool {
	p := s.Pod(m)
	return p != nil && !p.Terminating && p.Status != nil && p.Status.MemberID == m.ID && p.Status.Leader != 0
}

// Voters counts the voting members, and those of them that are healthy.
func (s State) Voters() (all, healthy int) {
	for _, m := range s.Members {
		if m.Learner {
			continue
		}
		all++
		if s.Healthy(m) {
			healthy++
		}
	}
	return all, healthy
}

// Leader returns the member that a quorum of the voters follows, nil when there is none.
func (s State) Leader() *Member {
	votes := map[uint64]int{}
	all := 0
	for _, m := range s.Members {
		if m.Learner {
			continue
		}
		all++
		if s.Healthy(m) {
			votes[s.Pod(m).Status.Leader]++
		}
	}
	for i, m := range s.Members {
		if votes[m.ID] >= Quorum(all) {
			return &s.Members[i]
		}
	}
	return nil
}

// Speaker is a pod whose member follows the leader: the leader's own, or another's while that has no pod. There is one
// whenever there is a leader.
func (s State) Speaker(leader *Member) *Pod {
	if p := s.Pod(*leader); p != nil {
		return p
	}
	for _, m := range s.Members {
		if !m.Learner && s.Healthy(m) {
			return s.Pod(m)
		}
	}
	return nil
}

// Outdated reports whether the pod runs with other settings than the wanted ones.
func (s State) Outdated(p Pod) bool { return p.TemplateHash != s.Want.TemplateHash }

// ClusterID returns the id that the answering members agree on. agree is false when they do not.
func (s State) ClusterID() (id uint64, agree bool) {
	for _, p := range s.Pods {
		if p.Status == nil {
			continue
		}
		if id != 0 && p.Status.ClusterID != id {
			return 0, false
		}
		id = p.Status.ClusterID
	}
	return id, true
}

// Alarms returns the alarms that any member knows of, each once.
func (s State) Alarms() []Alarm {
	var out []Alarm
	seen := map[Alarm]bool{}
	for _, p := range s.Pods {
		if p.Status == nil {
			continue
		}
		for _, a := range p.Status.Alarms {
			if !seen[a] {
				seen[a] = true
				out = append(out, a)
			}
		}
	}
	return out
}

// Name of a member for people: its pod.
func (s State) Name(id uint64) string {
	for _, m := range s.Members {
		if m.ID == id {
			if p := s.Pod(m); p != nil {
				return p.Name
			}
			return m.Name
		}
	}
	return "member " + FormatID(id)
}

// Known reports whether the identity of the cluster is recorded.
func (s State) Known() bool { return s.Record != nil && s.Record.ClusterID != 0 }
