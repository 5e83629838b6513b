package gate

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

func TestGate(t *testing.T) {
	line := func(flags, slots string) string {
		return "0123456789abcdef 10.0.0.1:6379@16379 myself," + flags + " - 0 0 3 connected " + slots + "\nvars currentEpoch 6 lastVoteEpoch 0\n"
	}
	redis := func(version string) software.Release {
		return software.Release{Engine: v1alpha1.EngineRedis, Version: version}
	}
	valkey := func(version string) software.Release {
		return software.Release{Engine: v1alpha1.EngineValkey, Version: version}
	}
	tests := map[string]struct {
		disk    Disk
		want    Decision
		message string
	}{
		"an empty disk starts a new node that nobody copies yet":  {Disk{}, Decision{Start: true}, ""},
		"a primary with its data starts":                          {Disk{Nodes: line("master", "0-5460"), Data: true}, Decision{Start: true, Admit: true}, ""},
		"a replica with its data starts":                          {Disk{Nodes: line("slave", ""), Data: true}, Decision{Start: true, Admit: true}, ""},
		"a replica without data starts and copies":                {Disk{Nodes: line("slave", ""), Data: false}, Decision{Start: true}, ""},
		"a node without slots and data starts":                    {Disk{Nodes: line("master", ""), Data: false}, Decision{Start: true}, ""},
		"a node without slots starts as it did the first time":    {Disk{Nodes: line("master", ""), Data: true}, Decision{Start: true}, ""},
		"a primary without its data gives up its identity":        {Disk{Nodes: line("master", "0-5460"), Data: false}, Decision{Start: true, Retire: true}, "its data is gone"},
		"data without identity is held":                           {Disk{Nodes: "", Data: true}, Decision{}, "no nodes.conf"},
		"an identity that cannot be read is held":                 {Disk{Nodes: "garbage", Data: true}, Decision{}, "cannot be read"},
		"an identity without the node itself is held":             {Disk{Nodes: "vars currentEpoch 6 lastVoteEpoch 0", Data: true}, Decision{}, "cannot be read"},
		"a primary that was migrating slots keeps them with data": {Disk{Nodes: line("master", "0-5460 [93->-ab]"), Data: true}, Decision{Start: true, Admit: true}, ""},
		"a replica starts anew over a copy that it cannot read": {
			Disk{Nodes: line("slave", ""), Data: true, Writer: redis("8.2.1"), Server: redis("8.0.2")}, Decision{Start: true, SetAside: true}, "written by version 8.2.1, which 8.0.2 cannot read",
		},
		"a primary is held over data that it cannot read":        {Disk{Nodes: line("master", "0-5460"), Data: true, Writer: redis("9.0.1"), Server: redis("8.1.1")}, Decision{}, "set spec.version to 9.0.1 or later"},
		"a primary that was being given its first slots is held": {Disk{Nodes: line("master", "[93-<-ab]"), Data: true, Writer: redis("9.0.1"), Server: redis("8.1.1")}, Decision{}, "on their way to it"},
		"a replica with an open slot copies the data again":      {Disk{Nodes: line("slave", "[93-<-ab]"), Data: true, Writer: redis("9.0.1"), Server: redis("8.1.1")}, Decision{Start: true, SetAside: true}, "is set aside"},
		"a patch is no other version":                            {Disk{Nodes: line("slave", ""), Data: true, Writer: redis("8.0.3"), Server: redis("8.0.2")}, Decision{Start: true, Admit: true}, ""},
		"newer servers read older data":                          {Disk{Nodes: line("slave", ""), Data: true, Writer: redis("7.0.15"), Server: redis("8.0.2")}, Decision{Start: true, Admit: true}, ""},
		"a lower version of the other engine may read the data": {
			Disk{Nodes: line("slave", ""), Data: true, Writer: valkey("8.1.1"), Server: redis("8.0.2")}, Decision{Start: true, Admit: true}, "",
		},
		"a primary is held over data of the other engine": {
			Disk{Nodes: line("master", "0-5460"), Data: true, Writer: valkey("9.1.2"), Server: redis("8.0.2"), Foreign: true},
			Decision{},
			"written by valkey 9.1.2, which redis 8.0.2 cannot read: create the cluster with spec.engine valkey",
		},
		"a replica keeps data of the other engine": {
			Disk{Nodes: line("slave", ""), Data: true, Writer: redis("7.4.1"), Server: valkey("8.1.1"), Foreign: true}, Decision{}, "spec.engine redis",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.disk)
			if fatal := model.FatalStart(got.Message); (fatal != "") != (!got.Start && tc.disk.Writer == software.Release{}) {
				t.Errorf("%q is said to be damaged for %q", got.Message, fatal)
			}
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

func TestGateReplicatedKeepsDataOfTheOtherEngine(t *testing.T) {
	d := DecideReplicated(Disk{Data: true, Writer: software.Release{Engine: v1alpha1.EngineValkey, Version: "9.1.2"}, Server: software.Release{Engine: v1alpha1.EngineRedis, Version: "8.0.2"}, Foreign: true})
	if d.Start || d.SetAside || !strings.Contains(d.Message, "written by valkey 9.1.2, which redis 8.0.2 cannot read") {
		t.Errorf("%+v", d)
	}
}

func TestWhoWroteADump(t *testing.T) {
	for name, tc := range map[string]struct {
		head string
		want software.Release
	}{
		"redis":          {"REDIS0012\xfa\x09redis-ver\x058.0.2\xfa\x0aredis-bits", software.Release{Engine: v1alpha1.EngineRedis, Version: "8.0.2"}},
		"valkey":         {"VALKEY080\xfa\x0avalkey-ver\x059.1.2\xfa\x0aredis-bits", software.Release{Engine: v1alpha1.EngineValkey, Version: "9.1.2"}},
		"another field":  {"REDIS0012\xfa\x0aredis-bits\x0264", software.Release{}},
		"no field":       {"REDIS0012\xff", software.Release{}},
		"cut short":      {"REDIS0012\xfa\x09redis-ver\x058.0", software.Release{}},
		"commands":       {"*2\r\n$6\r\nSELECT\r\n", software.Release{}},
		"nothing at all": {"", software.Release{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RDBWriter([]byte(tc.head)); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
	manifest := "file appendonly.aof.1.base.rdb seq 1 type h\nfile appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.2.incr.aof seq 2 type i startoffset 0\n"
	if got := BaseFile(manifest); got != "appendonly.aof.2.base.rdb" {
		t.Errorf("base file %q", got)
	}
}
