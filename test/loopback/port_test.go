package loopback

import (
	"strconv"
	"testing"
)

func TestAPortIsGivenToOneTestAlone(t *testing.T) {
	given := map[int]bool{}
	for range 200 {
		port := Port(t)
		if given[port] {
			t.Fatalf("port %d was given twice", port)
		}
		given[port] = true
		if port < first || port >= last {
			t.Errorf("port %d may be taken by a client", port)
		}
	}
}

func TestAPortForAClusterComesWithThatOfItsBus(t *testing.T) {
	for range 200 {
		port := ClusterPort(t) + bus
		if port >= last {
			t.Errorf("port %d may be taken by a client", port)
		}
		if l, err := listen(t.Context(), keeper, port); err == nil {
			_ = l.Close()
			t.Fatalf("port %d is not kept", port)
		}
	}
}

func TestAPortIsFreeAgainWhenItsTestHasEnded(t *testing.T) {
	var port int
	t.Run("first", func(t *testing.T) { port = Port(t) })
	l, err := listen(t.Context(), keeper, port)
	if err != nil {
		t.Fatalf("port %s is still taken: %v", strconv.Itoa(port), err)
	}
	_ = l.Close()
}

func TestAnAddressCanBeListenedAtAgainAndAgain(t *testing.T) {
	port := Port(t)
	for range 2 {
		l, err := listen(t.Context(), "127.0.0.1", port)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
