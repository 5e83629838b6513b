package planner

import (
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

func deletePod(p model.Pod) steps.DeletePod {
	return steps.DeletePod{Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Gone: p.Gone}
}

func dropBackup(b model.Backup) steps.DropBackup { return steps.DropBackup{Name: b.Name, UID: b.UID} }

func deleteClaim(c model.Claim) steps.DeleteClaim {
	return steps.DeleteClaim{Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion}
}

// removeMember is the step that takes a member out.
func removeMember(s model.State, m model.Member) steps.RemoveMember {
	i := s.Ordinal(m)
	out := steps.RemoveMember{ID: m.ID, Name: s.Want.Peers[i].Name, Via: via(s, m)}
	if p := s.Pod(m); p != nil {
		out.Pod = p.UID
	}
	if c := s.Claim(i); c != nil {
		out.Claim = c.UID
	}
	return out
}
