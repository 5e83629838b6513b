package etcd_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestNextRefusesWhatIsNotItsCluster(t *testing.T) {
	runRows(t, map[string]planRow{
		"a settled cluster is left alone": {state: settled(nil)},
		"a member whose peers have not answered yet is waited for": {
			state: settled(func(s *etcd.State) {
				s.Pods[0].View, s.Pods[0].Ready, s.Pods[0].Gate = nil, false, held(etcd.GateNoPeers)
			}),
			reason: etcd.ReasonMembersNotReady, says: "is held back",
		},
		"a loss of all disks is reported": {
			state: settled(func(s *etcd.State) {
				s.Members = nil
				emptyDisks(s)
			}),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "no member has data",
		},
		"another spelling of the members is refused": {
			state: settled(func(s *etcd.State) {
				s.Want.Peers = etcd.Peers("orders", "default", "example.org", etcd.MaxSize, true)
				s.Record.ClusterID = 0
			}),
			reason: etcd.ReasonMembership, stalled: true, says: "set the DNS domain of the Kubernetes cluster back",
		},
		"a member that somebody added is refused": {
			state: settled(func(s *etcd.State) {
				s.Members = append(s.Members, etcd.Member{ID: 9, PeerURL: "https://elsewhere:2380", Learner: true})
			}),
			reason: etcd.ReasonMembership, stalled: true, says: "etcdctl member remove 9",
		},
		"other storage is refused": {
			state:  settled(func(s *etcd.State) { s.Want.StorageChanged = true }),
			reason: etcd.ReasonStorage, stalled: true,
		},
		"a full database does not hold up the larger quota": {
			state: settled(func(s *etcd.State) {
				alarm("NOSPACE")(s)
				s.Want.TemplateHash = "next"
			}),
			step: deletion("orders-2"),
		},
		"members that differ stop everything": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				s.Want.TemplateHash = "next"
			}),
			reason: etcd.ReasonAlarm, stalled: true, says: "CORRUPT for orders-2",
		},
		"a member that is not ready is waited for": {
			state:  settled(func(s *etcd.State) { s.Pods[2].Ready = false }),
			reason: etcd.ReasonMembersNotReady, says: "2 of 3 members are ready: orders-2 is not ready yet",
		},
	})
}
