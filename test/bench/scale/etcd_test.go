package scale

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// etcdMember answers for one member in the protocol of etcd. What is not here answers that it is unimplemented.
type etcdMember struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedClusterServer
	pb.UnimplementedAuthServer
	pb.UnimplementedKVServer

	// mu guards the cluster: the store in memory knows no two things at a time.
	mu   *sync.Mutex
	net  *etcdfake.Network
	proc *etcdfake.Process
	// password that root is about to get.
	password string
}

// metricsSize is how much a member tells of itself: about as much as etcd 3.6 does.
const metricsSize = 100 << 10

// metricsText is what a member with a quick disk tells.
var metricsText = sync.OnceValue(func() string {
	var b strings.Builder
	for i := 0; b.Len() < metricsSize; i++ {
		fmt.Fprintf(&b, "grpc_server_handled_total{grpc_code=\"Code%d\",grpc_method=\"Method\",grpc_service=\"etcdserverpb.Service\",grpc_type=\"unary\"} 0\n", i)
	}
	for _, family := range []string{"etcd_disk_wal_fsync_duration_seconds", "etcd_disk_backend_commit_duration_seconds"} {
		fmt.Fprintf(&b, "%s_bucket{le=\"0.001\"} 1\n%[1]s_bucket{le=\"+Inf\"} 1\n", family)
	}
	return b.String()
})

// handler serves gRPC and what etcd serves beside it.
func (m *etcdMember) handler() http.Handler {
	rpc := grpc.NewServer()
	pb.RegisterMaintenanceServer(rpc, m)
	pb.RegisterClusterServer(rpc, m)
	pb.RegisterAuthServer(rpc, m)
	pb.RegisterKVServer(rpc, m)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
			rpc.ServeHTTP(w, r)
		case r.URL.Path == "/metrics":
			_, _ = w.Write([]byte(metricsText()))
		case r.URL.Path == "/version":
			v, _ := m.client(r.Context()).ClusterVersion(r.Context())
			_, _ = fmt.Fprintf(w, `{"etcdserver":%q,"etcdcluster":"%d.%d.0"}`, v, v.Major, v.Minor)
		default:
			http.NotFound(w, r)
		}
	})
}

// client is the one that has made the call.
func (m *etcdMember) client(ctx context.Context) *etcdfake.Client {
	c := &etcdfake.Client{Network: m.net, Process: m.proc, TLS: true}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
			c.Root = info.State.PeerCertificates[0].Subject.CommonName == model.RootUser
		}
	}
	return c
}

// call locks the cluster and makes a call.
func call[T any](ctx context.Context, m *etcdMember, ask func(*etcdfake.Client) (T, error)) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, err := ask(m.client(ctx))
	return out, wire(err)
}

// do makes a call that only succeeds or fails.
func do(ctx context.Context, m *etcdMember, ask func(*etcdfake.Client) error) (*pb.ResponseHeader, error) {
	return call(ctx, m, func(c *etcdfake.Client) (*pb.ResponseHeader, error) { return &pb.ResponseHeader{}, ask(c) })
}

// wire is an error as etcd sends it.
func wire(err error) error {
	for is, as := range map[error]error{
		model.ErrNotNow: rpctypes.ErrGRPCUnhealthy, model.ErrNotInSync: rpctypes.ErrGRPCLearnerNotReady,
		model.ErrPassword: rpctypes.ErrGRPCUserEmpty, etcdfake.ErrDenied: rpctypes.ErrGRPCPermissionDenied,
	} {
		if errors.Is(err, is) {
			return as
		}
	}
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// Status of the member.
func (m *etcdMember) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	return call(ctx, m, func(c *etcdfake.Client) (*pb.StatusResponse, error) {
		v, err := c.Status(ctx)
		if err != nil {
			return nil, err
		}
		return &pb.StatusResponse{
			Header:  &pb.ResponseHeader{ClusterId: v.ClusterID, MemberId: v.MemberID, Revision: v.Revision},
			Version: v.Version, Leader: v.Leader, IsLearner: v.Learner, StorageVersion: v.Storage.String(),
			DbSize: v.DBSize, DbSizeInUse: v.DBInUse, RaftAppliedIndex: v.Applied, RaftIndex: v.Applied,
		}, nil
	})
}

// MemberList through the quorum.
func (m *etcdMember) MemberList(ctx context.Context, _ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return call(ctx, m, func(c *etcdfake.Client) (*pb.MemberListResponse, error) {
		all, err := c.Members(ctx)
		out := &pb.MemberListResponse{Header: &pb.ResponseHeader{}}
		for _, each := range all {
			p := &pb.Member{ID: each.ID, Name: each.Name, PeerURLs: []string{each.PeerURL}, IsLearner: each.Learner}
			if each.Published {
				p.ClientURLs = []string{"https://" + each.Name}
			}
			out.Members = append(out.Members, p)
		}
		return out, err
	})
}

// MemberAdd adds learners.
func (m *etcdMember) MemberAdd(ctx context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	h, err := do(ctx, m, func(c *etcdfake.Client) error { return c.AddLearner(ctx, r.PeerURLs[0]) })
	return &pb.MemberAddResponse{Header: h, Member: &pb.Member{}}, err
}

// MemberPromote gives a learner its vote.
func (m *etcdMember) MemberPromote(ctx context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	h, err := do(ctx, m, func(c *etcdfake.Client) error { return c.Promote(ctx, r.ID) })
	return &pb.MemberPromoteResponse{Header: h}, err
}

// MemberRemove takes a member out.
func (m *etcdMember) MemberRemove(ctx context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	h, err := do(ctx, m, func(c *etcdfake.Client) error { return c.RemoveMember(ctx, r.ID) })
	return &pb.MemberRemoveResponse{Header: h}, err
}

// MoveLeader hands over.
func (m *etcdMember) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	h, err := do(ctx, m, func(c *etcdfake.Client) error { return c.MoveLeader(ctx, r.TargetID) })
	return &pb.MoveLeaderResponse{Header: h}, err
}

// HashKV of the data.
func (m *etcdMember) HashKV(ctx context.Context, r *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	return call(ctx, m, func(c *etcdfake.Client) (*pb.HashKVResponse, error) {
		h, err := c.HashKV(ctx, r.Revision)
		return &pb.HashKVResponse{Header: &pb.ResponseHeader{}, Hash: h.Sum, CompactRevision: h.CompactRevision, HashRevision: h.Revision}, err
	})
}

// AuthStatus tells whether passwords are asked for.
func (m *etcdMember) AuthStatus(ctx context.Context, _ *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return call(ctx, m, func(c *etcdfake.Client) (*pb.AuthStatusResponse, error) {
		a, err := c.Auth(ctx, "")
		return &pb.AuthStatusResponse{Header: &pb.ResponseHeader{}, Enabled: a.Enabled}, err
	})
}

// Authenticate tells whether a password is right.
func (m *etcdMember) Authenticate(ctx context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return call(ctx, m, func(c *etcdfake.Client) (*pb.AuthenticateResponse, error) {
		a, err := c.Auth(ctx, r.Password)
		if err == nil && !a.PasswordWorks {
			return nil, rpctypes.ErrGRPCAuthFailed
		}
		return &pb.AuthenticateResponse{Header: &pb.ResponseHeader{}, Token: "token"}, err
	})
}

// RoleAdd knows only that of root, which comes with its user.
func (m *etcdMember) RoleAdd(context.Context, *pb.AuthRoleAddRequest) (*pb.AuthRoleAddResponse, error) {
	return &pb.AuthRoleAddResponse{Header: &pb.ResponseHeader{}}, nil
}

// UserAdd remembers the password of root until authentication is switched on.
func (m *etcdMember) UserAdd(_ context.Context, r *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.password = r.Password
	return &pb.AuthUserAddResponse{Header: &pb.ResponseHeader{}}, nil
}

// UserGrantRole is for root, which has it.
func (m *etcdMember) UserGrantRole(context.Context, *pb.AuthUserGrantRoleRequest) (*pb.AuthUserGrantRoleResponse, error) {
	return &pb.AuthUserGrantRoleResponse{Header: &pb.ResponseHeader{}}, nil
}

// AuthEnable switches authentication on.
func (m *etcdMember) AuthEnable(ctx context.Context, _ *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	h, err := do(ctx, m, func(c *etcdfake.Client) error { return c.EnableAuth(ctx, m.password) })
	return &pb.AuthEnableResponse{Header: h}, err
}
