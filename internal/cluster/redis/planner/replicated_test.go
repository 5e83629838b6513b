package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

const history = "history"

// replicated is a settled cluster: c-0-0 is the primary, c-0-1 and c-0-2 are its replicas.
func replicated() *fixture {
	f := &fixture{model.State{Now: now, Spec: model.Spec{
		Name: "c", Shards: 1, Replicas: 2, Replicated: true, Version: "8.0.2", NodeTimeout: 5 * time.Second, Persistent: true,
	}, Sets: []model.Set{{Replicas: 3}}, Appointed: model.Appointment{Pod: "c-0-0", History: history, Guard: 5 * time.Second}}}
	for ordinal := range 3 {
		name := cluster.Pod("c-0", ordinal)
		p := model.Pod{
			Name: name, UID: "uid-" + name, Ordinal: ordinal, Addr: model.Address{IP: fmt.Sprintf("10.0.0.%d", ordinal), Port: model.ClientPort},
			Ready: true, HasRun: true, Started: now.Add(-time.Hour), Role: model.RoleReplica,
			Node: &model.Node{
				ID: id(name), Engine: v1alpha1.EngineRedis, Version: "8.0.2", StateOK: true, Admits: model.AdmitsForGood, OnDisk: true, Keys: 10, Offset: 1000,
				EverLinked: true, LinkUp: true, Asks: model.Address{IP: "10.0.0.0", Port: model.ClientPort}, Config: map[string]string{model.WriteGuard: "0"},
				Replication: &model.Replication{ID: history},
				Peers:       []model.Peer{{ID: id(name), Host: name + ".c-peers", Myself: true}},
			},
		}
		f.Pods = append(f.Pods, p)
	}
	f.leads("c-0-0")
	f.pod("c-0-0").Role = model.RolePrimary
	f.pod("c-0-0").Node.Config[model.WriteGuard] = "1"
	return f
}

// leads makes a server a primary by its own word.
func (f *fixture) leads(name string) {
	n := f.pod(name).Node
	n.LinkUp, n.Asks, n.Replication.Primary = false, model.Address{}, true
}

// starts makes a server one that has just been started, with what is on its disk.
func (f *fixture) starts(name string, keys int64) {
	p := f.pod(name)
	p.Role, p.Ended = "", now
	n := p.Node
	n.LinkUp, n.EverLinked, n.Asks, n.Keys, n.Offset = false, false, model.Nobody, keys, 0
	n.Replication = &model.Replication{ID: "own-" + name, Silence: model.Never}
	n.Config[model.WriteGuard] = "0"
}

// lose makes replicas hear nothing from the primary for some time.
func (f *fixture) lose(silence time.Duration, names ...string) {
	for _, name := range names {
		n := f.pod(name).Node
		n.LinkUp, n.Replication.Silence = false, silence
	}
}

// alone is a primary that has needed no replica for an hour, as none is in sync.
func (f *fixture) alone() {
	f.lose(time.Hour, "c-0-1", "c-0-2")
	f.pod("c-0-1").Role, f.pod("c-0-2").Role, f.Appointed.Guard = "", "", 0
}

// hang makes a server not answer.
func (f *fixture) hang(name string) { f.pod(name).Node = nil }

// die ends a server's container.
func (f *fixture) die(name string) {
	f.hang(name)
	f.pod(name).Started, f.pod(name).Ready, f.pod(name).Ended = time.Time{}, false, now
}

// primaryDies ends the container of the primary just now, which both replicas have noticed.
func (f *fixture) primaryDies() {
	f.die("c-0-0")
	f.lose(0, "c-0-1", "c-0-2")
}

// primarySilent has the primary not answer for longer than its guard lasts.
func (f *fixture) primarySilent() {
	f.hang("c-0-0")
	f.lose(9*time.Second, "c-0-1", "c-0-2")
}

func (f *fixture) follows(name, primary string) {
	n := f.pod(name).Node
	n.LinkUp, n.Asks, n.Replication = true, f.pod(primary).Addr, &model.Replication{ID: f.pod(primary).Node.Replication.ID}
}

// both are the replicas of a replicated cluster.
var both = []string{"c-0-1", "c-0-2"}

// replicatedRow is what is planned for a replicated cluster.
type replicatedRow struct {
	spoil func(f *fixture)
	// want is the step, or the message of a plan without one.
	want string
}

func (r replicatedRow) Check(t *testing.T) {
	t.Helper()
	f := replicated()
	r.spoil(f)
	p := f.untilItMatters()
	got := p.Message
	if p.Step != nil {
		got = p.Step.String()
	}
	if !strings.HasPrefix(got+"|", r.want) { // A bar at the end: there is no more.
		t.Errorf("%s (%s)\nwant %s", got, p.Message, r.want)
	}
}

// untilItMatters is the plan after what only prepares a promotion or a hand-over has been done.
func (f *fixture) untilItMatters() cluster.Plan {
	for {
		p := Next(f.State)
		switch step := p.Step.(type) {
		case steps.Appoint:
			if step.Candidate.Pod == "" {
				return p
			}
			f.Appointed, f.Candidate = step.Appointment, step.Candidate
		case steps.GuardWrites:
			if step.Pod == f.Appointed.Pod {
				return p
			}
			f.pod(step.Pod).Node.Config[model.WriteGuard] = fmt.Sprint(step.Replicas)
		case nil:
			if !f.Candidate.Planned() || p.Reason != steps.ReasonFailover {
				return p
			}
			f.Now = f.Now.Add(p.After)
		default:
			return p
		}
	}
}

// replacedAfter is a cluster in which c-0-1 leads in the place of c-0-0, which does not answer and has run for so long.
func (f *fixture) replacedAfter(running time.Duration) {
	f.swap("c-0-1")
	f.hang("c-0-0")
	f.pod("c-0-0").Started = now.Add(-running)
	f.pod("c-0-0").Role, f.pod("c-0-1").Role = model.RolePrimary, model.RoleReplica
}

// twice has c-0-0 hand over to c-0-1, and that one to c-0-2.
func (f *fixture) twice() {
	f.leads("c-0-2")
	f.pod("c-0-2").Node.Replication = &model.Replication{Primary: true, ID: "n2", FormerID: "n1"}
	f.follows("c-0-1", "c-0-2")
	f.follows("c-0-0", "c-0-1")
	f.pod("c-0-0").Node.Replication = &model.Replication{ID: "n2", FormerID: "n1"}
}

// handing has c-0-1, the primary, hand over to c-0-2, which it may have done a moment ago.
func (f *fixture) handing(done bool) {
	f.swap("c-0-1")
	for from, to := range map[string]string{"c-0-1": "c-0-2", "c-0-2": "c-0-1"} {
		n := f.pod(from).Node
		n.Replication, n.Asks, n.LinkUp = &model.Replication{ID: history}, f.pod(to).Addr, false
	}
	f.pod("c-0-1").Node.LinkUp = done
}

// swap makes another server the primary, for a while already.
func (f *fixture) swap(to string) {
	f.leads(to)
	f.pod(to).Node.Config[model.WriteGuard], f.pod(to).Role, f.Appointed.Pod = "1", model.RolePrimary, to
	f.pod("c-0-0").Node.Config[model.WriteGuard], f.pod("c-0-0").Role = "0", model.RoleReplica
	for _, p := range []string{"c-0-0", "c-0-1", "c-0-2"} {
		if p != to {
			f.follows(p, to)
		}
	}
}

func TestAServerOfTheModeReplicatedStartsUnlessItsDataIsTooNew(t *testing.T) {
	for _, d := range []gate.Disk{{}, {Data: true}, {Data: true, Writer: software.Release{Engine: v1alpha1.EngineRedis, Version: "8.0.2"}, Server: software.Release{Engine: v1alpha1.EngineRedis, Version: "8.2.0"}}} {
		if got := gate.DecideReplicated(d); !got.Start || !got.Admit || got.SetAside {
			t.Errorf("%+v: %+v", d, got)
		}
	}
	if got := gate.DecideReplicated(gate.Disk{Data: true, Writer: software.Release{Engine: v1alpha1.EngineRedis, Version: "8.2.0"}, Server: software.Release{Engine: v1alpha1.EngineRedis, Version: "8.0.2"}}); got.Start || !strings.Contains(got.Message, "set spec.version to 8.2.0") {
		t.Errorf("%+v", got)
	}
}

func TestAServerThatHangsIsNoticedInTime(t *testing.T) {
	if p := Next(replicated().State); !p.Settled() || p.After != 5*time.Second {
		t.Errorf("a settled cluster is looked at again after %s: %s", p.After, p.Message)
	}
}

func TestAReplicaWhoseCopyBrokeOffSaysHowFarItHasGot(t *testing.T) {
	n, err := model.ParseReplicated("c-0-1", "run_id:aa\nrole:slave\nmaster_replid:bb\nmaster_repl_offset:500\nslave_repl_offset:1\nmaster_link_status:down\n")
	if err != nil || n.Offset != 500 {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestTheGuardOfAPrimaryIsReadBack(t *testing.T) {
	for text, want := range map[string]time.Duration{"5s": 5 * time.Second, "true": time.Minute, "": time.Minute} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationGuarded: text}}}
		if got := manifests.AppointmentOf(s).Guard; got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := manifests.AppointmentOf(&corev1.Service{}).Guard; got != 0 {
		t.Errorf("nothing: %s", got)
	}
}
