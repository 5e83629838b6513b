package redisclient_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis"
)

// update is a message of the cluster bus that says at which epoch a node got its slots (struct clusterMsg of Redis and Valkey, with
// clusterMsgDataUpdate). It owns none here.
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

// typeUpdate is CLUSTERMSG_TYPE_UPDATE.
const typeUpdate = 7

// mislead tells a server about itself what was true before it became a replica, as another server that has not heard of that may: it
// takes itself for a primary then, and goes on copying its own up to Valkey 9.0.
func (w *world) mislead(p, sender *process) {
	w.t.Helper()
	var m update
	copy(m.Signature[:], "RCmb")
	m.Length, m.Version, m.Type = uint32(binary.Size(m)), 1, typeUpdate
	copy(m.Sender[:], w.nodeID(sender))
	copy(m.Node[:], w.nodeID(p))
	m.Epoch = 1 << 20 // What a server thinks of its own, which a replica tells nobody, is less.
	var wire bytes.Buffer
	if err := binary.Write(&wire, binary.BigEndian, m); err != nil {
		w.t.Fatal(err)
	}
	c, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", net.JoinHostPort(p.ip, strconv.Itoa(redis.BusPort)))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write(wire.Bytes()); err != nil {
		w.t.Fatal(err)
	}
	pause(w.t.Context(), time.Second)
}

// TestACopyThatTakesItselfForAPrimaryBeginsAnew: nothing but an empty server can be told whom to follow.
func TestACopyThatTakesItselfForAPrimaryBeginsAnew(t *testing.T) {
	t.Parallel()
	for i, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, false)
			w.ephemeral = i%2 == 1
			w.startAll()
			w.settle()
			w.write(w.clients())
			primary := w.pods[w.primary(t, 1)]
			replica := w.pods["carts-1-0"]
			if replica == primary {
				replica = w.pods["carts-1-1"]
			}
			w.steps = nil
			w.mislead(replica, primary)
			for _, p := range w.observe(t.Context()).Pods {
				if p.Name == replica.name && (p.Node.Self().Replica || p.Node.Keys == 0) {
					t.Fatalf("%s is not misled: it is %+v, with %d keys", p.Name, p.Node.Self(), p.Node.Keys)
				}
			}
			t.Logf("settled after %s\n%s", w.settle(), last(w.steps, 10))
			if got := w.followers(1); len(got) != 1 || got[0] != 1 {
				t.Errorf("the replicas of shard 1 copy %v", got)
			}
			w.expect(w.clients())
		})
	}
}
