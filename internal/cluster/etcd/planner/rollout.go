package planner

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// restartStuck deletes a pod that cannot run and was made from an outdated template: the StatefulSet controller would
// never do it (OnDelete), and the change that cures the pod would never reach it. Such a pod serves
// nobody, so this is safe whatever else is known, unless its data would go with it.
func restartStuck(s model.State) (cluster.Plan, bool) {
	for _, p := range s.Pods {
		if !p.Stuck || p.Ready || p.Terminating || p.Status != nil || (!s.Outdated(p) && !p.OldRevision) {
			continue
		}
		if p.EverRan && !s.Want.Persistent && s.Known() && s.Want.RestoreInPlace == nil && !restoresInPlace(s) {
			if s.Members != nil {
				continue // Its data would go with it: see restartUnhealthy.
			}
			return cluster.Refuse(ReasonRollout, "%s %s, and the change that may cure it needs a restart, which would "+
				"delete the data of a member without spec.storage: delete the pod yourself to accept that", p.Name, p.Problem)
		}
		return cluster.Do(deletePod(p), "%s %s, and the specification has changed since", p.Name, p.Problem)
	}
	return cluster.Pass()
}

// restartLeaderless restarts a member that runs with outdated settings where there is no quorum by both accounts, the
// members' and the kubelets': the settings may be the cause, and a quorum that is not there cannot be lost. One at a
// time, because the first may be all that was missing.
func restartLeaderless(s model.State) (cluster.Plan, bool) {
	founding := !s.Known() && s.Record.Bootstrap == model.BootstrapNew
	noQuorum := s.Members == nil && readyPods(s) < model.Quorum(len(s.Record.Members))
	if !noQuorum || (!s.Want.Persistent && !founding) || anyYoung(s) {
		return cluster.Pass()
	}
	i := slices.IndexFunc(s.Pods, func(p model.Pod) bool {
		sameMinor := p.Version.Minor == s.Record.Version.Minor // With another one it may not start at all.
		return sameMinor && s.Outdated(p) && p.EverRan && !p.Ready && (p.Status == nil || p.Status.Leader == 0)
	})
	if i < 0 {
		return cluster.Pass()
	}
	victim := s.Pods[i]
	return cluster.Do(deletePod(victim), "no quorum of members answers; %s %s, and the specification has changed since",
		victim.Name, trouble(&victim))
}

// restartUnhealthy restarts a member that runs with outdated settings and is not well: they may be what makes it so, and a
// rollout waits for every member. It does no harm, because those that are well are a quorum without it. While a member
// with the wanted settings is not well, these are not proved yet.
func restartUnhealthy(s model.State) (cluster.Plan, bool) {
	voters, well := 0, 0
	var sick []model.Pod
	for _, m := range s.Members {
		p := s.Pod(m)
		fine := s.Healthy(m) && p.Ready
		if !m.Learner {
			voters++
			if fine {
				well++
			}
		}
		switch {
		case fine:
		case p == nil || p.Terminating || !s.Outdated(*p):
			return cluster.Pass()
		default:
			sick = append(sick, *p)
		}
	}
	if len(sick) == 0 || well < model.Quorum(voters) {
		return cluster.Pass()
	}
	p := sick[0]
	return restart(s, p, "%s %s, and the specification has changed since", p.Name, trouble(&p))
}

// refuseVersion stops a rollout whose first member turns out to run another minor version, as spec.image can make it:
// once all have it, etcd does not go back.
func refuseVersion(s model.State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		p := s.Pod(m)
		v, err := model.ParseVersion(p.Status.Version)
		if err != nil || s.Outdated(*p) || (v.Major == s.Record.Version.Major && v.Minor == s.Record.Version.Minor) {
			continue
		}
		return cluster.Refuse(ReasonVersion, "%s runs etcd %s, and spec.version is %s: set spec.image to an image of that version",
			p.Name, v, s.Record.Version)
	}
	return cluster.Pass()
}

// rollOut restarts the members that run with outdated settings, one at a time and only while all are well: followers
// first, from the highest ordinal down, then the leader after it has handed over.
func rollOut(s model.State) (cluster.Plan, bool) {
	leader := s.Leader()
	var outdated []model.Pod
	for _, m := range s.Members {
		if p := s.Pod(m); s.Outdated(*p) {
			outdated = append(outdated, *p)
		}
	}
	if len(outdated) == 0 || (len(s.Members) < 3 && s.Want.Size != len(s.Members)) {
		return cluster.Pass() // None of two members can be spared; with another size there are more, or only one is left.
	}
	if !s.Want.Persistent && len(s.Members) == 1 {
		return cluster.Refuse(ReasonRollout, "the change needs a restart, and without spec.storage the only member loses its "+
			"data with it: set the specification back, scale out first, or create the cluster again")
	}
	slices.SortFunc(outdated, func(a, b model.Pod) int { return b.Ordinal - a.Ordinal })
	for _, p := range outdated {
		if p.Name != s.Pod(*leader).Name {
			return restart(s, p, "%s, a follower, runs with outdated settings (%d to go)", p.Name, len(outdated))
		}
	}
	if plan, ok := handOver(s, *leader, "runs with outdated settings"); ok {
		return plan, true
	}
	p := outdated[0]
	return cluster.Do(deletePod(p), "%s, the only member, runs with outdated settings", p.Name)
}

// restart deletes the pod of a member. Without a disk that outlives it, the member leaves and joins again.
func restart(s model.State, p model.Pod, format string, args ...any) (cluster.Plan, bool) {
	if s.Want.Persistent {
		return cluster.Do(deletePod(p), format, args...)
	}
	m := s.Member(s.Want.Peers[p.Ordinal].URL)
	return cluster.Do(removeMember(s, *m), format, args...)
}

// successor is the healthy voter that is furthest with applying the log, the lowest ordinal among equals. One that stays is
// better than one that spec.size does not ask for, and then one whose node stays than one whose node is being emptied.
func successor(s model.State, leader uint64) *model.Member {
	var best *model.Member
	for i, m := range s.Members {
		if m.ID == leader || m.Learner || !s.Healthy(m) {
			continue
		}
		if best == nil || goesFirst(s, m, *best) {
			best = &s.Members[i]
		}
	}
	return best
}

// goesFirst reports whether one member is a better leader than another.
func goesFirst(s model.State, a, b model.Member) bool {
	if stays, other := s.Ordinal(a) < s.Want.Size, s.Ordinal(b) < s.Want.Size; stays != other {
		return stays
	}
	pa, pb := s.Pod(a), s.Pod(b)
	if stays, other := pa.Cordoned == "", pb.Cordoned == ""; stays != other {
		return stays
	}
	return pa.Status.Applied > pb.Status.Applied
}
