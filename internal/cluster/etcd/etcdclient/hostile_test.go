package etcdclient_test

import (
	"context"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // The hostile member compresses.
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
)

// hostile answers without headers.
type hostile struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedClusterServer
	pb.UnimplementedAuthServer
}

func (hostile) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Version: "3.6.1"}, nil
}

func (hostile) AuthStatus(context.Context, *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return &pb.AuthStatusResponse{}, nil
}

func (hostile) MemberList(ctx context.Context, _ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{}, grpc.SetSendCompressor(ctx, "gzip")
}

// prepared answers a member list as it was encoded beforehand, so that the server, which is in the
// same process, allocates next to nothing.
type prepared struct {
	encoding.CodecV2
	members []byte
}

func (p prepared) Marshal(v any) (mem.BufferSlice, error) {
	if _, ok := v.(*pb.MemberListResponse); ok {
		return mem.BufferSlice{mem.SliceBuffer(p.members)}, nil
	}
	return p.CodecV2.Marshal(v)
}

func startHostile(t *testing.T, members []*pb.Member) *etcdclient.Client {
	t.Helper()
	return startHostileWith(t, members, hostile{}, etcdclient.Config{})
}

func startHostileWith(t *testing.T, members []*pb.Member, auth pb.AuthServer, cfg etcdclient.Config) *etcdclient.Client {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(&pb.MemberListResponse{Members: members})
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxSendMsgSize(1<<30), grpc.ForceServerCodecV2(prepared{encoding.GetCodecV2("proto"), raw}))
	pb.RegisterMaintenanceServer(s, hostile{})
	pb.RegisterClusterServer(s, hostile{})
	pb.RegisterAuthServer(s, auth)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	cfg.Host = "member"
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
	c := etcdclient.New(cfg)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAnAnswerWithoutAHeaderIsAnErrorOfThatMember(t *testing.T) {
	c := startHostile(t, nil)
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "no header") {
		t.Errorf("status: error %v", err)
	}
	if _, err := c.Store(t.Context()); err == nil || !strings.Contains(err.Error(), "no header") {
		t.Errorf("state of the users: error %v", err)
	}
}

func TestAMemberListThatExpandsIsRefusedAndCostsLittle(t *testing.T) {
	c := startHostile(t, []*pb.Member{{Name: strings.Repeat("a", 128<<20)}})
	if _, err := c.Status(t.Context()); err == nil { // It connects.
		t.Error("a status without header is accepted")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.Members(t.Context())
	runtime.ReadMemStats(&after)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("error %v, want ResourceExhausted", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
		t.Errorf("%d bytes were allocated", got)
	}
}

func TestAListOfTooManyMembersIsRefused(t *testing.T) {
	c := startHostile(t, slices.Repeat([]*pb.Member{{Name: "a"}}, 1000))
	if _, err := c.Members(t.Context()); err == nil || !strings.Contains(err.Error(), "1000 members") {
		t.Errorf("error %v", err)
	}
}

// collector refuses every password, and keeps it.
type collector struct {
	hostile
	mu        sync.Mutex
	passwords []string
}

func (c *collector) Authenticate(_ context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passwords = append(c.passwords, r.Password)
	return nil, rpctypes.ErrGRPCAuthFailed
}

func (c *collector) AuthStatus(context.Context, *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return nil, rpctypes.ErrGRPCUserEmpty
}

func TestAClearPasswordIsNotSentAgainToAMemberThatRefusedIt(t *testing.T) {
	m := &collector{}
	c := startHostileWith(t, nil, m, etcdclient.Config{Password: "next", Former: "former"})
	for range 3 { // Each call is denied, and makes its connection again.
		if a, err := c.Auth(t.Context(), ""); err != nil || !a.Enabled {
			t.Errorf("%+v, error %v", a, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := strings.Join(m.passwords, " "); got != "next former" {
		t.Errorf("sent %q, want each password once", got)
	}
}
