package planner_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextRefusesWhatIsNotItsCluster(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a settled cluster is left alone": {state: settled(nil)},
		"a member whose peers have not answered yet is waited for": {
			state: settled(func(s *model.State) {
				s.Pods[0].Status, s.Pods[0].Ready, s.Pods[0].Gate = nil, false, held(model.GateNoPeers)
			}),
			reason: planner.ReasonMembersNotReady, says: "is held back",
		},
		"a loss of all disks is reported": {
			state: settled(func(s *model.State) {
				s.Members = nil
				emptyDisks(s)
			}),
			reason: steps.ReasonQuorumLost, stalled: true, says: "no member has data",
		},
		"another spelling of the members is refused": {
			state: settled(func(s *model.State) {
				s.Want.Peers = model.Peers("orders", "default", "example.org", model.MaxSize, true)
				s.Record.ClusterID = 0
			}),
			reason: planner.ReasonMembership, stalled: true, says: "set the DNS domain of the Kubernetes cluster back",
		},
		"a member that somebody added is refused": {
			state: settled(func(s *model.State) {
				s.Members = append(s.Members, model.Member{ID: 9, PeerURL: "https://elsewhere:2380", Learner: true})
			}),
			reason: planner.ReasonMembership, stalled: true, says: "etcdctl member remove 9",
		},
		"other storage is refused": {
			state:  settled(func(s *model.State) { s.Want.StorageChanged = true }),
			reason: planner.ReasonStorage, stalled: true,
		},
		"a full database does not hold up the larger quota": {
			state: settled(func(s *model.State) {
				alarm("NOSPACE")(s)
				s.Want.TemplateHash = "next"
			}),
			step: deletion("orders-2"),
		},
		"members that differ stop everything": {
			state: settled(func(s *model.State) {
				alarm("CORRUPT")(s)
				s.Want.TemplateHash = "next"
			}),
			reason: planner.ReasonAlarm, stalled: true, says: "CORRUPT for orders-2",
		},
		"a member that is not ready is waited for": {
			state:  settled(func(s *model.State) { s.Pods[2].Ready = false }),
			reason: planner.ReasonMembersNotReady, says: "2 of 3 members are ready: orders-2 is not ready yet",
		},
	})
}
