package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// askMemberTimeout bounds the question to one member. One that does not answer in time is not asked for a snapshot.
const askMemberTimeout = 5 * time.Second

// memberSilence is after which time without a word a member is asked whether it is there, and for how long that is waited for.
const memberSilence = 10 * time.Second

// streamWindow is how many bytes of a snapshot a member sends ahead.
const streamWindow = 4 << 20

// etcdMembers are the members of a cluster, and what it takes to be let in.
type etcdMembers struct {
	members              []string
	tlsDir, passwordFile string
	usernameFile         string
}

// flags names the members and where the credentials are.
func (s *etcdMembers) flags(fs *flag.FlagSet) {
	fs.Func("member", "client URL of a member; repeat for every one", func(url string) error {
		s.members = append(s.members, url)
		return nil
	})
	fs.StringVar(&s.tlsDir, "tls-dir", job.AccessTLSDir, "directory with ca.crt, tls.crt and tls.key, if there is one")
	fs.StringVar(&s.passwordFile, "password-file", job.AccessAuthDir+"/password", "file with the password, if there is one")
	fs.StringVar(&s.usernameFile, "username-file", job.AccessAuthDir+"/username", "file with the name of the user, if it is not root")
}

// podOf is the pod in the URL of a member, or whatever else tells a member of others.
func podOf(url string) string {
	_, host, _ := strings.Cut(url, "://")
	if name, _, err := net.SplitHostPort(host); err == nil && net.ParseIP(name) != nil {
		return host
	}
	pod, _, _ := strings.Cut(host, ".")
	return pod
}

// login is what a member is asked with.
type login struct {
	secure             *tls.Config
	username, password string
}

// choose returns the client of the member that a snapshot costs the cluster least: a follower before the leader, and among the
// followers that which has applied most.
func (s etcdMembers) choose(ctx context.Context) (chosen *clientv3.Client, best *clientv3.StatusResponse, err error) {
	with, err := s.credentials()
	if err != nil {
		return nil, nil, err
	}
	var flaws []string
	for _, url := range s.members {
		c, status, err := ask(ctx, url, with)
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
func ask(ctx context.Context, url string, with login) (*clientv3.Client, *clientv3.StatusResponse, error) {
	cfg := clientv3.Config{
		Context: ctx, Endpoints: []string{url}, TLS: with.secure, DialTimeout: askMemberTimeout, Logger: zap.NewNop(), // Errors are returned.
		DialKeepAliveTime: memberSilence, DialKeepAliveTimeout: memberSilence,
		// A member need not wait to be told that there is room.
		DialOptions: []grpc.DialOption{grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(streamWindow)},
	}
	if with.password != "" {
		cfg.Username, cfg.Password = with.username, with.password
	}
	c, err := etcdclient.NewBounded(cfg)
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
	case status.Header == nil:
		return nil, errors.New("its status has no header")
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

// credentials are the certificate of the client, none without TLS, and user and password, empty where the certificate makes it root
// or there is no authentication.
func (s etcdMembers) credentials() (login, error) {
	secure, err := clientTLS(s.tlsDir)
	if err != nil {
		return login{}, err
	}
	if etcdclient.IsRoot(secure) {
		return login{secure: secure}, nil
	}
	if secure == nil && strings.HasPrefix(s.members[0], "https:") {
		secure = &tls.Config{MinVersion: tls.VersionTLS12} // The authorities of the system are to know it.
	}
	with := login{secure: secure, username: model.RootUser}
	if with.password, err = readWord(s.passwordFile); err != nil {
		return login{}, fmt.Errorf("read the password: %w", err)
	}
	username, err := readWord(s.usernameFile)
	if err != nil {
		return login{}, fmt.Errorf("read the name of the user: %w", err)
	}
	with.username = cmp.Or(username, with.username)
	return with, nil
}

// readWord reads a file of one line, and nothing where there is none.
func readWord(file string) (string, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // The file is an argument of ours.
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimRight(string(raw), "\r\n"), err
}

// clientTLS is what a directory says of a connection with TLS: ca.crt, and tls.crt with tls.key. Nil where there is neither.
func clientTLS(dir string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if err == nil {
		cfg.Certificates = []tls.Certificate{cert}
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt")) //nolint:gosec // The directory is an argument of ours.
	switch {
	case errors.Is(err, os.ErrNotExist) && len(cfg.Certificates) == 0:
		return nil, nil
	case errors.Is(err, os.ErrNotExist):
		return cfg, nil
	case err != nil:
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	return cfg, nil
}
