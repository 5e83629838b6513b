package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
)

// askMemberTimeout bounds the question to one member. One that does not answer in time is not asked for a snapshot.
const askMemberTimeout = 5 * time.Second

// streamWindow is how many bytes of a snapshot a member sends ahead.
const streamWindow = 4 << 20

// etcdMembers are the members of a cluster, and what it takes to be let in.
type etcdMembers struct {
	members              []string
	tlsDir, passwordFile string
}

// flags names the members and where the credentials are.
func (s *etcdMembers) flags(fs *flag.FlagSet) {
	fs.Func("member", "client URL of a member; repeat for every one", func(url string) error {
		s.members = append(s.members, url)
		return nil
	})
	fs.StringVar(&s.tlsDir, "tls-dir", plan.AccessTLSDir, "directory with ca.crt, tls.crt and tls.key, if there is one")
	fs.StringVar(&s.passwordFile, "password-file", plan.AccessAuthDir+"/password", "file with the password of root, if there is one")
}

// podOf is the pod in the URL of a member.
func podOf(url string) string {
	_, host, _ := strings.Cut(url, "://")
	pod, _, _ := strings.Cut(host, ".")
	return pod
}

// choose returns the client of the member that a snapshot costs the cluster least: a follower before the leader, and among the
// followers that which has applied most.
func (s etcdMembers) choose(ctx context.Context) (chosen *clientv3.Client, best *clientv3.StatusResponse, err error) {
	secure, password, err := s.credentials()
	if err != nil {
		return nil, nil, err
	}
	var flaws []string
	for _, url := range s.members {
		c, status, err := ask(ctx, url, secure, password)
		if err != nil {
			flaws = append(flaws, fmt.Sprintf("%s: %v", podOf(url), err))
			continue
		}
		if best != nil && !better(status, best) {
			_ = c.Close()
			continue
		}
		if chosen != nil {
			_ = chosen.Close()
		}
		chosen, best = c, status
	}
	if chosen == nil {
		return nil, nil, fmt.Errorf("no member is well enough for a snapshot (%s)", strings.Join(flaws, "; "))
	}
	return chosen, best, nil
}

func better(a, b *clientv3.StatusResponse) bool {
	if leads(a) != leads(b) {
		return leads(b)
	}
	return a.RaftAppliedIndex > b.RaftAppliedIndex
}

func leads(s *clientv3.StatusResponse) bool { return s.Leader == s.Header.MemberId }

// ask returns the client of a member that is well, and what it says of itself.
func ask(ctx context.Context, url string, secure *tls.Config, password string) (*clientv3.Client, *clientv3.StatusResponse, error) {
	cfg := clientv3.Config{
		Context: ctx, Endpoints: []string{url}, TLS: secure, DialTimeout: askMemberTimeout, Logger: zap.NewNop(), // Errors are returned.
		// A member need not wait to be told that there is room.
		DialOptions: []grpc.DialOption{grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(streamWindow)},
	}
	if password != "" {
		cfg.Username, cfg.Password = etcd.RootUser, password
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	status, err := statusOf(ctx, c, url)
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, status, nil
}

func statusOf(ctx context.Context, c *clientv3.Client, url string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askMemberTimeout, errors.New("it did not answer in time"))
	defer cancel()
	status, err := c.Status(ctx, url)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask for its status: %w", err)
	case status.IsLearner:
		return nil, errors.New("it is a learner")
	case status.Leader == 0:
		return nil, errors.New("it has no leader")
	}
	for _, e := range status.Errors {
		if strings.Contains(e, pb.AlarmType_CORRUPT.String()) {
			return nil, errors.New("its data may be corrupt")
		}
	}
	return status, nil
}

// credentials are the certificate of the client, nil without TLS, and the password of root, empty where the certificate makes it
// root or there is no authentication.
func (s etcdMembers) credentials() (*tls.Config, string, error) {
	secure, err := clientTLS(s.tlsDir)
	if err != nil || etcdclient.IsRoot(secure) {
		return secure, "", err
	}
	raw, err := os.ReadFile(s.passwordFile)
	if errors.Is(err, os.ErrNotExist) {
		return secure, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the password: %w", err)
	}
	return secure, string(raw), nil
}

func clientTLS(dir string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt")) //nolint:gosec // The directory is an argument of ours.
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}}, nil
}
