package redis

import "fmt"

// Disk is what the start gate finds in the data directory.
type Disk struct {
	// Nodes is the content of nodes.conf, empty when there is none.
	Nodes string
	// Data says that there are append-only files.
	Data bool
}

// Decision is what the start gate does about a pod.
type Decision struct {
	// Start the server.
	Start bool
	// Retire sets nodes.conf aside first, so that the server starts as a new, empty node.
	Retire bool
	// Admit lets other servers copy this one from the start. One that has nothing to give must wait until the operator
	// has decided what it is: at the address of a dead primary, the replicas of that one would copy its emptiness.
	Admit bool
	// Message says why, when it is not the ordinary start.
	Message string
}

// Gate decides whether and as whom a server may start. Data and identity (nodes.conf) belong together: the server makes
// both at its first start and neither ever goes away alone unless the volume was damaged or tampered with.
//
// A primary that lost its data must not come back under its old id: its replicas would copy the emptiness. Without the
// identity nobody takes the empty server for the old one: a replica is elected, and the newcomer becomes its replica.
func Gate(d Disk) Decision {
	if d.Nodes == "" {
		if d.Data {
			return Decision{Message: "there is data but no " + NodesFile + ", and a server without it would claim slots that may belong to others: " +
				"restore the file, or empty the volume to have the data copied from the shard's other servers"}
		}
		return Decision{Start: true}
	}
	self, err := ownLine(d.Nodes)
	switch {
	case err != nil:
		return Decision{Message: fmt.Sprintf("%s cannot be read (%v): restore the file, or empty the volume to have the data copied from the shard's other servers", NodesFile, err)}
	case d.Data || self.Replica || len(self.Slots) == 0:
		return Decision{Start: true, Admit: d.Data && (self.Replica || len(self.Slots) > 0)}
	}
	return Decision{Start: true, Retire: true, Message: fmt.Sprintf(
		"node %s owned slots %s but its data is gone: it starts as a new empty node, so that its replicas keep their copies", short(self.ID), self.Slots)}
}

func ownLine(text string) (Peer, error) {
	peers, err := ParseNodes(text)
	if err != nil {
		return Peer{}, err
	}
	for _, p := range peers {
		if p.Myself {
			return p, nil
		}
	}
	return Peer{}, fmt.Errorf("no line is marked myself")
}
