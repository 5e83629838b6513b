package etcdclient

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// FuzzMembers decodes member lists and the alarms of a status.
func FuzzMembers(f *testing.F) {
	list := &pb.MemberListResponse{Members: []*pb.Member{{ID: 1, Name: "orders-0", PeerURLs: []string{"http://a"}, ClientURLs: []string{"http://b"}}, {IsLearner: true}}}
	raw, err := proto.Marshal(list)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, "memberID:7 alarm:CORRUPT ")
	f.Add([]byte{}, "alarm: memberID:99999999999999999999")
	f.Fuzz(func(t *testing.T, raw []byte, alarm string) {
		alarms([]string{alarm})
		r := &pb.MemberListResponse{}
		if proto.Unmarshal(raw, r) != nil {
			return
		}
		if members, err := membersOf(r); err == nil && len(members) != len(r.Members) {
			t.Errorf("%d of %d members", len(members), len(r.Members))
		}
	})
}
