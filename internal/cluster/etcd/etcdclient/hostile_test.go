package etcdclient_test

import (
	"context"
	"net"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // The hostile member compresses.

	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
)

// hostile answers a status without header, and a member list that expands to 256 MiB.
type hostile struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedClusterServer
	list *pb.MemberListResponse
}

func (hostile) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Version: "3.6.1"}, nil
}

func (h hostile) MemberList(ctx context.Context, _ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return h.list, grpc.SetSendCompressor(ctx, "gzip")
}

func TestAHostileMemberIsAnErrorOfThatMember(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := hostile{list: &pb.MemberListResponse{Members: []*pb.Member{{Name: strings.Repeat("a", 32<<20)}}}}
	s := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	pb.RegisterMaintenanceServer(s, h)
	pb.RegisterClusterServer(s, h)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	c := etcdclient.New(etcdclient.Config{Host: "member", Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}})
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "no header") {
		t.Errorf("a status without header: error %v", err)
	}
	if _, err := c.Members(t.Context()); err == nil {
		t.Error("a member list of 256 MiB is accepted")
	}
}
