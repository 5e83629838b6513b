package redis

import (
	"strings"
	"testing"
)

func TestGate(t *testing.T) {
	line := func(flags, slots string) string {
		return "0123456789abcdef 10.0.0.1:6379@16379 myself," + flags + " - 0 0 3 connected " + slots + "\nvars currentEpoch 6 lastVoteEpoch 0\n"
	}
	tests := map[string]struct {
		disk    Disk
		want    Decision
		message string
	}{
		"an empty disk starts a new node that nobody copies yet":  {Disk{}, Decision{Start: true}, ""},
		"a primary with its data starts":                          {Disk{line("master", "0-5460"), true}, Decision{Start: true, Admit: true}, ""},
		"a replica with its data starts":                          {Disk{line("slave", ""), true}, Decision{Start: true, Admit: true}, ""},
		"a replica without data starts and copies":                {Disk{line("slave", ""), false}, Decision{Start: true}, ""},
		"a node without slots and data starts":                    {Disk{line("master", ""), false}, Decision{Start: true}, ""},
		"a node without slots starts as it did the first time":    {Disk{line("master", ""), true}, Decision{Start: true}, ""},
		"a primary without its data gives up its identity":        {Disk{line("master", "0-5460"), false}, Decision{Start: true, Retire: true}, "its data is gone"},
		"data without identity is held":                           {Disk{"", true}, Decision{}, "no nodes.conf"},
		"an identity that cannot be read is held":                 {Disk{"garbage", true}, Decision{}, "cannot be read"},
		"an identity without the node itself is held":             {Disk{"vars currentEpoch 6 lastVoteEpoch 0", true}, Decision{}, "cannot be read"},
		"a primary that was migrating slots keeps them with data": {Disk{line("master", "0-5460 [93->-ab]"), true}, Decision{Start: true, Admit: true}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Gate(tc.disk)
			if !strings.Contains(got.Message, tc.message) || (tc.message == "") != (got.Message == "") {
				t.Errorf("message %q, want one with %q", got.Message, tc.message)
			}
			got.Message = ""
			if got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}
