package model

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
)

// Bootstrap says how the members of a cluster may start with an empty disk.
type Bootstrap string

const (
	// BootstrapNew lets members with an empty disk form the cluster: no claim existed when it was created.
	BootstrapNew Bootstrap = "new"
	// BootstrapRetained lets only members with data start: claims of an earlier life of the cluster were found.
	BootstrapRetained Bootstrap = "retained"
	// BootstrapRecovered is like retained, for a record that was lost while the cluster lived: even if every disk
	// turns out to be empty, there was data, and nobody founds a cluster in its place.
	BootstrapRecovered Bootstrap = "recovered"
)

// Keys of the ConfigMap that holds the record, beside one "<member>.yaml" per member.
const (
	KeyBootstrap = "bootstrap"
	KeyClusterID = "cluster-id"
	KeyMembers   = "members"
	KeyRecovery  = "recovery"
	// KeyRestore says what members begin with that found the cluster.
	KeyRestore    = "restore"
	keyVersion    = "version"
	keyProven     = "proven"
	keyRejected   = "rejected"
	keyVerdict    = "verdict"
	keyFlushed    = "flushed"
	keySnapshot   = "snapshot"
	keyBudget     = "min-available"
	keyHibernated = "hibernated"
	keyTransport  = "transport"
)

// Peer is a member as the specification names it: its pod and its peer URL.
type Peer struct{ Name, URL string }

// Record is what the ConfigMap of a cluster says about its identity. It is written before the first pod exists and
// holds what cannot be read back from anywhere else at the time the start gate needs it.
type Record struct {
	// UID of the ConfigMap, which is not part of its data; empty before there is one. A recreated
	// record has another one.
	UID       string
	Bootstrap Bootstrap
	// ClusterID of etcd, 0 until it is known for good.
	ClusterID uint64
	// Members that the pods stand for, by ordinal.
	Members []Peer
	// Recovery of a quorum that was lost for good.
	Recovery Recovery
	// Restore is the backup that the cluster begins with, nil: it begins empty.
	Restore *Restore
	// Version that pods are made with.
	Version Version
	// Proven are the encoded settings with which all members were well last, empty before.
	Proven string
	// Rejected tells the settings apart that were set back, and Verdict says why; empty when none were.
	Rejected, Verdict string
	// Flushed says that no member has entries of 3.5 in its log.
	Flushed bool
	// Snapshot that was taken last before an upgrade, zero before the first.
	Snapshot Snapshot
	// MinAvailable is how many pods the disruption budget keeps.
	MinAvailable int
	// Hibernated says that there are to be no pods.
	Hibernated bool
	TLSSwitch  TLSSwitch
}

// Replicas is the number of pods that there are to be.
func (r Record) Replicas() int {
	if r.Hibernated {
		return 0
	}
	return len(r.Members)
}

// With returns the record for pods of another version.
func (r Record) With(v Version) Record {
	r.Version, r.Flushed, r.Snapshot = v, r.Flushed && !CapabilitiesOf(v).WritesLegacyLog, r.Snapshot.arrived(v)
	return r
}

// Timeline names the history of a cluster: its revisions are of no other one. The ID of etcd alone does not: a recovery, and whatever
// happens to volumes while there is no record of them, may go back to an earlier revision under the same ID. A timeline that comes to
// an end never comes back, and costs a full backup where changes are recorded.
func (r Record) Timeline() string {
	life, _, _ := strings.Cut(r.UID, "-") // The first 32 bits of an UUID.
	parts := []string{FormatID(r.ClusterID), life, r.Recovery.Epoch()}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-")
}

// Data returns the record as ConfigMap data.
func (r Record) Data() map[string]string {
	id := ""
	if r.ClusterID != 0 {
		id = FormatID(r.ClusterID)
	}
	var members strings.Builder
	for _, p := range r.Members {
		fmt.Fprintf(&members, "%s=%s\n", p.Name, p.URL)
	}
	return map[string]string{
		KeyBootstrap: string(r.Bootstrap), KeyClusterID: id, KeyMembers: members.String(), keyVersion: r.Version.String(),
		keyProven: r.Proven, keyRejected: r.Rejected, keyVerdict: r.Verdict,
		keyFlushed: strconv.FormatBool(r.Flushed), keySnapshot: r.Snapshot.encode(), KeyRecovery: r.Recovery.encode(), KeyRestore: r.Restore.encode(),
		keyBudget: strconv.Itoa(r.MinAvailable), keyHibernated: strconv.FormatBool(r.Hibernated), keyTransport: r.TLSSwitch.encode(),
	}
}

// ParseRecord reads a record out of ConfigMap data.
func ParseRecord(data map[string]string) (Record, error) {
	r, err := ParseIdentity(data)
	if err != nil {
		return r, err
	}
	if r.Version, err = ParseVersion(data[keyVersion]); err != nil {
		return r, fmt.Errorf("key %s: %w", keyVersion, err)
	}
	r.Proven, r.Rejected, r.Verdict, r.Flushed = data[keyProven], data[keyRejected], data[keyVerdict], data[keyFlushed] == "true"
	if r.Snapshot, err = decodeSnapshot(data[keySnapshot]); err != nil {
		return r, fmt.Errorf("key %s: %w", keySnapshot, err)
	}
	r.Hibernated = data[keyHibernated] == "true"
	if r.MinAvailable, err = strconv.Atoi(data[keyBudget]); err != nil {
		r.MinAvailable = Quorum(len(r.Members)) // As it begins.
	}
	r.TLSSwitch, err = ParseTLSSwitch(data[keyTransport])
	return r, err
}

// ParseIdentity reads what the start gate needs of a record: bootstrap, cluster id, members and recovery.
func ParseIdentity(data map[string]string) (Record, error) {
	r := Record{Bootstrap: Bootstrap(data[KeyBootstrap])}
	switch r.Bootstrap {
	case BootstrapNew, BootstrapRetained, BootstrapRecovered:
	default:
		return r, fmt.Errorf("key %s is %q, none of %s, %s and %s",
			KeyBootstrap, r.Bootstrap, BootstrapNew, BootstrapRetained, BootstrapRecovered)
	}
	if id := data[KeyClusterID]; id != "" {
		var err error
		if r.ClusterID, err = strconv.ParseUint(id, 16, 64); err != nil {
			return r, fmt.Errorf("key %s: %w", KeyClusterID, err)
		}
	}
	for line := range strings.Lines(data[KeyMembers]) {
		name, peer, _ := strings.Cut(strings.TrimSpace(line), "=")
		if u, err := url.Parse(peer); err != nil || u.Host == "" {
			return r, fmt.Errorf("key %s: line %q is not name=url", KeyMembers, line)
		}
		r.Members = append(r.Members, Peer{Name: name, URL: peer})
	}
	if len(r.Members) == 0 {
		return r, fmt.Errorf("key %s is empty", KeyMembers)
	}
	var err error
	if r.Restore, err = parseRestore(data[KeyRestore]); err != nil {
		return r, err
	}
	r.Recovery, err = parseRecovery(data[KeyRecovery])
	return r, err
}

// Peers are the members that a cluster of the given size has.
func Peers(name, namespace, domain string, size int, tls bool) []Peer {
	scheme, port := "http", PlainPeerPort
	if tls {
		scheme, port = "https", PeerPort
	}
	peers := make([]Peer, size)
	for i := range peers {
		pod := cluster.Pod(name, i)
		host := cluster.PodHost(pod, name, namespace, domain)
		peers[i] = Peer{Name: pod, URL: fmt.Sprintf("%s://%s:%d", scheme, host, port)}
	}
	return peers
}

// Domain returns the DNS domain that the members of a record were named in, empty when there are none or they were named
// otherwise. It stays theirs whatever the operator takes for the domain later: the members know each other by it.
func (r Record) Domain(name, namespace string) string {
	if len(r.Members) == 0 {
		return ""
	}
	u, err := url.Parse(r.Members[0].URL)
	if err != nil {
		return ""
	}
	domain, ok := strings.CutPrefix(u.Hostname(), cluster.PodHost(r.Members[0].Name, name, namespace, ""))
	if !ok {
		return ""
	}
	return domain
}

// FormatID writes a cluster or member id the way etcd's tools do.
func FormatID(id uint64) string { return strconv.FormatUint(id, 16) }
