package gate

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// Disk is what the start gate finds in the data directory.
type Disk struct {
	// Nodes is the content of nodes.conf, empty when there is none.
	Nodes string
	// Data says that there are append-only files.
	Data bool
	// Writer is the server that wrote them, zero when it is not known. Server is the one to be started.
	Writer, Server software.Release
	// Foreign says that Writer is of another engine, in a format that Server does not read.
	Foreign bool
}

// HeldBack begins the message of a gate that does not let the server start.
const HeldBack = "the server is held back: "

// tooNew reports whether a later version of the same engine wrote the data. Versions of two engines do not compare.
func (d Disk) tooNew() bool {
	return d.Data && d.Server.Engine == d.Writer.Engine && software.Older(d.Server.Version, d.Writer.Version)
}

// foreign decides about data of another engine. It is kept whatever the server is in its shard: no server of this
// cluster can have it.
func (d Disk) foreign() Decision {
	return Decision{Message: fmt.Sprintf("its data was written by %s, which %s cannot read: create the cluster with spec.engine %s and spec.version %s or later, "+
		"or empty the volume", d.Writer, d.Server, d.Writer.Engine, d.Writer.Version)}
}

// Decision is what the start gate does about a pod.
type Decision struct {
	// Start the server.
	Start bool
	// Retire sets nodes.conf aside first, so that the server starts as a new, empty node.
	Retire bool
	// SetAside moves the append-only files out of the way first, because the server cannot read them.
	SetAside bool
	// Admit lets other servers copy this one from the start. One that has nothing to give must wait until the operator
	// has decided what it is: at the address of a dead primary, the replicas of that one would copy its emptiness.
	Admit bool
	// Message says why, when it is not the ordinary start.
	Message string
}

// Decide decides whether and as whom a server may start. Data and identity (nodes.conf) belong together: the server makes
// both at its first start and neither ever goes away alone unless the volume was damaged or tampered with.
//
// A primary that lost its data must not come back under its old id: its replicas would copy the emptiness. Without the
// identity nobody takes the empty server for the old one: a replica is elected, and the newcomer becomes its replica.
func Decide(d Disk) Decision {
	if d.Nodes == "" {
		if d.Data {
			return Decision{Message: model.NoIdentity + ", and a server without it would claim slots that may belong to others: " +
				"restore the file, or empty the volume to have the data copied from the shard's other servers"}
		}
		return Decision{Start: true}
	}
	self, err := ownLine(d.Nodes)
	switch {
	case d.Data && d.Foreign:
		return d.foreign()
	case err != nil:
		return Decision{Message: fmt.Sprintf("%s (%v): restore the file, or empty the volume to have the data copied from the shard's other servers", model.BadIdentity, err)}
	case d.tooNew():
		return tooNew(d, self)
	case d.Data || self.Replica || len(self.Slots) == 0:
		return Decision{Start: true, Admit: d.Data && (self.Replica || len(self.Slots) > 0)}
	}
	return Decision{Start: true, Retire: true, Message: fmt.Sprintf(
		"node %s owned slots %s but its data is gone: it starts as a new empty node, so that its replicas keep their copies", model.ShortID(self.ID), self.Slots)}
}

// DecideReplicated decides so in the mode Replicated. A server takes no writes, and nobody copies it, before the operator says
// so; and it cannot tell whether its copy is the only one, so that one that it cannot read is never set aside.
func DecideReplicated(d Disk) Decision {
	if d.Data && d.Foreign {
		return d.foreign()
	}
	if d.tooNew() {
		return Decision{Message: fmt.Sprintf("its data was written by version %s, which %s cannot read: set spec.version to %s or later, or empty the volume to have the data copied from the primary",
			d.Writer.Version, d.Server.Version, d.Writer.Version)}
	}
	return Decision{Start: true, Admit: true}
}

// tooNew decides about data that the server is too old to read.
func tooNew(d Disk, self model.Peer) Decision {
	switch {
	case !self.Replica && len(self.Slots) > 0:
		return Decision{Message: fmt.Sprintf("node %s owns slots %s, and its data was written by version %s, which %s cannot read: set spec.version to %s or later",
			model.ShortID(self.ID), self.Slots, d.Writer.Version, d.Server.Version, d.Writer.Version)}
	case !self.Replica && len(self.Open) > 0: // A replica with open slots has keys of its primary alone.
		return Decision{Message: fmt.Sprintf("node %s has keys of slots that are on their way to it, and they were written by version %s, which %s cannot read: set spec.version to %s or later",
			model.ShortID(self.ID), d.Writer.Version, d.Server.Version, d.Writer.Version)}
	}
	return Decision{Start: true, SetAside: true, Message: fmt.Sprintf(
		"its copy was written by version %s, which %s cannot read: it is set aside, and the primary's data is copied anew", d.Writer.Version, d.Server.Version)}
}

func ownLine(text string) (model.Peer, error) {
	peers, err := model.ParseNodes(text)
	if err != nil {
		return model.Peer{}, err
	}
	for _, p := range peers {
		if p.Myself {
			return p, nil
		}
	}
	return model.Peer{}, fmt.Errorf("no line is marked myself")
}

// BaseFile finds the name of the base file in a manifest of append-only files: "file NAME seq NUMBER type b".
func BaseFile(manifest string) string {
	for line := range strings.Lines(manifest) {
		if f := strings.Fields(line); len(f) >= 6 && f[0] == "file" && f[4] == "type" && f[5] == "b" {
			return f[1]
		}
	}
	return ""
}

// RDBWriter reads which server wrote a dump out of the beginning of it: the first of its auxiliary fields
// (rdbSaveInfoAuxFields in the server's source), after a magic of nine bytes. It is zero where there is none. Valkey
// before 8.0 writes what Redis 7.2 does.
func RDBWriter(head []byte) software.Release {
	const magic, auxiliary = 9, 0xfa
	if len(head) <= magic || head[magic] != auxiliary {
		return software.Release{}
	}
	name, rest := shortString(head[magic+1:])
	value, _ := shortString(rest)
	switch {
	case value == "":
		return software.Release{}
	case name == "redis-ver":
		return software.Release{Engine: v1alpha1.EngineRedis, Version: value}
	case name == "valkey-ver":
		return software.Release{Engine: v1alpha1.EngineValkey, Version: value}
	}
	return software.Release{}
}

// shortString reads a string of up to 63 bytes as a dump holds it: its length in one byte, and its bytes.
func shortString(b []byte) (text string, rest []byte) {
	if len(b) == 0 || b[0] > 63 || len(b) <= int(b[0]) {
		return "", nil
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:]
}
