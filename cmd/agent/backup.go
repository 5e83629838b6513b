package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
	"github.com/quorate/quorate/internal/backup/etcdsnapshot"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/goroutine"
)

// flowAddress is where a pod tells how far it is.
var flowAddress = net.JoinHostPort("", strconv.Itoa(job.FlowPort))

// backupJob is what the Jobs of backups have in common: a place where backups are kept, one of them, and how to tell how far they are.
type backupJob struct {
	location       backup.Location
	keysDir        string
	directory      string
	terminationLog string
	flowAddress    string

	store *backup.Store
	keys  backup.Keys
	began time.Time
	doing atomic.Value // string
	total atomic.Int64
	// more adds to what is told to whoever asks, nil: nothing.
	more func(*job.Flow)
}

// flags of every Job.
func (j *backupJob) flags(fs *flag.FlagSet) {
	fs.StringVar(&j.location.URL, "url", "", "where backups are kept")
	fs.StringVar(&j.location.Credentials, "credentials-dir", "", "directory with the credentials for it, empty for those of the pod")
	fs.StringVar(&j.keysDir, "keys-dir", "", "directory with the keys that backups are encrypted with, empty for none")
	fs.StringVar(&j.directory, "directory", "", "directory of the backup below the URL")
	fs.StringVar(&j.terminationLog, "termination-log", terminationLog, "file that the result is written to")
	fs.StringVar(&j.flowAddress, "progress-address", flowAddress, "address to tell at how far it is")
}

// run opens the store, does the work, and leaves word of what came of it.
func (j *backupJob) run(ctx context.Context, work func(ctx context.Context) (job.Report, error)) error {
	j.began = time.Now()
	j.say("beginning")
	report, err := j.do(ctx, work)
	if err != nil {
		report = job.Report{Problem: problemOf(err)}
	}
	if writeErr := os.WriteFile(j.terminationLog, []byte(report.Encode()), 0o600); writeErr != nil {
		return errors.Join(err, fmt.Errorf("write the termination message: %w", writeErr))
	}
	if err != nil && report.Problem.Final {
		return finalError{err}
	}
	return err
}

func (j *backupJob) do(ctx context.Context, work func(ctx context.Context) (job.Report, error)) (report job.Report, err error) {
	if j.keys, err = backup.ReadKeys(j.keysDir); err != nil {
		return report, finalError{err}
	}
	if err := backup.CheckURL(j.location.URL); err != nil {
		return report, finalError{fmt.Errorf("destination.url: %w", err)}
	}
	if dir, ok := strings.CutPrefix(j.location.URL, "file://"); ok { // On a claim, nobody else makes it.
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return report, fmt.Errorf("make the directory of the backups: %w", err)
		}
	}
	if j.store, err = backup.Open(ctx, j.location); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, j.store.Close()) }()
	stop, err := j.serveFlow(ctx)
	if err != nil {
		return report, err
	}
	defer stop()
	return work(ctx)
}

// say tells what the Job is at, in its log as well.
func (j *backupJob) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.doing.Store(text)
	fmt.Printf("%s %s\n", time.Now().UTC().Format(time.TimeOnly), text)
}

// flow is how far the Job is.
func (j *backupJob) flow() job.Flow {
	f := job.Flow{Total: j.total.Load(), Seconds: time.Since(j.began).Seconds()}
	f.Doing, _ = j.doing.Load().(string)
	f.Bytes, f.Stored = j.store.Progress()
	if j.more != nil {
		j.more(&f)
	}
	return f
}

// serveFlow tells whoever asks how far the Job is.
func (j *backupJob) serveFlow(ctx context.Context) (stop func(), err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", j.flowAddress)
	if err != nil {
		return nil, fmt.Errorf("listen for questions how far it is: %w", err)
	}
	j.flowAddress = listener.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+job.FlowPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(j.flow()) // Who asked is gone.
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	goroutine.Go(func() error { return server.Serve(listener) }, func(error) {}) // Until it is closed.
	return func() { _ = server.Close() }, nil
}

// finalError is one after which another attempt is in vain.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// meanings are the reasons that conditions give for errors, with the cure; final ones are not tried again.
var meanings = []struct {
	is     error
	reason string
	cure   string
	final  bool
}{
	{backup.ErrCredentials, "CredentialsRejected", "correct the Secret that destination.credentials names", true},
	{backup.ErrNoBucket, "DestinationMissing", "create it, or correct destination.url", true},
	{backup.ErrNotAllowed, "NotAllowed", "grant the right, or wait until the protection of the object ends", true},
	{backup.ErrFull, "DestinationFull", "make room there", true},
	{backup.ErrExists, "BackupExists", "another backup is in its place", true},
	{backup.ErrTooNew, "FormatTooNew", "use a newer version of Quorate", true},
	{backup.ErrDamaged, "BackupDamaged", "use another backup", true},
	{etcdsnapshot.ErrDamaged, "SourceDamaged", "it is tried again", false},
	{backup.ErrNotFound, "BackupMissing", "correct the directory, or the url", true},
	{backup.ErrKey, "KeyMissing", "the Secret that destination.encryption names needs the secret key under \"identity\"", true},
	{backup.ErrNotEncrypted, "NotEncrypted", "name a destination without encryption if the store is trusted, or use another backup", true},
	{backup.ErrNotAuthentic, "NotAuthentic", "write the key that it was taken with under \"authentication\" into the Secret that destination.encryption names, or " +
		"the line none if the store is trusted", true},
	{etcdrestore.ErrDamaged, "BackupDamaged", "use another backup", true},
	{etcdrestore.ErrOutOfRange, "TargetOutOfRange", "ask for a revision or time in between", true},
	{etcdrestore.ErrIncompatible, "Incompatible", "set spec.version to the same minor version or the next one", true},
	{etcdrestore.ErrNoSpace, "NoRoom", "enlarge spec.storage", true},
	{redisdump.ErrIncompatible, "Incompatible", "set spec.engine and spec.version to one that reads it", true},
	{redisdump.ErrDamaged, "BackupDamaged", "use another backup", true},
	{redisdump.ErrUnsupported, "Incompatible", "use a newer version of Quorate", true},
	{redisdump.ErrNoMemory, "NoRoom", "raise spec.resources.limits.memory, or add shards", true},
	{redisdump.ErrNoPermission, "NotAllowed", "it is tried again", false},
	{errTopology, "TopologyChanged", "it is tried again", false},
	{etcdhistory.ErrGap, "ChangesMissing", "restore an earlier revision, or only the full backup", true},
	{errMemory, job.ReasonMemory, job.MemoryCure, false},
	{errServer, "ServerFailed", "use another backup, and find out by what the server said at last what is wrong with this one", true},
	{syscall.ENOSPC, "NoRoom", "make room on the volume, for a check on that of the node", true},
	{backup.ErrStalled, "DestinationStalled", "it is tried again", false},
}

func problemOf(err error) *job.Problem {
	const limit = 2000 // A termination message has 4096 bytes, and JSON makes it longer.
	cut := func(s string) string {
		if len(s) > limit {
			return s[:limit] + "..."
		}
		return s
	}
	for _, m := range meanings {
		if errors.Is(err, m.is) {
			return &job.Problem{Reason: m.reason, Message: fmt.Sprintf("%v: %s. In detail: %s", m.is, m.cure, cut(err.Error())), Final: m.final}
		}
	}
	return &job.Problem{Reason: job.ReasonFailed, Message: cut(err.Error()), Final: errors.As(err, new(finalError))}
}
