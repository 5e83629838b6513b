package redisfake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

var (
	errNotOwner    = errors.New("ERR I'm not the owner of hash slot")
	errOwner       = errors.New("ERR I'm already the owner of hash slot")
	errHoldsKeys   = errors.New("ERR Can't assign hashslot to a different node while I still hold keys for this hash slot")
	errReplica     = errors.New("ERR You can use SETSLOT only with masters")
	errUnknownID   = errors.New("ERR I don't know about node")
	errMoved       = errors.New("MOVED")
	errClusterDown = errors.New("CLUSTERDOWN")
	errIO          = errors.New("IOERR error or timeout reading to target instance")
	errNotAllowed  = errors.New("ERR Target instance replied with error: MOVED")
)

var _ steps.Mover = (*Server)(nil)

// name is how a key is called.
func (k Key) name() string { return fmt.Sprintf("%d/%d", k.Slot, k.N) }

func parseKey(name string) (k Key) {
	if _, err := fmt.Sscanf(name, "%d/%d", &k.Slot, &k.N); err != nil {
		panic(err) // Only names that the fake gave out come here.
	}
	return k
}

// SetSlots does what CLUSTER SETSLOT does, for one slot after the other.
func (s *Server) SetSlots(_ context.Context, slots slots.Set, state model.SlotState, id string) error {
	switch _, known := s.peers[id]; {
	case s.reachable() != nil:
		return errDown
	case s.replicaOf != "":
		return errReplica
	case id != "" && id != s.ID && !known:
		return errUnknownID
	}
	for _, r := range slots {
		for _, part := range s.slots.within(r) {
			if err := s.setSlots(part, state, id); err != nil {
				return err
			}
		}
	}
	if state == steps.SlotOwner && id == s.ID && s.net.draw(10, s.ID+" owns "+slots.String()) > 0 { // A server may die before it has told anybody.
		s.tellAll()
	}
	return nil
}

func (s *Server) setSlots(part run, state model.SlotState, id string) error {
	mine := part.value == s.ID
	switch state {
	case steps.SlotStable:
		s.importing.set(part.of, "")
		s.migrating.set(part.of, "")
	case steps.SlotImporting:
		if mine {
			return errOwner
		}
		s.importing.set(part.of, id)
	case steps.SlotMigrating:
		if !mine {
			return errNotOwner
		}
		s.migrating.set(part.of, id)
	case steps.SlotOwner:
		if mine && id != s.ID && s.holds(slots.Set{part.of}) {
			return errHoldsKeys
		}
		s.migrating.set(part.of, "")
		if id == s.ID && len(s.importing) > 0 {
			s.importing.set(part.of, "")
			s.bump()
		}
		s.slots.set(part.of, id)
	}
	return nil
}

// bump gives the node the highest epoch, if it does not have it.
func (s *Server) bump() {
	highest := s.epoch
	same := false
	for _, p := range s.peers {
		highest = max(highest, p.epoch)
		same = same || p.epoch == s.epoch
	}
	if s.epoch == 0 || s.epoch < highest || same {
		s.current++
		s.epoch = s.current
	}
}

// holds tells whether the server has keys of slots.
func (s *Server) holds(slots slots.Set) bool {
	for k := range s.Data {
		if slots.Has(k.Slot) {
			return true
		}
	}
	return false
}

// Keys returns the keys of slots, each of which takes one byte for every write. They are in the same
// order each time.
func (s *Server) Keys(_ context.Context, slots slots.Set, _ int) (map[int][]model.Key, error) {
	if err := s.reachable(); err != nil {
		return nil, err
	}
	out := map[int][]model.Key{}
	for k, writes := range s.Data {
		if slots.Has(k.Slot) {
			out[k.Slot] = append(out[k.Slot], model.Key{Name: k.name(), Bytes: int64(writes)})
		}
	}
	for _, keys := range out {
		slices.SortFunc(keys, func(a, b model.Key) int { return cmp.Compare(a.Name, b.Name) })
	}
	return out, nil
}

// Restore does what RESTORE-ASKING does: a key that is there already stays as it is.
func (s *Server) Restore(k Key, value int) error {
	owner := s.slots.get(k.Slot)
	switch {
	case s.reachable() != nil:
		return errDown
	case s.replicaOf != "" || (owner != s.ID && owner != "" && s.importing.get(k.Slot) == ""):
		return errMoved
	case owner == "" || !s.StateOK():
		return errClusterDown
	}
	if s.Data[k] == 0 {
		s.Data[k] = value
	}
	return nil
}

// Process tells the starts of all servers apart.
func (s *Server) Process(context.Context) (string, error) { return s.process(), s.reachable() }

func (s *Server) process() string { return fmt.Sprintf("%s-%d", s.ID, s.starts) }

// Sees tells what the server has heard of another one.
func (s *Server) Sees(_ context.Context, id string) (model.Peer, error) {
	p, known := s.peers[id]
	switch {
	case s.reachable() != nil:
		return model.Peer{}, errDown
	case !known:
		return model.Peer{}, errUnknownID
	}
	return s.peer(id, p), nil
}

// Large finds no key that is worth mentioning.
func (s *Server) Large(context.Context, slots.Set, int64) (map[int]model.Key, error) {
	return nil, s.reachable()
}

// Send moves keys. Now and then the answer of the target is lost, and the key is on both servers then.
func (s *Server) Send(_ context.Context, to model.Address, batches [][]model.Key, replace bool, _ time.Duration) (busy [][]model.Key, err error) {
	if err := s.reachable(); err != nil {
		return nil, err
	}
	target := s.reach(to)
	for _, batch := range batches {
		var stays []model.Key
		for _, key := range batch {
			k := parseKey(key.Name)
			switch {
			case target == nil:
				return nil, errIO
			case s.replicaOf != "":
				return nil, errMoved
			case target.replicaOf != "" || (target.importing.get(k.Slot) == "" && !target.Owns(k.Slot)):
				return nil, errNotAllowed
			case target.slots.get(k.Slot) == "":
				return nil, errClusterDown
			}
			if s.Data[k] == 0 {
				continue // MIGRATE answers NOKEY: somebody else has moved it meanwhile.
			}
			if _, there := target.Data[k]; there && !replace {
				stays = append(stays, key)
				continue
			}
			target.Data[k] = s.Data[k]
			if s.net.draw(20, "answer to "+key.Name) == 0 {
				return nil, errIO
			}
			delete(s.Data, k)
		}
		if len(stays) > 0 {
			busy = append(busy, stays)
		}
	}
	return busy, nil
}
