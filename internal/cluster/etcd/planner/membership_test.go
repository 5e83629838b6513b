package planner_test

import (
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// of is a settled cluster of n members, of which orders-1 leads, or the only one.
func of(n int, change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		if n == 1 {
			single(s)
		} else {
			s.Want.Size, s.Record.Members, s.Set.Replicas = n, s.Want.Peers[:n], n
			for i := len(s.Pods); i < n; i++ {
				p, m, c := s.Pods[0], s.Members[0], s.Claims[0]
				peer, id := s.Want.Peers[i], uint64(i+1)
				v := *p.Status
				v.MemberID = id
				p.Name, p.UID, p.Ordinal, p.Status = peer.Name, "uid-"+peer.Name, i, &v
				m.ID, m.Name, m.PeerURL = id, peer.Name, peer.URL
				c.Name, c.UID, c.Ordinal = "data-"+peer.Name, "claim-of-"+peer.Name, i
				s.Pods, s.Members, s.Claims = append(s.Pods, p), append(s.Members, m), append(s.Claims, c)
			}
			s.Pods, s.Members, s.Claims = s.Pods[:n], s.Members[:n], s.Claims[:n]
		}
		if change != nil {
			change(s)
		}
	})
}

// down makes a member not answer.
func down(s *model.State, i int) *model.Pod {
	p := &s.Pods[i]
	p.Ready, p.Status = false, nil
	return p
}

// joining is a cluster of two members whose third is on its way in: a learner with a pod.
func joining(change func(*model.State)) model.State {
	return of(3, func(s *model.State) {
		s.Members[2].Learner, s.Members[2].Name, s.Members[2].Published = true, "", false
		p := down(s, 2)
		p.EverRan = false
		if change != nil {
			change(s)
		}
	})
}

// left is a cluster of three members of which the third is not listed any more, but has everything else.
func left(change func(*model.State)) model.State {
	return of(3, func(s *model.State) {
		s.Members = s.Members[:2]
		down(s, 2)
		if change != nil {
			change(s)
		}
	})
}
