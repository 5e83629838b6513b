package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

func TestASnapshotIsTakenFromAFollowerThatIsAhead(t *testing.T) {
	member := func(id, applied uint64) *clientv3.StatusResponse {
		return (*clientv3.StatusResponse)(&pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: id}, Leader: 1, RaftAppliedIndex: applied})
	}
	leader, behind, ahead := member(1, 100), member(2, 90), member(3, 95)
	for name, tc := range map[string]struct {
		a, b *clientv3.StatusResponse
		want bool
	}{
		"a follower before the leader":     {behind, leader, true},
		"the leader not before a follower": {leader, behind, false},
		"the one that is ahead":            {ahead, behind, true},
		"not the one that is behind":       {behind, ahead, false},
	} {
		if got := better(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestABackupOfNobodySaysWhy(t *testing.T) {
	url, _ := aStore(t)
	dir := t.TempDir()
	r, err := runJob(t, runBackupEtcd, "--url="+url, "--directory=first", "--id=1", "--version=3.6.16", "--member=http://127.0.0.1:1",
		"--tls-dir="+dir, "--password-file="+filepath.Join(dir, "none"))
	if err == nil || r.Problem == nil || !strings.Contains(r.Problem.Message, "no member is well enough for a snapshot") {
		t.Errorf("%+v, %v", r.Problem, err)
	}
}

func TestThePodInTheURLOfAMember(t *testing.T) {
	if got := podOf("https://orders-1.orders-peers.shop.svc.cluster.local:2379"); got != "orders-1" {
		t.Errorf("%q", got)
	}
}

// headless answers a request for its status without a header.
type headless struct {
	pb.UnimplementedMaintenanceServer
}

func (headless) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Leader: 1}, nil
}

func TestAStatusWithoutAHeaderIsAnErrorOfThatMember(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterMaintenanceServer(s, headless{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	if _, _, err := ask(t.Context(), "http://"+l.Addr().String(), login{}); err == nil || !strings.Contains(err.Error(), "no header") {
		t.Errorf("error %v", err)
	}
}
