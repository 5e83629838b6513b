package controllers

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
)

// etcdWorkloads are what users do with an EtcdCluster, from nothing to a cluster that is Ready.
var etcdWorkloads = map[string]func(*stage){
	"created": (*stage).served,
	"created and changed": func(s *stage) {
		s.served()
		s.change()
		s.untilReady()
	},
	"scaled in and out": func(s *stage) {
		s.served()
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 })
		s.untilReady()
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 3 })
		s.untilReady()
	},
	"upgraded": func(s *stage) {
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.5.35" })
		s.served()
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" })
		s.untilReady()
	},
	"deleted and created again": func(s *stage) {
		s.served()
		s.recreate()
		s.untilReady()
	},
	"replaced":            (*stage).replaced,
	"fragmented and full": (*stage).fragmentedAndFull,
	"stored elsewhere":    (*stage).storedElsewhere,
	"hibernated midway":   (*stage).hibernatedMidway,
	"restored in place":   (*stage).restoredInPlace,
}

// parts is nowhere when the cluster was Ready once: a sweep of that has to begin at the beginning.
func (s *stage) parts() ready {
	if s.first.turns == s.turns {
		return ready{}
	}
	return s.first
}

// served makes a cluster that a client writes to.
func (s *stage) served() {
	s.t.Helper()
	s.untilReady()
	s.acknowledge()
}

// acknowledge makes a write of a client that must not be lost.
func (s *stage) acknowledge() {
	s.t.Helper()
	if err := s.net.Put(s.procs["orders-0"], s.password(), fmt.Sprint("acknowledged after write ", s.writes)); err != nil {
		s.t.Fatal(err)
	}
}

// replaced is a member whose data differs from that of the others.
func (s *stage) replaced() {
	s.t.Helper()
	s.served()
	odd := s.procs["orders-1"]
	if err := s.net.RaiseCorrupt(odd, true); err != nil {
		s.t.Fatal(err)
	}
	s.restart()
	for range 60 {
		if now := s.procs["orders-1"].Disk; now.MemberID != odd.Disk.MemberID {
			break
		}
		s.round()
	}
	s.untilReady()
	if now := s.procs["orders-1"].Disk; now.MemberID == odd.Disk.MemberID || now.Differs {
		s.t.Error("the member with other data was not replaced")
	}
}

// sound fails the test when data or a cluster was lost.
func (s *stage) sound() {
	s.t.Helper()
	if lost := s.net.Lost(); lost != "" {
		s.t.Errorf("lost is %s", lost)
	}
	if len(s.net.Led) != s.led {
		s.t.Errorf("%d clusters have led instead of %d", len(s.net.Led), s.led)
	}
}

// members are those of the cluster as they know it themselves, none without a leader.
func (s *stage) members() []etcd.Member {
	for _, p := range s.procs {
		for _, tls := range []bool{true, false} {
			c := &etcdfake.Client{Network: s.net, Process: p, TLS: tls, Root: true}
			if out, err := c.Members(s.t.Context()); err == nil {
				return out
			}
		}
	}
	return nil
}

// quorum counts the voters, and those of them that run in a pod that is to stay.
func (s *stage) quorum() (voters, up, learners int) {
	pods := map[string]bool{}
	for _, o := range s.past.state("Pod", s.past.now()) {
		pods[o.GetName()] = o.GetDeletionTimestamp() == nil
	}
	for _, o := range s.past.state("StatefulSet", s.past.now()) {
		set := o.(*appsv1.StatefulSet)
		for i := ptr.Deref(set.Spec.Replicas, 1); i < etcd.MaxSize; i++ {
			delete(pods, cluster.Pod(set.Name, int(i))) // It is about to be deleted.
		}
	}
	for _, m := range s.members() {
		if m.Learner {
			learners++
			continue
		}
		voters++
		for name, p := range s.procs {
			if p.Disk.MemberID == m.ID && pods[name] && s.net.Voting(p) {
				up++
			}
		}
	}
	return voters, up, learners
}

// guard fails the test when a write of an operator costs the quorum, changes two members at a time, or deletes what it must not.
func (s *stage) guard(c *call) func(error) {
	s.t.Helper()
	s.past.catchUp()
	if c.object != nil {
		s.guardDeletion(c)
	}
	voters, up, _ := s.quorum()
	// A restore in place ends all members on purpose, and so does hibernation.
	safe := s.led == 1 && !s.hibernates() && voters > 1 && up >= etcd.Quorum(voters)
	return func(err error) {
		s.past.catchUp()
		voters, up, learners := s.quorum()
		if err == nil && safe && up < etcd.Quorum(voters) {
			s.t.Errorf("%s leaves %d of %d voters", c, up, voters)
		}
		if learners > 1 {
			s.t.Errorf("%s makes %d learners", c, learners)
		}
	}
}

// hibernates reports whether the user wants no member to run.
func (s *stage) hibernates() bool {
	for _, o := range s.past.state("EtcdCluster", s.past.now()) {
		if o.(*v1alpha1.EtcdCluster).IsHibernated() { //nolint:forcetypeassert // There are no others of that kind.
			return true
		}
	}
	return false
}

// guardDeletion wants a deletion to be of the very object that was decided on, and a claim not to be that of a member.
func (s *stage) guardDeletion(c *call) {
	s.t.Helper()
	if !conditional(c) {
		s.t.Errorf("%s deletes whatever has that name", c)
	}
	claim, ok := c.object.(*corev1.PersistentVolumeClaim)
	if !ok || s.past.another(claim, c.options) {
		return
	}
	pod := strings.TrimPrefix(claim.Name, cluster.VolumeData+"-")
	disk := s.disks[pod]
	if disk == nil {
		return
	}
	if _, listed, _ := s.net.Members(disk); listed {
		s.t.Errorf("%s deletes the data of a member", c)
	}
}

// another reports whether what has the name of an object is not the one that is to be deleted.
func (p *past) another(o client.Object, how *client.DeleteOptions) bool {
	live := p.present[kindOf(o)][client.ObjectKeyFromObject(o)]
	return live == nil || (how.Preconditions != nil && how.Preconditions.UID != nil && *how.Preconditions.UID != live.GetUID())
}

// conditional reports whether a deletion names the object by more than its name.
func conditional(c *call) bool {
	p := c.options.Preconditions
	return p != nil && (p.UID != nil || p.ResourceVersion != nil)
}

// etcdScenes are the workloads on stages that are guarded.
func etcdScenes() map[string]workload {
	out := map[string]workload{}
	for name, work := range etcdWorkloads {
		out[name] = workload{
			build: func(t *testing.T) scene {
				t.Helper()
				s := newStage(t, persistent())
				s.wire.guard = s.guard
				return s
			},
			work: func(s scene) { work(s.(*stage)) }, //nolint:forcetypeassert // It was built above.
		}
	}
	out["authority replaced"] = workload{
		build: func(t *testing.T) scene {
			t.Helper()
			s := newTimed(t, persistent())
			s.wire.guard = s.guard
			return s
		},
		work: func(s scene) { s.(*timed).rotate() }, //nolint:forcetypeassert // It was built above.
	}
	return out
}

func (s *timed) round() { s.pass() }

// sweeps are all that goes wrong, one thing at a time.
var sweeps = map[string]struct {
	points func(ending) []point
	// sparse is how many times fewer points there are in a sample.
	sparse int
}{
	"crash":                  {crashes, 6},
	"lost answer":            {lostAnswers, 6},
	"refusal":                {rejections, 60},
	"two operators":          {overtaken, 30},
	"cache of another time":  {travels, 12},
	"cache that is late":     {delays, 30},
	"events that nobody saw": {misses, 6},
	"storm of events":        {storms, 6},
}

// Whatever goes wrong once at any moment, the end is the same as if it had not, and nothing is made or deleted on the way that would not
// have been.
func TestEtcdEndsTheSameWhateverGoesWrongOnce(t *testing.T) {
	t.Parallel()
	for _, c := range combinations(t, etcdScenes()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sweep(t, c.load, c.sparse, c.points)
		})
	}
}

// etcdCast is an EtcdCluster with what can be done to it.
func etcdCast() cast {
	edit := func(change func(*v1alpha1.EtcdClusterSpec)) operation {
		return operation{settings: true, begin: func(s scene) { s.(*stage).edit(change) }} //nolint:forcetypeassert // It was built below.
	}
	on := func(do func(*stage)) operation {
		return operation{begin: func(s scene) { do(s.(*stage)) }} //nolint:forcetypeassert // It was built below.
	}
	return cast{
		build: func(t *testing.T) scene {
			t.Helper()
			s := newStage(t, persistent(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chosen"}, Data: map[string][]byte{PasswordKey: []byte("chosen")},
			})
			s.wire.guard = s.guard
			return s
		},
		ready:   func(s scene) { s.(*stage).untilReady() },                   //nolint:forcetypeassert // It was built above.
		cluster: func(s scene) client.Object { return s.(*stage).cluster() }, //nolint:forcetypeassert // It was built above.
		operations: map[string]operation{
			"created":    on(func(*stage) {}),
			"scaled out": edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 5 }),
			"scaled in":  edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Size = 1 }),
			"upgraded":   edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" }),
			"configured": edit(func(spec *v1alpha1.EtcdClusterSpec) {
				spec.Config = &v1alpha1.EtcdConfig{SnapshotCount: new(int64(5000))}
			}),
			"member replaced":  on((*stage).spoil),
			"stored elsewhere": edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Storage.Size = resource.MustParse("2Gi") }),
			"authority replaced": edit(func(spec *v1alpha1.EtcdClusterSpec) {
				spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{After: &metav1.Time{Time: stageNow}}}
			}),
			"password changed": edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Auth = &v1alpha1.AuthSpec{SecretName: new("chosen")} }),
			"made again":       on((*stage).recreate),
		},
		takeBack: on(func(s *stage) { s.edit(func(spec *v1alpha1.EtcdClusterSpec) { *spec = persistent().Spec }) }),
	}
}

// spoil gives a member other data than the others have, where those are the majority that knows what is right.
func (s *stage) spoil() {
	if p := s.procs["orders-1"]; p != nil && len(s.members()) > 2 {
		_ = s.net.RaiseCorrupt(p, true) // Or it has no quorum, and nothing is found out.
	}
}

// Whatever a user begins while something else is under way, the cluster ends as a new one would that was made so, without his help.
func TestEtcdOperationsMeet(t *testing.T) {
	t.Parallel()
	pairs(t, etcdCast())
}

func TestEtcdIsDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	goodbyes(t, etcdCast())
}
