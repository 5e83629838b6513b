package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// aStore is a place with nothing in it.
func aStore(t *testing.T) (url string, s *backup.Store) {
	t.Helper()
	url = "file://" + t.TempDir()
	s, err := backup.Open(t.Context(), backup.Location{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return url, s
}

// put stores a backup of etcd with a few bytes.
func put(t *testing.T, s *backup.Store, dir string, change func(*backup.Manifest)) {
	t.Helper()
	part, err := s.WritePart(t.Context(), dir, partSnapshot, backup.Keys{}, func(w io.Writer) error {
		_, err := io.WriteString(w, "a snapshot of "+dir)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m := backup.Manifest{
		Format: backup.Format, ID: dir, Kind: "EtcdCluster", Namespace: "shop", Cluster: "orders", Engine: "etcd", EngineVersion: "3.6.16",
		Started: noon, Finished: noon, Parts: []backup.Part{part}, Etcd: &backup.EtcdContent{Timeline: "a1", Revision: 10, Newest: 10, Taken: noon, Member: "orders-0"},
	}
	if change != nil {
		change(&m)
	}
	if err := s.WriteManifest(t.Context(), dir, m, backup.Keys{}); err != nil {
		t.Fatal(err)
	}
}

// runJob runs a command of the agent, and returns what it leaves as its last words.
func runJob(t *testing.T, run func(context.Context, []string) error, args ...string) (job.Report, error) {
	t.Helper()
	word := filepath.Join(t.TempDir(), "word")
	err := run(t.Context(), append(args, "--termination-log="+word, "--progress-address=127.0.0.1:0"))
	raw, readErr := os.ReadFile(word)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if len(raw) > 4096 {
		t.Errorf("the last words have %d bytes, and Kubernetes takes 4096", len(raw))
	}
	r, ok := job.ParseReport(string(raw))
	if !ok {
		t.Errorf("the last words are %q", raw)
	}
	return r, err
}

func TestTheBackupThatFitsIsFound(t *testing.T) {
	url, s := aStore(t)
	later := func(hours int, revision int64) func(*backup.Manifest) {
		return func(m *backup.Manifest) {
			at := noon.Add(time.Duration(hours) * time.Hour)
			m.Started, m.Finished, m.Etcd.Taken, m.Etcd.Revision, m.Etcd.Newest = at, at, at, revision, revision+2
		}
	}
	put(t, s, "one", nil)
	put(t, s, "two", later(2, 20))
	put(t, s, "three", later(4, 30))
	for name, tc := range map[string]struct {
		args         []string
		want, reason string
	}{
		"the newest":                        {nil, "three", ""},
		"the one that is named":             {[]string{"--directory=one"}, "one", ""},
		"the newest before a time":          {[]string{"--time=2026-05-01T15:00:00Z"}, "two", ""},
		"at a time":                         {[]string{"--time=2026-05-01T14:00:00Z"}, "two", ""},
		"none before a time":                {[]string{"--time=2026-05-01T11:59:59Z"}, "", "BackupMissing"},
		"one that ends before a revision":   {[]string{"--revision=22"}, "two", ""},
		"none that surely ends before it":   {[]string{"--revision=9"}, "", "BackupMissing"},
		"the one that is named, at a time":  {[]string{"--directory=one", "--time=2026-05-01T13:00:00Z"}, "one", ""},
		"a time before it was taken":        {[]string{"--directory=two", "--time=2026-05-01T13:00:00Z"}, "", "TargetOutOfRange"},
		"a time after a later one":          {[]string{"--directory=one", "--time=2026-05-01T14:00:00Z"}, "", "ChangesMissing"},
		"a revision that nothing leads to":  {[]string{"--revision=25"}, "", "TargetOutOfRange"},
		"one that is not there":             {[]string{"--directory=four"}, "", "BackupMissing"},
		"one that leads out of the place":   {[]string{"--directory=../one"}, "", job.ReasonFailed},
		"another kind":                      {[]string{"--kind=RedisCluster"}, "", "BackupMissing"},
		"another kind of one that is named": {[]string{"--kind=RedisCluster", "--directory=one"}, "", job.ReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := runJob(t, runBackupFind, append([]string{"--url=" + url, "--kind=EtcdCluster"}, tc.args...)...)
			switch {
			case tc.reason != "":
				if err == nil || r.Problem == nil || r.Problem.Reason != tc.reason {
					t.Errorf("got %v, %+v", err, r.Problem)
				}
			case err != nil || r.Backup == nil || r.Backup.Directory != tc.want:
				t.Errorf("got %v, %+v", err, r.Backup)
			}
		})
	}
	beyondAHole := etcdhistory.Name{Timeline: "a1", From: 15, To: 18}
	if err := s.Put(t.Context(), beyondAHole.String(), []byte("changes")); err != nil {
		t.Fatal(err)
	}
	if r, err := runJob(t, runBackupFind, "--url="+url, "--kind=EtcdCluster", "--directory=one", "--time=2026-05-01T13:00:00Z"); err == nil || r.Problem.Reason != "ChangesMissing" {
		t.Errorf("what was changed until a time may be missing: %v, %+v", err, r)
	}
	put(t, s, "of-another", func(m *backup.Manifest) { m.Cluster = "carts" })
	if r, err := runJob(t, runBackupFind, "--url="+url, "--kind=EtcdCluster"); err == nil || !strings.Contains(r.Problem.Message, "shop/carts, shop/orders") || !r.Problem.Final {
		t.Errorf("of several clusters one is chosen: %v, %+v", err, r)
	}
}

// One that is damaged is not taken for one that is not there.
func TestADamagedManifestIsNotPassedOverInSilence(t *testing.T) {
	url, s := aStore(t)
	put(t, s, "only", nil)
	path := filepath.Join(strings.TrimPrefix(url, "file://"), "only", "manifest.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := runJob(t, runBackupFind, "--url="+url, "--kind=EtcdCluster"); err == nil || r.Problem.Reason != "BackupDamaged" {
		t.Errorf("%v, %+v", err, r.Problem)
	}
}

func TestABackupIsRemovedWithTheChangesThatOnlyItLedTo(t *testing.T) {
	url, s := aStore(t)
	put(t, s, "one", nil)
	put(t, s, "two", func(m *backup.Manifest) { m.Etcd.Revision, m.Etcd.Newest = 20, 20 })
	names := []string{}
	for _, n := range []etcdhistory.Name{{Timeline: "a1", From: 10, To: 20}, {Timeline: "a1", From: 20, To: 30}, {Timeline: "a1", From: 15, To: 25}, {Timeline: "b2", From: 1, To: 5}} {
		names = append(names, n.String())
		if err := s.Put(t.Context(), n.String(), []byte("changes")); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := runJob(t, runBackupRemove, "--url="+url, "--directory=one"); err != nil || r.Backup == nil {
		t.Fatalf("%v, %+v", err, r)
	}
	left, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, o := range left {
		paths = append(paths, o.Path)
	}
	if want := []string{names[2], names[1], names[3], "two/manifest.json", "two/snapshot.db"}; !cmp.Equal(paths, want) {
		t.Errorf("left are\n%s", cmp.Diff(want, paths))
	}
	if r, err := runJob(t, runBackupRemove, "--url="+url, "--directory=one"); err != nil {
		t.Errorf("once more: %v, %+v", err, r)
	}
	if r, err := runJob(t, runBackupRemove, "--url="+url, "--directory=two"); err != nil {
		t.Errorf("the last one: %v, %+v", err, r)
	}
	if fresh, err := s.List(t.Context(), "log/a1/"); err != nil || len(fresh) != 2 {
		t.Errorf("changes of today, which a backup that is under way may lead to: %v, %v", fresh, err)
	}
	put(t, s, "three", func(m *backup.Manifest) { m.Etcd.Timeline = "c3" })
	j := &backupJob{store: s}
	if err := j.sweepHistory(t.Context(), time.Now().Add(historyGrace+time.Minute)); err != nil {
		t.Fatal(err)
	}
	if old, err := s.List(t.Context(), etcdhistory.Directory); err != nil || len(old) > 0 {
		t.Errorf("changes of yesterday that nothing leads to, of any history: %v, %v", old, err)
	}
}

func TestALoadIsCompleteWhenEverySlotIs(t *testing.T) {
	manifest := backup.Manifest{Redis: &backup.RedisContent{Shards: []backup.RedisShard{
		{Keys: 3, KeysPerSlot: backup.SlotCounts{1, 2}}, {Keys: 1, KeysPerSlot: backup.SlotCounts{0, 0, 1}},
	}}}
	counts := func(n ...int64) []int64 {
		out := make([]int64, backup.Slots)
		copy(out, n)
		return out
	}
	for name, tc := range map[string]struct {
		summary redisdump.LoadSummary
		slots   slots.Set
		good    bool
	}{
		"all are new":                {redisdump.LoadSummary{Restored: 4, KeysPerSlot: counts(1, 2, 1)}, nil, true},
		"some were there":            {redisdump.LoadSummary{Restored: 1, Present: 3, KeysPerSlot: counts(1, 2, 1)}, nil, true},
		"some have expired":          {redisdump.LoadSummary{Restored: 3, Expired: 1, KeysPerSlot: counts(1, 1, 1)}, nil, true},
		"one is missing":             {redisdump.LoadSummary{Restored: 3, KeysPerSlot: counts(1, 1, 1)}, nil, false},
		"one is in a different slot": {redisdump.LoadSummary{Restored: 4, KeysPerSlot: counts(2, 1, 1)}, nil, false},
		"some slots":                 {redisdump.LoadSummary{Restored: 2, Skipped: 2, KeysPerSlot: counts(0, 2)}, slots.Set{{From: 1, To: 1}}, true},
		"too few of some slots":      {redisdump.LoadSummary{Restored: 1, Skipped: 3, KeysPerSlot: counts(0, 1)}, slots.Set{{From: 1, To: 1}}, false},
	} {
		r := &redisRestore{wanted: tc.slots}
		if err := r.complete(manifest, tc.summary); (err == nil) != tc.good || (err != nil && !errors.Is(err, backup.ErrDamaged)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProblemsNameTheCure(t *testing.T) {
	for _, m := range meanings {
		p := problemOf(fmt.Errorf("while something was done: %w", m.is))
		if p.Reason != m.reason || p.Final != m.final || !strings.Contains(p.Message, m.cure) {
			t.Errorf("%v is told as %+v", m.is, p)
		}
	}
	if p := problemOf(errors.New(strings.Repeat("long ", 10_000))); p.Final || len((job.Report{Problem: p}).Encode()) > 4096 {
		t.Errorf("a long story has %d bytes, final %t", len((job.Report{Problem: p}).Encode()), p.Final)
	}
	if r, err := runJob(t, runBackupFind, "--url=ftp://somewhere", "--kind=EtcdCluster"); !errors.As(err, new(finalError)) || !r.Problem.Final || !strings.Contains(r.Problem.Message, "destination.url") {
		t.Errorf("a URL that nobody knows: %v, %+v", err, r.Problem)
	}
}

func TestAJobSaysHowFarItIs(t *testing.T) {
	url, _ := aStore(t)
	j := &backupJob{location: backup.Location{URL: url}, terminationLog: filepath.Join(t.TempDir(), "word"), flowAddress: "127.0.0.1:0"}
	err := j.run(t.Context(), func(ctx context.Context) (job.Report, error) {
		j.total.Store(100)
		j.say("working on %s", "it")
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+j.flowAddress+job.FlowPath, nil)
		if err != nil {
			return job.Report{}, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return job.Report{}, err
		}
		defer func() { _ = resp.Body.Close() }()
		var f job.Flow
		if err := json.NewDecoder(resp.Body).Decode(&f); err != nil {
			return job.Report{}, err
		}
		if f.Doing != "working on it" || f.Total != 100 || f.Stream != nil {
			t.Errorf("it says %+v", f)
		}
		return job.Report{Backup: &job.Stored{Directory: "d"}}, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A recorder goes on with what it has read once, unless it is told.
func TestARecorderNoticesWhatItWasBegunWith(t *testing.T) {
	s := &etcdStream{}
	s.tlsDir, s.location.Credentials, s.keysDir = t.TempDir(), t.TempDir(), t.TempDir()
	s.passwordFile = filepath.Join(t.TempDir(), "password")
	known := map[[sha256.Size]byte]string{s.credentialsSum(): "nothing"}
	for _, name := range []string{
		filepath.Join(s.tlsDir, "tls.crt"), filepath.Join(s.tlsDir, "ca.crt"), s.passwordFile,
		filepath.Join(s.location.Credentials, "AWS_SESSION_TOKEN"), filepath.Join(s.keysDir, "recipient"),
	} {
		if err := os.WriteFile(name, []byte("another"), 0o600); err != nil {
			t.Fatal(err)
		}
		sum := s.credentialsSum()
		if same := known[sum]; same != "" {
			t.Errorf("%s makes no difference to %s", name, same)
		}
		known[sum] = name
	}
	if err := os.WriteFile(filepath.Join(s.keysDir, "..data_tmp"), []byte("on its way"), 0o600); err != nil {
		t.Fatal(err)
	}
	if known[s.credentialsSum()] == "" {
		t.Error("what is on its way counts")
	}
}
