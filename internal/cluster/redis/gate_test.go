package redis

import (
	"strings"
	"testing"
)

func TestGate(t *testing.T) {
	line := func(ip, flags, slots string) string {
		return "0123456789abcdef " + ip + ":6379@16379 myself," + flags + " - 0 0 3 connected " + slots + "\nvars currentEpoch 6 lastVoteEpoch 0\n"
	}
	tests := map[string]struct {
		disk          Disk
		start, retire bool
		message       string
	}{
		"an empty disk starts a new node":                         {Disk{}, true, false, ""},
		"a primary with its data starts":                          {Disk{line("10.0.0.1", "master", "0-5460"), true, "10.0.0.2"}, true, false, ""},
		"a primary with its data starts at the same address":      {Disk{line("10.0.0.1", "master", "0-5460"), true, "10.0.0.1"}, true, false, ""},
		"a replica without data starts and copies":                {Disk{line("10.0.0.1", "slave", ""), false, "10.0.0.1"}, true, false, ""},
		"a node without slots and data starts":                    {Disk{line("10.0.0.1", "master", ""), false, "10.0.0.1"}, true, false, ""},
		"a primary without its data gives up its identity":        {Disk{line("10.0.0.1", "master", "0-5460"), false, "10.0.0.2"}, true, true, "its data is gone"},
		"a primary without its data is held at its old address":   {Disk{line("10.0.0.1", "master", "0-5460"), false, "10.0.0.1"}, false, false, "delete the pod"},
		"data without identity is held":                           {Disk{"", true, "10.0.0.1"}, false, false, "no nodes.conf"},
		"an identity that cannot be read is held":                 {Disk{"garbage", true, "10.0.0.1"}, false, false, "cannot be read"},
		"an identity without the node itself is held":             {Disk{"vars currentEpoch 6 lastVoteEpoch 0", true, "10.0.0.1"}, false, false, "cannot be read"},
		"a primary that was migrating slots keeps them with data": {Disk{line("10.0.0.1", "master", "0-5460 [93->-ab]"), true, "10.0.0.2"}, true, false, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Gate(tc.disk)
			if got.Start != tc.start || got.Retire != tc.retire || !strings.Contains(got.Message, tc.message) || (tc.message == "") != (got.Message == "") {
				t.Errorf("%+v; want start %v, retire %v, message with %q", got, tc.start, tc.retire, tc.message)
			}
		})
	}
}
