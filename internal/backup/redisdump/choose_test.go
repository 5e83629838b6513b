package redisdump_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/backup/redisdump"
)

func TestChoosePrefersReplicasThatHaveCaughtUp(t *testing.T) {
	at := func(offset int64) redisdump.Position { return redisdump.Position{ReplicationID: "a", Offset: offset} }
	primary := redisdump.Candidate{Name: "p", Primary: true, Position: at(1000)}
	replica := func(name string, offset int64) redisdump.Candidate {
		return redisdump.Candidate{Name: name, LinkUp: true, Position: at(offset)}
	}
	changed := func(c redisdump.Candidate, f func(*redisdump.Candidate)) redisdump.Candidate { f(&c); return c }
	for name, test := range map[string]struct {
		servers []redisdump.Candidate
		want    string
		gap     int64
		reason  string
	}{
		"the furthest":            {servers: []redisdump.Candidate{replica("a", 900), primary, replica("b", 990)}, want: "b", gap: 10, reason: "caught up"},
		"by name":                 {servers: []redisdump.Candidate{replica("b", 1000), replica("a", 1000), primary}, want: "a"},
		"asked later":             {servers: []redisdump.Candidate{primary, replica("a", 1200)}, want: "a"},
		"too far behind":          {servers: []redisdump.Candidate{primary, replica("a", 899)}, want: "p", reason: "101 bytes behind"},
		"just not too far":        {servers: []redisdump.Candidate{primary, replica("a", 900)}, want: "a", gap: 100},
		"no replica":              {servers: []redisdump.Candidate{primary}, want: "p", reason: "no replica"},
		"link down":               {servers: []redisdump.Candidate{primary, changed(replica("a", 1000), func(c *redisdump.Candidate) { c.LinkUp = false })}, want: "p"},
		"loading":                 {servers: []redisdump.Candidate{primary, changed(replica("a", 1000), func(c *redisdump.Candidate) { c.Loading = true })}, want: "p"},
		"another stream":          {servers: []redisdump.Candidate{primary, changed(replica("a", 5000), func(c *redisdump.Candidate) { c.Position.ReplicationID = "b" }), replica("c", 950)}, want: "c", gap: 50},
		"primary does not answer": {servers: []redisdump.Candidate{replica("a", 10), replica("b", 20)}, want: "b", reason: "did not answer"},
		"primary loads":           {servers: []redisdump.Candidate{changed(primary, func(c *redisdump.Candidate) { c.Loading = true }), replica("b", 20)}, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := redisdump.Choose(test.servers, 100)
			if err != nil || got.Name != test.want || got.Gap != test.gap || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("%+v %v, want %+v", got, err, test)
			}
			if got.PrimarySeen != (got.PrimaryPosition == primary.Position) {
				t.Errorf("the primary was at %+v, seen %t", got.PrimaryPosition, got.PrimarySeen)
			}
		})
	}
	for name, servers := range map[string][]redisdump.Candidate{
		"nobody":        nil,
		"two primaries": {primary, changed(primary, func(c *redisdump.Candidate) { c.Name = "q" })},
		"no link":       {changed(replica("a", 1), func(c *redisdump.Candidate) { c.LinkUp = false })},
	} {
		if got, err := redisdump.Choose(servers, 100); !errors.Is(err, redisdump.ErrNoSource) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

func TestParseCandidateReadsWhatServersTell(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		primary, replica := start(t, engine, nil), start(t, engine, nil)
		primary.must(t, "SET", "a", "b")
		replica.follow(t, primary)
		read := func(name string, p *process) redisdump.Candidate {
			info, err := p.Info(t.Context(), "everything").Result()
			if err != nil {
				t.Fatal(err)
			}
			c, err := redisdump.ParseCandidate(name, info)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		choice, err := redisdump.Choose([]redisdump.Candidate{read("p", primary), read("r", replica)}, 1<<20)
		if err != nil || choice.Name != "r" || !choice.PrimarySeen || choice.Position.ReplicationID != choice.PrimaryPosition.ReplicationID {
			t.Errorf("%+v %v", choice, err)
		}
		primary.kill()
		eventually(t, "the link is down", func() error {
			if _, err := redisdump.Choose([]redisdump.Candidate{read("r", replica)}, 1<<20); errors.Is(err, redisdump.ErrNoSource) {
				return nil
			}
			return errors.New("it is chosen")
		})
	})
	for _, info := range []string{"", "role:sentinel\r\n", "role:master\r\n", "role:slave\r\nslave_repl_offset:x\r\n"} {
		if c, err := redisdump.ParseCandidate("x", info); err == nil {
			t.Errorf("%q is %+v", info, c)
		}
	}
}
