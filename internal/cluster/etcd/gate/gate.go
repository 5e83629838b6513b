package gate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Disk is what the start gate finds in a member's data directory.
type Disk int

const (
	// DiskEmpty holds nothing of etcd.
	DiskEmpty Disk = iota
	// DiskPartial holds what a first start left that was interrupted before it wrote a log: the member never voted.
	DiskPartial
	// DiskReady holds a log.
	DiskReady
)

// PeerAnswer is what one peer said when asked for its members.
type PeerAnswer struct {
	From      string
	ClusterID uint64
	Members   []PeerMember
}

// counts reports whether the answer is worth anything: a learner may be far behind and has no say, and a member that has not
// joined yet repeats what it was started with, without a word on who has started and who may vote
// (ValidateClusterAndAssignIDs in server/etcdserver/api/membership/cluster.go).
func (a PeerAnswer) counts() bool {
	return slices.ContainsFunc(a.Members, func(m PeerMember) bool {
		return m.Name == a.From && !m.Learner && len(m.ClientURLs) > 0
	})
}

// PeerMember is a member in such an answer. ClientURLs are published by the member itself, once it has joined.
type PeerMember struct {
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
	Learner    bool     `json:"isLearner"`
}

// Input is all that the start gate knows.
type Input struct {
	Self    model.Peer
	Record  model.Record
	Disk    Disk
	Answers []PeerAnswer
	// Epoch is the incident that the volume bears, empty for none.
	Epoch string
	// Aside are the directories on the volume with quarantined data of the member, see
	// model.CopyName.
	Aside []string
	// Log is how far the log on the disk goes, LogError why that cannot be told.
	Log      *model.LogEnd
	LogError error
}

// Recovers reports whether the disk is from before a recovery that has begun.
func (in Input) Recovers() bool {
	epoch := in.Record.Recovery.Epoch()
	return epoch != "" && in.Epoch != epoch
}

// Decision is either to start etcd or to wait.
type Decision struct {
	Start bool
	// State is etcd's initial-cluster-state.
	State string
	// Members replace the initial cluster of the configuration when they are not nil.
	Members []model.Peer
	// Discard says that leftovers of an interrupted first start are in the way.
	Discard bool
	// Alone says that the member is to go on as the only one, with all that its log holds and a copy of its data kept.
	Alone bool
	// Restore says that the disk is to be filled from the backup that the record names.
	Restore bool
	// SetAside says that the data on the disk is to be kept out of the way, before anything else is decided.
	SetAside bool
	// Epoch is what the volume is to bear when the member starts.
	Epoch string
	// Report says why it waits.
	Report model.GateReport
}

// Decide decides whether a member may start. A member with a log knows which cluster it belongs to. One without
// may found a cluster only while that cluster has no identity yet, and join one only when its peers expect it.
//
// What peers do not say is not taken for a no: an unreachable peer is no information.
func Decide(in Input) Decision {
	if in.Recovers() && (in.Disk == DiskReady || in.Record.Recovery.Phase == model.RecoveryHeld) {
		return recoverStart(in)
	}
	d := decideByPeers(in)
	d.Epoch = in.Record.Recovery.Epoch()
	return d
}

// recoverStart decides where the disk is from before a recovery that has begun.
func recoverStart(in Input) Decision {
	r, self := in.Record.Recovery, in.Self.Name
	switch {
	case r.Phase == model.RecoveryHeld && in.Disk != DiskReady:
		return wait(model.GateHeld, "%s has an empty disk and waits for recovery %s", self, r.Incident)
	case r.Phase == model.RecoveryHeld && in.LogError != nil:
		return wait(model.GateHeld, "%s waits for recovery %s, and its log cannot be read: %v", self, r.Incident, in.LogError)
	case r.Phase == model.RecoveryHeld:
		d := wait(model.GateHeld, "%s waits for recovery %s", self, r.Incident)
		d.Report.Log = in.Log
		return d
	case r.Survivor == self:
		return Decision{Start: true, State: "existing", Alone: true, Epoch: r.Incident}
	}
	return Decision{SetAside: true}
}

func decideByPeers(in Input) Decision {
	if in.Disk == DiskReady {
		return Decision{Start: true, State: "existing"}
	}
	if d, foreign := refuseForeign(in); foreign {
		return d
	}
	in.Answers = slices.DeleteFunc(slices.Clone(in.Answers), func(a PeerAnswer) bool { return !a.counts() })
	seen := standings(in)
	switch {
	case slices.Contains(seen, started):
		return wait(model.GateLostDisk, "%s has an empty disk, but its cluster knows it as a started member: the disk was lost. "+
			"It must not start again under its old identity; it has to be replaced", in.Self.Name)
	case slices.Contains(seen, absent):
		return wait(model.GateNotMember, "%s has an empty disk, and its cluster does not list it as a member", in.Self.Name)
	case in.Record.ClusterID == 0 && !in.Record.Restores() && len(in.Aside) > 0 && len(seen) < max(needed(in), 1):
		return wait(model.GateAside, "%s has nothing in its data directory, and what it had is in %s of its volume", in.Self.Name, strings.Join(in.Aside, ", "))
	case in.Record.Bootstrap == model.BootstrapNew && in.Record.ClusterID == 0:
		return Decision{Start: true, State: "new", Discard: in.Disk == DiskPartial, Restore: in.Record.Restores()}
	case len(seen) == 0 || len(seen) < needed(in):
		return wait(model.GateNoPeers, "%s has an empty disk and must not found a new cluster: %s. It waits for enough peers "+
			"that expect it (%d of %d)", in.Self.Name, whyNotNew(in.Record), len(seen), max(needed(in), 1))
	}
	return Decision{
		Start: true, State: "existing", Members: initialMembers(in), Discard: in.Disk == DiskPartial,
	}
}

// needed is the number of voters that must list this member as not started before that can be believed. A single one
// may be behind. That a member has started is committed by a quorum of the voters, of which the member itself may be
// one; so of the others, all but (voters - quorum) know it.
func needed(in Input) int {
	need := 0
	for _, a := range in.Answers {
		voters := 0
		for _, m := range a.Members {
			if !m.Learner {
				voters++
			}
		}
		need = max(need, voters-model.Quorum(voters)+1)
	}
	return need
}

func whyNotNew(r model.Record) string {
	if r.ClusterID != 0 {
		return "cluster " + model.FormatID(r.ClusterID) + " exists"
	}
	return "volumes of an earlier cluster were found"
}

// refuseForeign waits when the peers are not those of this cluster.
func refuseForeign(in Input) (Decision, bool) {
	want := in.Record.ClusterID
	for _, a := range in.Answers {
		if want == 0 {
			want = a.ClusterID
		}
		if a.ClusterID != want {
			return wait(model.GateForeignPeers, "%s has an empty disk, and %s is in cluster %s instead of %s",
				in.Self.Name, a.From, model.FormatID(a.ClusterID), model.FormatID(want)), true
		}
	}
	return Decision{}, false
}

// standing is how a peer lists this member.
type standing int

const (
	absent standing = iota
	expected
	started
)

func standings(in Input) []standing {
	var out []standing
	for _, a := range in.Answers {
		s := absent
		for _, m := range a.Members {
			if !slices.ContainsFunc(m.PeerURLs, func(url string) bool { return model.SameHost(url, in.Self.URL) }) {
				continue
			}
			s = expected
			if len(m.ClientURLs) > 0 {
				s = started
			}
		}
		out = append(out, s)
	}
	return out
}

// initialMembers takes the members from the answer of a peer, because etcd compares its initial cluster with what the
// peers have and starts only when they are the same. A member that has not started has no name yet.
func initialMembers(in Input) []model.Peer {
	names := map[string]string{model.Host(in.Self.URL): in.Self.Name}
	for _, p := range in.Record.Members {
		names[model.Host(p.URL)] = p.Name
	}
	var out []model.Peer
	for _, m := range in.Answers[0].Members {
		for _, url := range m.PeerURLs {
			name := m.Name
			if name == "" {
				name = names[model.Host(url)]
			}
			if name == "" {
				name = url // etcd needs a name that is unique, and nothing more.
			}
			out = append(out, model.Peer{Name: name, URL: url})
		}
	}
	return out
}

func wait(reason, format string, args ...any) Decision {
	return Decision{Report: model.GateReport{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// FinishConfig adds to a member's configuration what only the gate knows: whether it founds the cluster, the members
// that its peers told, and the address family of the pod.
func FinishConfig(text string, d Decision, ipv6 bool) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if ipv6 && strings.HasPrefix(line, "listen-") {
			line = strings.ReplaceAll(line, "//0.0.0.0:", "//[::]:")
		}
		if d.Members != nil && strings.HasPrefix(line, "initial-cluster:") {
			line = "initial-cluster: " + strconv.Quote(model.InitialCluster(d.Members)) + "\n"
		}
		b.WriteString(line)
	}
	return b.String() + "initial-cluster-state: " + d.State + "\n"
}
