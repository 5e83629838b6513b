// Package etcdclient implements etcd.Client with the official Go client. It translates calls and answers, and decides
// nothing.
package etcdclient

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/login"
)

// bufferSize of a connection, each way, in bytes. gRPC takes 32 KiB by default.
const bufferSize = 4 << 10

// maxMembers bounds the member list: the planner compares members with each other. etcd recommends
// seven, and the API allows nine.
const maxMembers = 64

// silence is after which time without a word a member that is to answer is asked whether it is there. That is waited for half as long.
const silence = 10 * time.Second

// tokenLife is how long a token of ours is good for: as long as those of the members.
const tokenLife = time.Hour

// errLearner is what a learner answers to all but questions for its status and for what it has itself.
var errLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

// Config says how to reach one member and as whom.
type Config struct {
	// Host is the name in the member's certificate.
	Host string
	// TLS is nil for plain text. The server name is filled in.
	TLS *tls.Config
	// Password of root. It is not used when the certificate in TLS is root's own: that needs no quorum, and works
	// whether authentication is on or not.
	Password string
	// Former password of root, used where Password is refused: etcd may not have got the new one yet. Empty: there is none.
	Former string
	// SigningKey is what members sign tokens with. A learner lets nobody log in, and whoever has only the password is let in there
	// by a token. Empty: there is none.
	SigningKey string
	// Dial connects to the client port of the member.
	Dial func(ctx context.Context) (net.Conn, error)
	// Called is told of every RPC by its name, and of every connection as dial: how long it took, and with which error it ended.
	// Nil: nobody wants to know.
	Called func(call string, took time.Duration, err error)
	// Now is the clock by which a refused password is held back. Nil: that of the machine.
	Now func() time.Time
}

// called is told how a call went that began at a time.
func (c Config) called(call string, began time.Time, err error) {
	if c.Called != nil {
		c.Called(call, time.Since(began), err)
	}
}

// dial connects.
func (c Config) dial(ctx context.Context, _ string) (net.Conn, error) {
	began := time.Now()
	conn, err := c.Dial(ctx)
	c.called("dial", began, err)
	return conn, err
}

// unary makes one RPC. The name of its method is the last part of what gRPC calls it.
func (c Config) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	began := time.Now()
	err := invoke(ctx, method, request, reply, conn, opts...)
	c.called(path.Base(method), began, err)
	return err
}

// Client talks to one member. Connections are made at the first call.
type Client struct {
	cfg Config
	// refusals holds back what the member refused. With TLS it holds nothing: the member proves its identity first.
	refusals login.Server

	mu   sync.Mutex
	conn *clientv3.Client
	// byToken says that the connection was made with a token.
	byToken bool
}

var _ etcd.Client = (*Client)(nil)

// New returns a client. It connects lazily, so it cannot fail.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg}
	if cfg.Now == nil {
		c.cfg.Now = time.Now
	}
	if cfg.TLS == nil {
		c.refusals = login.Server{Refusals: &login.Refusals{}, Process: cfg.Host, Now: c.cfg.Now}
	}
	return c
}

// IsRoot reports whether the certificate of a TLS configuration makes its holder etcd's root.
func IsRoot(cfg *tls.Config) bool {
	return cfg != nil && len(cfg.Certificates) > 0 && cfg.Certificates[0].Leaf != nil &&
		cfg.Certificates[0].Leaf.Subject.CommonName == etcd.RootUser
}

// Close releases the connection.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn, c.byToken = nil, false
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// connect returns the connection, made on first use: as root by certificate, by password, by token where nobody can log in, or as
// nobody when authentication is off.
func (c *Client) connect(ctx context.Context) (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		return c.conn, nil
	}
	password := c.cfg.Password
	if IsRoot(c.cfg.TLS) {
		password = ""
	}
	conn, err := c.logIn(ctx, password)
	byToken := c.cfg.SigningKey != "" && errors.Is(err, errLearner)
	if byToken {
		conn, err = c.openByToken(ctx)
	}
	if err != nil {
		return nil, err
	}
	c.conn, c.byToken = conn, byToken
	return conn, nil
}

// logIn opens a connection with a password, empty for none. A wrong password still lets us read the member list, and find out that
// it is wrong: the connection is without one then.
func (c *Client) logIn(ctx context.Context, password string) (*clientv3.Client, error) {
	passwords := []string{password, c.cfg.Former}
	if password == "" {
		passwords = nil
	}
	for _, p := range passwords {
		if p == "" || c.refusals.Held(etcd.RootUser, p) {
			continue
		}
		conn, err := c.open(ctx, p, "")
		if err == nil {
			c.refusals.Accept()
		}
		if !errors.Is(err, rpctypes.ErrAuthFailed) {
			return conn, err
		}
		c.refusals.Refuse(etcd.RootUser, p)
	}
	return c.open(ctx, "", "")
}

// openByToken opens a connection with a token as members give them out (server/auth/jwt.go). The revision of users and roles in it
// stays 0: it is good for the status, and for no key.
func (c *Client) openByToken(ctx context.Context) (*clientv3.Client, error) {
	claims := jwt.MapClaims{"username": etcd.RootUser, "revision": 0, "exp": time.Now().Add(tokenLife).Unix()}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(c.cfg.SigningKey))
	if err != nil {
		return nil, fmt.Errorf("sign a token: %w", err)
	}
	return c.open(ctx, "", token)
}

// asRoot runs a call that only root may make. A connection from before authentication was on has no token, and etcd
// then goes by the name in the certificate, which may be anybody's; one from before the password changed has another
// password. Either is made anew once.
func (c *Client) asRoot(ctx context.Context, call func(*clientv3.Client) error) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	err = call(conn)
	if c.cfg.Password == "" || IsRoot(c.cfg.TLS) || !denied(err) {
		return err
	}
	_ = c.Close() // The connection is of no use.
	if conn, err = c.connect(ctx); err != nil {
		return err
	}
	return call(conn)
}

func denied(err error) bool {
	for _, e := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserNotFound, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthFailed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (c *Client) open(ctx context.Context, password, token string) (*clientv3.Client, error) {
	scheme := "http"
	var secure *tls.Config
	if c.cfg.TLS != nil {
		scheme = "https"
		secure = c.cfg.TLS.Clone()
		secure.ServerName = c.cfg.Host
	}
	cfg := clientv3.Config{
		Endpoints:   []string{etcd.ClientURL(scheme, c.cfg.Host)},
		TLS:         secure,
		Token:       token,
		DialTimeout: timeLeft(ctx),
		// Otherwise a connection is believed in as long after the network has healed as it was broken before: a client is kept between passes.
		DialKeepAliveTime: silence, DialKeepAliveTimeout: silence / 2,
		Logger: zap.NewNop(), // Errors are returned; retries are not worth a line each.
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(c.cfg.dial),
			grpc.WithChainUnaryInterceptor(c.cfg.unary),
			// A member that comes back must not have to wait for the back-off of its bad days.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
				MinConnectTimeout: time.Second,
			}),
			grpc.WithNoProxy(),
			// A client of every member is kept between passes. What they say is short.
			grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize),
		},
	}
	if password != "" {
		cfg.Username, cfg.Password = etcd.RootUser, password
	}
	conn, err := NewBounded(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.cfg.Host, err)
	}
	return conn, nil
}

// timeLeft turns a deadline into the time limit that the client wants for its first authentication.
func timeLeft(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return max(time.Until(at), time.Millisecond)
	}
	return 2 * time.Second
}

// Status of this member. A client whose password was wrong tries it again: it may be right by then. Without TLS it waits before, see
// login.Refusals.
func (c *Client) Status(ctx context.Context) (etcd.View, error) {
	var r *pb.StatusResponse
	err := c.asRoot(ctx, func(conn *clientv3.Client) (err error) {
		// Not conn.Status: it makes a connection of its own each time, to be able to ask any endpoint.
		r, err = clientv3.RetryMaintenanceClient(conn, conn.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
		return clientv3.ContextError(ctx, err)
	})
	if errors.Is(err, rpctypes.ErrUserEmpty) {
		_ = c.Close() // It was made without the password.
		return etcd.View{}, fmt.Errorf("status of %s: %w", c.cfg.Host, etcd.ErrPassword)
	}
	if err != nil {
		return etcd.View{}, fmt.Errorf("status of %s: %w", c.cfg.Host, err)
	}
	if r.GetHeader() == nil {
		return etcd.View{}, fmt.Errorf("status of %s: the answer has no header", c.cfg.Host)
	}
	c.outgrow(r.IsLearner)
	storage, _ := etcd.ParseVersion(r.StorageVersion) // Before 3.6 there is none.
	downgrade := ""
	if r.DowngradeInfo != nil && r.DowngradeInfo.Enabled {
		downgrade = r.DowngradeInfo.TargetVersion
	}
	return etcd.View{
		Storage: storage, Downgrade: downgrade,
		MemberID: r.Header.MemberId, ClusterID: r.Header.ClusterId, Leader: r.Leader, Learner: r.IsLearner,
		Version: r.Version, DBSize: r.DbSize, DBInUse: r.DbSizeInUse,
		Revision: r.Header.Revision, Applied: r.RaftAppliedIndex, Alarms: alarms(r.Errors),
	}, nil
}

// outgrow drops a connection by token once the member has a vote: it lets us log in then.
func (c *Client) outgrow(learner bool) {
	c.mu.Lock()
	byToken := c.byToken
	c.mu.Unlock()
	if byToken && !learner {
		_ = c.Close()
	}
}

// alarms reads the alarms out of the errors in a status, which holds them as the text of an AlarmMember. Asking for
// them in so many words would cost an entry in the raft log each time. An alarm without a member id is one of the whole
// cluster: no majority of the members has the same data.
func alarms(errs []string) []etcd.Alarm {
	var out []etcd.Alarm
	for _, e := range errs {
		var a etcd.Alarm
		for _, field := range strings.Fields(e) {
			if id, ok := strings.CutPrefix(field, "memberID:"); ok {
				a.MemberID, _ = strconv.ParseUint(id, 10, 64)
			}
			if typ, ok := strings.CutPrefix(field, "alarm:"); ok {
				a.Type = typ
			}
		}
		if a.Type != "" {
			out = append(out, a)
		}
	}
	return out
}

// Members reads the member list through the quorum.
func (c *Client) Members(ctx context.Context) ([]etcd.Member, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	r, err := conn.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("member list of %s: %w", c.cfg.Host, err)
	}
	out, err := membersOf((*pb.MemberListResponse)(r))
	if err != nil {
		return nil, fmt.Errorf("member list of %s: %w", c.cfg.Host, err)
	}
	return out, nil
}

func membersOf(r *pb.MemberListResponse) ([]etcd.Member, error) {
	if n := len(r.Members); n > maxMembers {
		return nil, fmt.Errorf("it has %d members", n)
	}
	out := make([]etcd.Member, 0, len(r.Members))
	for _, m := range r.Members {
		out = append(out, member(m))
	}
	return out, nil
}

func member(m *pb.Member) etcd.Member {
	out := etcd.Member{ID: m.ID, Name: m.Name, Learner: m.IsLearner, Published: len(m.ClientURLs) > 0}
	if len(m.PeerURLs) > 0 {
		out.PeerURL = m.PeerURLs[0]
	}
	return out
}

// Auth tells whether authentication is on and the password is right. Only root may ask, so being denied is an answer.
func (c *Client) Auth(ctx context.Context, password string) (etcd.Auth, error) {
	var out etcd.Auth
	err := c.asRoot(ctx, func(conn *clientv3.Client) error {
		st, err := conn.AuthStatus(ctx)
		if err != nil {
			return err
		}
		out = etcd.Auth{Enabled: st.Enabled}
		if !st.Enabled || password == "" {
			return nil
		}
		if out.PasswordWorks, err = accepts(ctx, conn, password); err != nil || out.PasswordWorks {
			return err
		}
		out.Root = IsRoot(c.cfg.TLS)
		if !out.Root && c.cfg.Former != "" {
			out.Root, err = accepts(ctx, conn, c.cfg.Former)
		}
		return err
	})
	if denied(err) {
		return etcd.Auth{Enabled: true}, nil
	}
	if err != nil {
		return etcd.Auth{}, fmt.Errorf("ask %s about authentication: %w", c.cfg.Host, err)
	}
	return out, nil
}

// accepts tells whether root has a password. The token of a connection does not: one from before a change stays that of
// root.
func accepts(ctx context.Context, conn *clientv3.Client, password string) (bool, error) {
	_, err := conn.Authenticate(ctx, etcd.RootUser, password)
	if errors.Is(err, rpctypes.ErrAuthFailed) {
		return false, nil
	}
	return err == nil, err
}

// EnableAuth switches authentication on. What an earlier attempt has done already is not an error.
func (c *Client) EnableAuth(ctx context.Context, password string) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error { return enableAuth(ctx, conn, password) })
}

func enableAuth(ctx context.Context, conn *clientv3.Client, password string) error {
	if _, err := conn.RoleAdd(ctx, etcd.RootUser); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add role root: %w", err)
	}
	_, err := conn.UserAdd(ctx, etcd.RootUser, password)
	if errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		_, err = conn.UserChangePassword(ctx, etcd.RootUser, password)
	}
	if err != nil {
		return fmt.Errorf("add user root: %w", err)
	}
	if _, err := conn.UserGrantRole(ctx, etcd.RootUser, etcd.RootUser); err != nil {
		return fmt.Errorf("grant role root: %w", err)
	}
	if _, err := conn.AuthEnable(ctx); err != nil {
		return fmt.Errorf("enable authentication: %w", err)
	}
	return nil
}

// SetRootPassword changes the password of root.
func (c *Client) SetRootPassword(ctx context.Context, password string) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		if _, err := conn.UserChangePassword(ctx, etcd.RootUser, password); err != nil {
			return fmt.Errorf("change the password of root: %w", err)
		}
		return nil
	})
}

// MoveLeader makes another voter the leader.
func (c *Client) MoveLeader(ctx context.Context, to uint64) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		if _, err := conn.MoveLeader(ctx, to); err != nil {
			return fmt.Errorf("move leader: %w", err)
		}
		return nil
	})
}

// AddLearner adds a member without a vote.
func (c *Client) AddLearner(ctx context.Context, peerURL string) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.MemberAddAsLearner(ctx, []string{peerURL})
		if errors.Is(err, rpctypes.ErrPeerURLExist) || errors.Is(err, rpctypes.ErrMemberExist) {
			return nil
		}
		return reconfiguration(err, "add "+peerURL+" as learner")
	})
}

// Promote gives a learner its vote.
func (c *Client) Promote(ctx context.Context, id uint64) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.MemberPromote(ctx, id)
		switch {
		case errors.Is(err, rpctypes.ErrMemberNotLearner):
			return nil
		case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
			return etcd.ErrNotInSync
		}
		return reconfiguration(err, "promote "+etcd.FormatID(id))
	})
}

// RemoveMember takes a member out of the cluster.
func (c *Client) RemoveMember(ctx context.Context, id uint64) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.MemberRemove(ctx, id)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		return reconfiguration(err, "remove member "+etcd.FormatID(id))
	})
}

// UpdatePeer changes the peer URL of a member.
func (c *Client) UpdatePeer(ctx context.Context, id uint64, peerURL string) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.MemberUpdate(ctx, id, []string{peerURL})
		return reconfiguration(err, "change the peer URL of "+etcd.FormatID(id))
	})
}

// reconfiguration says what failed, and tells apart what etcd refuses for the moment only.
func reconfiguration(err error, what string) error {
	for _, e := range []error{rpctypes.ErrUnhealthy, rpctypes.ErrMemberNotEnoughStarted, rpctypes.ErrTooManyLearners} {
		if errors.Is(err, e) {
			return fmt.Errorf("%s: %w: %w", what, etcd.ErrNotNow, err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// maxVersionAnswer is far more than three version numbers.
const maxVersionAnswer = 4096

// ClusterVersion asks for /version, because the gRPC API does not tell it.
func (c *Client) ClusterVersion(ctx context.Context) (etcd.Version, error) {
	var v etcd.Version
	err := c.get(ctx, "/version", func(resp *http.Response) (err error) {
		var answer struct {
			Cluster string `json:"etcdcluster"`
		}
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxVersionAnswer)).Decode(&answer); err != nil {
			return fmt.Errorf("answer %s: %w", resp.Status, err)
		}
		v, err = etcd.ParseVersion(answer.Cluster)
		return err
	})
	if err != nil {
		return etcd.Version{}, fmt.Errorf("version of the cluster of %s: %w", c.cfg.Host, err)
	}
	return v, nil
}

// Vitals asks for /metrics, which the client port serves to everybody with a certificate, and takes the time from the header of the answer.
func (c *Client) Vitals(ctx context.Context) (etcd.Vitals, error) {
	var v etcd.Vitals
	began := time.Now()
	err := c.get(ctx, "/metrics", func(resp *http.Response) (err error) {
		told, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			return fmt.Errorf("time of the answer: %w", err)
		}
		if v, err = etcd.ParseVitals(resp.Body); err != nil {
			return fmt.Errorf("answer %s: %w", resp.Status, err)
		}
		v.Time = told
		return nil
	})
	c.cfg.called("metrics", began, err)
	if err != nil {
		return etcd.Vitals{}, fmt.Errorf("metrics of %s: %w", c.cfg.Host, err)
	}
	return v, nil
}

// get asks the member's HTTP server, on a connection of its own: it is seldom asked.
func (c *Client) get(ctx context.Context, path string, read func(*http.Response) error) error {
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, // To compress costs the member more than to send.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.cfg.Dial(ctx) },
	}
	scheme := "http"
	if c.cfg.TLS != nil {
		scheme, transport.TLSClientConfig = "https", c.cfg.TLS.Clone()
		transport.TLSClientConfig.ServerName = c.cfg.Host
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, etcd.ClientURL(scheme, c.cfg.Host)+path, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return read(resp)
}

// Downgrade tells the members to go back.
func (c *Client) Downgrade(ctx context.Context, to etcd.Version) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		for _, action := range []clientv3.DowngradeAction{clientv3.DowngradeValidate, clientv3.DowngradeEnable} {
			_, err := conn.Downgrade(ctx, action, fmt.Sprintf("%d.%d.0", to.Major, to.Minor))
			if errors.Is(err, rpctypes.ErrDowngradeInProcess) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("downgrade to %s: %w", to, err)
			}
		}
		return nil
	})
}

// CancelDowngrade ends a downgrade.
func (c *Client) CancelDowngrade(ctx context.Context) error {
	return c.asRoot(ctx, func(conn *clientv3.Client) error {
		_, err := conn.Downgrade(ctx, clientv3.DowngradeCancel, "")
		if err != nil && !errors.Is(err, rpctypes.ErrNoInflightDowngrade) {
			return fmt.Errorf("cancel the downgrade: %w", err)
		}
		return nil
	})
}
