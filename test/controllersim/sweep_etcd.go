package controllersim

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// parts is nowhere when the cluster was Ready once: a sweep of that has to begin at the beginning.
func (s *Etcd) parts() ready {
	if s.first.turns == s.turns {
		return ready{}
	}
	return s.first
}

// Served makes a cluster that a client writes to.
func (s *Etcd) Served() {
	s.T.Helper()
	s.UntilReady()
	s.acknowledge()
}

// acknowledge makes a write of a client that must not be lost.
func (s *Etcd) acknowledge() {
	s.T.Helper()
	if err := s.Net.Put(s.Procs["orders-0"], s.password(), fmt.Sprint("acknowledged after write ", s.Writes)); err != nil {
		s.T.Fatal(err)
	}
}

// replaced is a member whose data differs from that of the others.
func (s *Etcd) replaced() {
	s.T.Helper()
	s.Served()
	odd := s.Procs["orders-1"]
	if err := s.Net.RaiseCorrupt(odd, true); err != nil {
		s.T.Fatal(err)
	}
	s.Restart()
	for range 60 {
		if now := s.Procs["orders-1"].Disk; now.MemberID != odd.Disk.MemberID {
			break
		}
		s.Round()
	}
	s.UntilReady()
	if now := s.Procs["orders-1"].Disk; now.MemberID == odd.Disk.MemberID || now.Differs {
		s.T.Error("the member with other data was not replaced")
	}
}

// Sound fails the test when data or a cluster was lost.
func (s *Etcd) Sound() {
	s.T.Helper()
	if lost := s.Net.Lost(); lost != "" {
		s.T.Errorf("lost is %s", lost)
	}
	if len(s.Net.Led) != s.led {
		s.T.Errorf("%d clusters have led instead of %d", len(s.Net.Led), s.led)
	}
}

// Members are those of the cluster as they know it themselves, none without a leader.
func (s *Etcd) Members() []model.Member {
	for _, p := range s.Procs {
		for _, tls := range []bool{true, false} {
			c := &etcdfake.Client{Network: s.Net, Process: p, TLS: tls, Root: true}
			if out, err := c.Members(s.T.Context()); err == nil {
				return out
			}
		}
	}
	return nil
}

// quorum counts the voters, and those of them that run in a pod that is to stay.
func (s *Etcd) quorum() (voters, up, learners int) {
	pods := map[string]bool{}
	for _, o := range s.Past.State("Pod", s.Past.Now()) {
		pods[o.GetName()] = o.GetDeletionTimestamp() == nil
	}
	for _, o := range s.Past.State("StatefulSet", s.Past.Now()) {
		set := o.(*appsv1.StatefulSet)
		for i := ptr.Deref(set.Spec.Replicas, 1); i < model.MaxSize; i++ {
			delete(pods, cluster.Pod(set.Name, int(i))) // It is about to be deleted.
		}
	}
	for _, m := range s.Members() {
		if m.Learner {
			learners++
			continue
		}
		voters++
		for name, p := range s.Procs {
			if p.Disk.MemberID == m.ID && pods[name] && s.Net.Voting(p) {
				up++
			}
		}
	}
	return voters, up, learners
}

// guard fails the test when a write of an operator costs the quorum, changes two members at a time, or deletes what it must not.
func (s *Etcd) guard(c *call) func(error) {
	s.T.Helper()
	s.Past.CatchUp()
	if c.object != nil {
		s.guardDeletion(c)
	}
	voters, up, _ := s.quorum()
	// A restore in place ends all members on purpose, and so does hibernation.
	safe := s.led == 1 && !s.hibernates() && voters > 1 && up >= model.Quorum(voters)
	return func(err error) {
		s.Past.CatchUp()
		voters, up, learners := s.quorum()
		if err == nil && safe && up < model.Quorum(voters) {
			s.T.Errorf("%s leaves %d of %d voters", c, up, voters)
		}
		if learners > 1 {
			s.T.Errorf("%s makes %d learners", c, learners)
		}
	}
}

// hibernates reports whether the user wants no member to run.
func (s *Etcd) hibernates() bool {
	for _, o := range s.Past.State("EtcdCluster", s.Past.Now()) {
		if o.(*v1alpha1.EtcdCluster).IsHibernated() { //nolint:forcetypeassert // There are no others of that kind.
			return true
		}
	}
	return false
}

// guardDeletion wants a deletion to be of the very object that was decided on, and a claim not to be that of a member.
func (s *Etcd) guardDeletion(c *call) {
	s.T.Helper()
	if !conditional(c) {
		s.T.Errorf("%s deletes whatever has that name", c)
	}
	claim, ok := c.object.(*corev1.PersistentVolumeClaim)
	if !ok || s.Past.Another(claim, c.options) {
		return
	}
	pod := strings.TrimPrefix(claim.Name, cluster.VolumeData+"-")
	disk := s.disks[pod]
	if disk == nil {
		return
	}
	if _, listed, _ := s.Net.Members(disk); listed {
		s.T.Errorf("%s deletes the data of a member", c)
	}
}

// conditional reports whether a deletion names the object by more than its name.
func conditional(c *call) bool {
	p := c.options.Preconditions
	return p != nil && (p.UID != nil || p.ResourceVersion != nil)
}

// Round makes a pass, after which the clock has moved.
func (s *TimedEtcd) Round() { s.Pass() }

// spoil gives a member other data than the others have, where those are the majority that knows what is right.
func (s *Etcd) spoil() {
	if p := s.Procs["orders-1"]; p != nil && len(s.Members()) > 2 {
		_ = s.Net.RaiseCorrupt(p, true) // Or it has no quorum, and nothing is found out.
	}
}
