package redisfake

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

const timeout = 5 * time.Second

// three is a cluster of three primaries with two replicas each, which have copied them. The replicas of the first are b and c.
func three(t *testing.T) (net *Network, primaries []*Server, b, c *Server) {
	t.Helper()
	net = NewNetwork(timeout, rand.New(rand.NewPCG(1, 1)))
	var all, replicas []*Server
	for shard := range 3 {
		for ordinal := range 3 {
			s := net.Add(model.Address{IP: fmt.Sprintf("10.0.%d.%d", shard, ordinal), Port: model.ClientPort}, shard, fmt.Sprintf("c-%d-%d", shard, ordinal))
			s.epoch, s.current, s.admits = uint64(1+len(all)), 9, model.AdmitsForGood
			all = append(all, s)
			if ordinal == 0 {
				primaries = append(primaries, s)
			} else {
				replicas = append(replicas, s)
			}
		}
	}
	for _, s := range all {
		for _, o := range all {
			if s != o {
				s.learn(o)
			}
		}
	}
	for i, p := range primaries {
		if err := p.AddSlots(t.Context(), slots.Share(i, 3)); err != nil {
			t.Fatal(err)
		}
		p.Data[Key{Slot: slots.Share(i, 3)[0].From}] = 1
	}
	net.pass(time.Second)
	for _, r := range replicas {
		if err := r.Replicate(t.Context(), primaries[r.Shard].ID); err != nil {
			t.Fatal(err)
		}
	}
	net.pass(3 * time.Second)
	if !replicas[0].LinkUp() || !replicas[1].LinkUp() || !primaries[0].StateOK() {
		t.Fatal("the cluster is not well")
	}
	return net, primaries, replicas[0], replicas[1]
}

func (n *Network) pass(d time.Duration) {
	for end := n.now.Add(d); n.now.Before(end); {
		n.Tick()
	}
}

func force(t *testing.T, s *Server) bool {
	t.Helper()
	return s.Failover(t.Context(), steps.FailoverForce) == nil && s.Primary() == ""
}

func TestWhoIsToldToStandIsVotedForByThoseWhoMissNobody(t *testing.T) {
	net, primaries, b, _ := three(t)
	primaries[0].Stop()
	net.pass(time.Second)
	if primaries[1].Misses(primaries[0].ID) || primaries[2].Misses(primaries[0].ID) {
		t.Fatal("it is missed")
	}
	if !force(t, b) {
		t.Error("it is not elected")
	}
	primaries[0].Restart()
	net.pass(3 * time.Second)
	if got := primaries[0].Primary(); got != b.ID {
		t.Errorf("who is back copies %q", got)
	}
}

func TestNobodyIsElectedWithoutAMajority(t *testing.T) {
	net, primaries, b, _ := three(t)
	primaries[0].Stop()
	primaries[1].Stop()
	net.pass(time.Second)
	if force(t, b) {
		t.Error("one of three has elected it")
	}
}

func TestWhoHasVotedOnAPrimaryDoesNotDoSoAgainForSomeTime(t *testing.T) {
	net, primaries, b, c := three(t)
	primaries[0].Stop()
	primaries[1].Stop()
	net.pass(time.Second)
	force(t, b) // The third primary votes for it.
	primaries[1].Restart()
	net.pass(time.Second)
	if force(t, c) {
		t.Error("somebody has voted for two on the same primary")
	}
}

func TestAFailedElectionIsNotBegunAnewForSomeTime(t *testing.T) {
	net, primaries, b, _ := three(t)
	primaries[0].Stop()
	primaries[1].Stop()
	primaries[2].Stop()
	net.pass(time.Second)
	if force(t, b) {
		t.Fatal("nobody has elected it")
	}
	primaries[1].Restart()
	primaries[2].Restart()
	net.pass(time.Second)
	if force(t, b) {
		t.Error("it has asked for votes again at once")
	}
}

func TestNobodyVotesForWhoClaimsSlotsThatHaveBeenGivenAway(t *testing.T) {
	net, primaries, b, _ := three(t)
	primaries[0].Stop()
	net.pass(time.Second)
	for _, p := range primaries[1:] { // The last slot has gone to the second, under a later epoch, as b has not heard.
		last := slots.Share(0, 3)[0].To
		p.slots.set(slots.Range{From: last, To: last}, primaries[1].ID)
	}
	primaries[1].epoch, primaries[2].peers[primaries[1].ID].epoch = 20, 20
	if force(t, b) {
		t.Error("it is elected")
	}
}

func TestNobodyVotesInAnEpochThatIsOver(t *testing.T) {
	net, primaries, b, _ := three(t)
	primaries[0].Stop()
	net.pass(time.Second)
	primaries[1].current = b.current + 2
	if force(t, b) {
		t.Error("it is elected")
	}
}
