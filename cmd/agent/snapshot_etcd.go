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

	"github.com/quorate/quorate/internal/backup/etcdsnapshot"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
)

// askMemberTimeout bounds the question to one member. One that does not answer in time is not asked for a snapshot.
const askMemberTimeout = 5 * time.Second

// etcdSnapshot takes one snapshot of a cluster.
type etcdSnapshot struct {
	etcdMembers
	version        string
	dir            string
	terminationLog string
}

// etcdMembers are the members of a cluster, and what it takes to be let in.
type etcdMembers struct {
	members              []string
	tlsDir, passwordFile string
}

// runSnapshotEtcd takes a snapshot of a healthy member, a follower where there is one, verifies it, and keeps it in a directory.
func runSnapshotEtcd(ctx context.Context, args []string) error {
	var s etcdSnapshot
	fs := flag.NewFlagSet("snapshot etcd", flag.ContinueOnError)
	fs.StringVar(&s.version, "version", "", "version of etcd, for the name of the snapshot")
	s.flags(fs, etcd.SnapshotTLSDir, etcd.SnapshotPasswordFile)
	fs.StringVar(&s.dir, "dir", etcd.SnapshotDir, "directory that snapshots are kept in")
	fs.StringVar(&s.terminationLog, "termination-log", "/dev/termination-log", "file that the result is written to")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if s.version == "" || len(s.members) == 0 {
		return errors.New("--version and at least one --member are needed")
	}
	report, err := s.run(ctx)
	text := ""
	if err == nil {
		text, err = report.Encode()
	}
	if err != nil {
		text = err.Error()
	}
	if writeErr := os.WriteFile(s.terminationLog, []byte(text), 0o600); writeErr != nil {
		return errors.Join(err, fmt.Errorf("write the termination message: %w", writeErr))
	}
	return err
}

// flags names the members and where the credentials are.
func (s *etcdMembers) flags(fs *flag.FlagSet, tlsDir, passwordFile string) {
	fs.Func("member", "client URL of a member; repeat for every one", func(url string) error {
		s.members = append(s.members, url)
		return nil
	})
	fs.StringVar(&s.tlsDir, "tls-dir", tlsDir, "directory with ca.crt, tls.crt and tls.key, if there is one")
	fs.StringVar(&s.passwordFile, "password-file", passwordFile, "file with the password of root, if there is one")
}

func (s etcdSnapshot) run(ctx context.Context) (etcd.SnapshotReport, error) {
	chosen, status, err := s.choose(ctx)
	if err != nil {
		return etcd.SnapshotReport{}, err
	}
	defer func() { _ = chosen.Close() }()
	member := chosen.Endpoints()[0]
	fmt.Printf("snapshot of %s: revision %d, a database of %d bytes\n", member, status.Header.Revision, status.DbSize)
	began := time.Now()
	file, content, err := etcdsnapshot.Dir{Path: s.dir}.Save(ctx, chosen, etcdsnapshot.Wanted{
		Version: s.version, Size: status.DbSize, Revision: status.Header.Revision,
	})
	if err != nil {
		return etcd.SnapshotReport{}, fmt.Errorf("snapshot of %s: %w", member, err)
	}
	fmt.Printf("%s: revision %d, %d bytes, sha256 %s, taken and verified in %s\n",
		file, content.Revision, content.Size, content.SHA256, time.Since(began).Round(time.Millisecond))
	return etcd.SnapshotReport{
		File: file, Revision: content.Revision, Size: content.Size, SHA256: content.SHA256, Member: podOf(member),
	}, nil
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
