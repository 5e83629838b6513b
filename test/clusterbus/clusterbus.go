// Package clusterbus makes messages of the cluster bus of Redis and Valkey, for tests of what these do to a server.
package clusterbus

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// update is struct clusterMsg of Redis and Valkey with a clusterMsgDataUpdate.
type update struct {
	Signature                 [4]byte
	Length                    uint32
	Version, Port, Type, Rows uint16
	CurrentEpoch, ConfigEpoch uint64
	Offset                    uint64
	Sender                    [40]byte
	SenderSlots               [2048]byte
	PrimaryOfSender           [40]byte
	IP                        [46]byte
	Extensions                uint16
	_                         [30]byte
	OtherPort, BusPort, Flags uint16
	State                     byte
	_                         [3]byte
	Epoch                     uint64
	Node                      [40]byte
	Slots                     [2048]byte
}

// typeUpdate is CLUSTERMSG_TYPE_UPDATE, and epoch a later one than any that a server of a test has.
const (
	typeUpdate = 7
	epoch      = 1 << 20
)

// Update is the message by which the node called sender tells a server who owns what: the node called node, no slots, at a late epoch. Both
// are ids of nodes, 40 hexadecimal digits each, and the server has to know them. A replica that is told so of itself takes itself for a
// primary, and goes on copying its own up to Valkey 9.0.
func Update(sender, node string) ([]byte, error) {
	m := update{Version: 1, Type: typeUpdate, Epoch: epoch}
	m.Length = uint32(binary.Size(m))
	copy(m.Signature[:], "RCmb")
	if copy(m.Sender[:], sender) != len(m.Sender) || copy(m.Node[:], node) != len(m.Node) {
		return nil, fmt.Errorf("%q and %q are no ids of nodes", sender, node)
	}
	var wire bytes.Buffer
	if err := binary.Write(&wire, binary.BigEndian, m); err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return wire.Bytes(), nil
}
