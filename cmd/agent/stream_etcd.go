package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/goroutine"
)

const (
	// basePoll is how often a full backup is looked for that changes can follow.
	basePoll = 5 * time.Second
	// credentialsPoll is how often certificates, passwords and keys are looked at.
	credentialsPoll = 30 * time.Second
	// mergeEvery is how often what was recorded is merged, and mergeSpan what one merged segment covers.
	mergeEvery = 15 * time.Minute
	mergeSpan  = time.Hour
	// mergeSize in bytes is what a merged segment has at most.
	mergeSize = 256 << 20
)

// errCredentials ends a stream when one of them is another one by now: it begins anew with that.
var errCredentials = errors.New("the credentials have changed, and are read again")

// etcdStream records the changes of an etcd cluster between full backups.
type etcdStream struct {
	backupJob
	etcdMembers
	timeline string
	interval time.Duration
	// begunWith is the sum of the credentials that it was begun with.
	begunWith [sha256.Size]byte

	mu       sync.Mutex
	recorder *etcdhistory.Recorder
	// needs says why a full backup is needed to go on, and after which revision.
	needs string
}

// runStreamEtcd records changes until it is told to stop.
func runStreamEtcd(ctx context.Context, args []string) error {
	s := &etcdStream{}
	fs := flag.NewFlagSet("backup stream-etcd", flag.ContinueOnError)
	s.backupJob.flags(fs)
	s.etcdMembers.flags(fs)
	fs.StringVar(&s.timeline, "timeline", "", "what tells this history of revisions from others")
	fs.DurationVar(&s.interval, "interval", 10*time.Second, "how long a change is kept before it is stored")
	if err := fs.Parse(args); err != nil {
		return err
	}
	s.more, s.begunWith = s.state, s.credentialsSum()
	return s.run(ctx, func(ctx context.Context) (job.Report, error) { return job.Report{}, s.stream(ctx) })
}

// state adds to the answer how far the recording is.
func (s *etcdStream) state(f *job.Flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Stream = &job.Stream{Timeline: s.timeline, Needs: s.needs}
	if s.recorder == nil {
		return
	}
	at := s.recorder.Status()
	f.Stream.Revision, f.Stream.Time, f.Stream.Behind = at.Durable, at.DurableTime, at.Behind()
	if err := errors.Join(at.StoreErr, at.WatchErr, at.AskErr); err != nil {
		f.Stream.Trouble = err.Error()
	}
}

func (s *etcdStream) stream(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	with, err := s.credentials()
	if err != nil {
		return err
	}
	cfg := clientv3.Config{
		Context: ctx, Endpoints: s.members, TLS: with.secure, DialTimeout: askMemberTimeout, Logger: zap.NewNop(), // Errors are returned.
		DialKeepAliveTime: memberSilence, DialKeepAliveTimeout: memberSilence, MaxCallRecvMsgSize: etcdclient.MaxWatchAnswer,
	}
	if with.password != "" {
		cfg.Username, cfg.Password = with.username, with.password
	}
	client, err := etcdclient.NewBounded(cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = client.Close() }()
	ended := func(err error) {
		if err != nil {
			stop(err)
		}
	}
	goroutine.Go(func() error { return s.watchCredentials(ctx) }, ended)
	goroutine.Go(func() error { return s.mergeAgain(ctx) }, ended)
	for after := int64(0); ; {
		base, err := s.base(ctx, after)
		if err != nil {
			return contextual(ctx, err)
		}
		err = s.record(ctx, client, base)
		if ctx.Err() != nil || err == nil {
			return contextual(ctx, err)
		}
		if missed := new(etcdhistory.CompactedError); errors.As(err, &missed) && missed.Need <= base {
			s.say("what was changed before the full backup of revision %d is gone: %v", base, err)
			continue // It has what is missing.
		}
		s.set(nil, err.Error())
		s.say("a full backup is needed to go on: %v", err)
		after = base
	}
}

// contextual returns why a stream ended. The end of the Job is no error.
func contextual(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, errCredentials), goroutine.Panicked(cause):
		return cause
	}
	return nil
}

func (s *etcdStream) set(r *etcdhistory.Recorder, needs string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorder, s.needs = r, needs
}

// base waits for a full backup of this history from after a revision, and returns the revision that it holds at least.
func (s *etcdStream) base(ctx context.Context, after int64) (int64, error) {
	for told := false; ; {
		newest, err := s.newestBase(ctx)
		if err != nil {
			s.say("look for a full backup: %v", err)
		}
		if newest > after {
			return newest, nil
		}
		if !told && after == 0 && err == nil {
			s.set(nil, "there is no full backup of this history yet")
			s.say("waiting for a full backup of timeline %s", s.timeline)
			told = true
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(basePoll):
		}
	}
}

func (s *etcdStream) newestBase(ctx context.Context) (newest int64, err error) {
	dirs, err := s.store.Backups(ctx)
	if err != nil {
		return 0, err
	}
	var flaws []error
	for _, dir := range dirs {
		m, err := s.store.ReadManifest(ctx, dir, backup.Keys{})
		if err != nil {
			flaws = append(flaws, err)
			continue
		}
		if m.Etcd != nil && m.Etcd.Timeline == s.timeline {
			newest = max(newest, m.Etcd.Revision)
		}
	}
	if newest == 0 {
		return 0, errors.Join(flaws...)
	}
	return newest, nil
}

// record records what follows a revision until another full backup is needed.
func (s *etcdStream) record(ctx context.Context, client *clientv3.Client, base int64) error {
	r := &etcdhistory.Recorder{Client: client, Store: s.history(), Timeline: s.timeline, Interval: s.interval}
	s.set(r, "")
	s.say("recording what follows revision %d of timeline %s", base, s.timeline)
	return r.Run(ctx, base)
}

// mergeAgain merges what was recorded from time to time.
func (s *etcdStream) mergeAgain(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(mergeEvery):
		}
		merged, err := etcdhistory.Merge(ctx, s.history(), etcdhistory.Merging{
			Timeline: s.timeline, Span: mergeSpan, Before: time.Now().Add(-mergeSpan), Size: mergeSize,
		})
		if err != nil && !errors.Is(err, backup.ErrNotAllowed) { // Nothing is lost: there are more objects than need be.
			s.say("merge what was recorded: %v", err)
		}
		if len(merged) > 0 {
			s.say("merged what was recorded into %d objects more", len(merged))
		}
	}
}

// watchCredentials returns errCredentials when something has changed that the stream was begun with.
func (s *etcdStream) watchCredentials(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(credentialsPoll):
		}
		if s.credentialsSum() != s.begunWith {
			return errCredentials
		}
	}
}

// credentialsSum tells apart what the stream gets into etcd with, what it gets into the store with, and what it encrypts for.
func (s *etcdStream) credentialsSum() [sha256.Size]byte {
	names := []string{filepath.Join(s.tlsDir, "tls.crt"), filepath.Join(s.tlsDir, "ca.crt"), s.passwordFile}
	for _, dir := range []string{s.location.Credentials, s.keysDir} {
		if dir == "" {
			continue
		}
		entries, _ := os.ReadDir(dir) // In order. One that cannot be read now can be later.
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "..") { // Where Kubernetes keeps what the others point to.
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
	}
	var all []byte
	for _, name := range names {
		raw, err := os.ReadFile(name) //nolint:gosec // Arguments of ours.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue // While it is being replaced.
		}
		all = append(append(all, raw...), 0)
	}
	return sha256.Sum256(all)
}
