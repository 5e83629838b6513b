package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
)

func TestALinkOutOfTheDirectoryIsNotFollowed(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": outside, "up": "../../../../../../../../" + outside, "dir": filepath.Dir(outside)} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, "file://"+dir, "")
	for _, path := range []string{"link", "up", "dir/secret"} {
		if content, err := s.Get(t.Context(), path, 100); err == nil {
			t.Errorf("%s is read: %q", path, content)
		}
	}
	if err := s.Put(t.Context(), "dir/new", []byte("x")); err == nil {
		t.Error("something is written outside")
	}
	if _, err := s.WritePart(t.Context(), "dir", "new", Keys{}, noise(1, 10)); err == nil {
		t.Error("a part is written outside")
	}
	if objects, err := s.List(t.Context(), ""); err != nil || len(objects) != 0 {
		t.Errorf("there is %v, %v", objects, err)
	}
	if err := s.DeleteBackup(t.Context(), "dir"); err == nil {
		t.Error("a backup outside is deleted")
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("what is outside is gone: %v", err)
	}
}

func TestOneOfManyWritersOfAManifestWins(t *testing.T) {
	t.Parallel()
	dir, server := "file://"+t.TempDir(), startS3(t, false)
	for name, open := range map[string]func(*testing.T) *Store{
		"directory": func(t *testing.T) *Store { t.Helper(); return openStore(t, dir, "") },
		"S3":        func(t *testing.T) *Store { t.Helper(); return server.open(t, bucketOfTest, rootID, rootKey) },
	} {
		t.Run(name, func(t *testing.T) { oneManifestWins(t, open) })
	}
}

func oneManifestWins(t *testing.T, open func(*testing.T) *Store) {
	t.Helper()
	part, err := open(t).WritePart(t.Context(), "b", "p", Keys{}, noise(1, 10))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		s, m := open(t), exampleManifest(part)
		m.ID = fmt.Sprint(i)
		wg.Go(func() { errs[i] = s.WriteManifest(t.Context(), "b", m, Keys{}) })
	}
	wg.Wait()
	m, err := open(t).ReadManifest(t.Context(), "b", Keys{})
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if won := m.ID == fmt.Sprint(i); won != (err == nil) || (!won && !errors.Is(err, ErrExists)) {
			t.Errorf("writer %d: %v, and the manifest is that of %s", i, err, m.ID)
		}
	}
}

// What a killed process left is no object, and goes with its backup.
func TestWhatAKilledWriterLeftGoesWithItsBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, "file://"+dir, "")
	writeBackup(t, s, "b", Keys{}, noise(1, 10))
	if err := os.WriteFile(filepath.Join(dir, "b", ".etcd.db.0123abcd.part"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteBackup(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestADirectoryThatCannotBeReadIsNotEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, "file://"+dir, "")
	writeBackup(t, s, "b", Keys{}, noise(1, 10))
	// The root user reads everything, so the entry is of another kind.
	if err := os.Remove(filepath.Join(dir, "b", "etcd.db")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "b", "etcd.db"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "b/etcd.db", 10); !errors.Is(err, ErrNotFound) {
		t.Errorf("a pipe is read: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if objects, err := openStore(t, "file://"+file, "").List(t.Context(), ""); err == nil {
		t.Errorf("a file is listed: %v", objects)
	}
}

func TestErrorsOfAFileSystemAreClassified(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]error{
		syscall.ENOSPC: ErrFull, syscall.EDQUOT: ErrFull, syscall.EROFS: ErrNotAllowed, syscall.EACCES: ErrNotAllowed, syscall.EPERM: ErrNotAllowed,
	} {
		wrapped := &fs.PathError{Op: "write", Path: "x", Err: err}
		if got := classify(t.Context(), wrapped); !errors.Is(got, want) || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	if got := classify(t.Context(), io.ErrUnexpectedEOF); permanent(got) {
		t.Errorf("a broken connection becomes %v", got)
	}
}

func TestURLsThatCannotWorkSayWhatToWrite(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"s3://bucket": "", "s3://bucket/": "", "s3://bucket/a/b?region=eu-west-1": "",
		"s3://bucket/a?endpoint=https://minio.example:9000&path-style=true&checksums=false": "",
		"gs://bucket/a": "", "azblob://container/a?account=name123": "", "file:///backups": "", "file:///backups/a/": "", "file://localhost/backups": "",
		"":                                   "s3://bucket/prefix",
		"bucket/prefix":                      "s3://bucket/prefix",
		"https://bucket.s3.amazonaws.com/":   "s3://bucket/prefix",
		"mem://":                             "s3://bucket/prefix",
		"s3:bucket":                          "s3://",
		"s3:///prefix":                       "names no bucket",
		"s3://minio.example:9000/bucket":     "endpoint=https://minio.example:9000",
		"s3://id:hunter2@bucket":             "Secret",
		"s3://bu cket":                       "cannot be read",
		"s3://b":                             "cannot be the name",
		"s3://bucket/../other":               "prefix",
		"s3://bucket/a//b":                   "prefix",
		"s3://bucket/a%00b":                  "prefix",
		"s3://bucket?region=":                "eu-west-1",
		"s3://bucket?regoin=eu-west-1":       "regoin",
		"s3://bucket?region=a&region=b":      "2 times",
		"s3://bucket?path-style=yes":         "neither true nor false",
		"s3://bucket?endpoint=minio:9000":    "https://host:port",
		"s3://bucket?endpoint=https://u:p@h": "Secret",
		"s3://bucket?endpoint=https://h/x":   "https://h",
		"s3://bucket#x":                      "#",
		"gs://bucket?region=a":               "endpoint",
		"azblob://container?account=A":       "storage account",
		"file://backups":                     "file:///backups",
		"file:///":                           "file:///directory",
		"file:///a/../b":                     "/b",
		"file:///a%0ab":                      "control",
		"file:///a?x=y":                      "parameter",
	} {
		err := CheckURL(url)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error holds the password", url)
		}
	}
}

// Open looks at what is there, and asks nobody. Where nothing can be reached it still opens.
func TestOpenChecksCredentialsWithoutTheNetwork(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AZURE_STORAGE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	const key = `{"type": "service_account", "client_email": "a@b", "private_key": "", "token_uri": "http://127.0.0.1:1/"}`
	for name, c := range map[string]struct {
		url    string
		secret map[string]string
		want   error
		fails  bool
	}{
		"s3":                          {"s3://bucket/a?region=eu-west-1", nil, nil, false},
		"s3 without a region":         {"s3://bucket/a", nil, nil, true},
		"s3 with half of a key":       {"s3://bucket/a?region=eu-west-1", map[string]string{"AWS_ACCESS_KEY_ID": "x"}, ErrCredentials, true},
		"an authority that is none":   {"s3://bucket/a?region=eu-west-1", map[string]string{"ca.crt": "x"}, nil, true},
		"google":                      {"gs://bucket/a", nil, nil, false},
		"google with a key":           {"gs://bucket/a", map[string]string{"credentials.json": key}, nil, false},
		"google with no key":          {"gs://bucket/a", map[string]string{"credentials.json": "x"}, ErrCredentials, true},
		"google with a user":          {"gs://bucket/a", map[string]string{"credentials.json": `{"type": "authorized_user"}`}, ErrCredentials, true},
		"azure":                       {"azblob://container/a?account=name123", nil, nil, false},
		"azure without account":       {"azblob://container/a", nil, nil, true},
		"azure with a key":            {"azblob://container/a", map[string]string{"AZURE_STORAGE_ACCOUNT": "name123", "AZURE_STORAGE_KEY": "c2VjcmV0"}, nil, false},
		"azure with no key":           {"azblob://container/a", map[string]string{"AZURE_STORAGE_ACCOUNT": "name123", "AZURE_STORAGE_KEY": "%%"}, ErrCredentials, true},
		"azure with a token":          {"azblob://container/a?account=name123", map[string]string{"AZURE_STORAGE_SAS_TOKEN": "?sv=1&sig=x"}, nil, false},
		"azure, connection string":    {"azblob://container/a", map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "DefaultEndpointsProtocol=https;AccountName=name123;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net"}, nil, false},
		"azure, no connection string": {"azblob://container/a", map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "hunter2"}, ErrCredentials, true},
	} {
		l := Location{URL: c.url}
		if c.secret != nil {
			l.Credentials = secret(t, c.secret)
		}
		s, err := Open(t.Context(), l)
		if (err != nil) != c.fails || (c.want != nil && !errors.Is(err, c.want)) || (err != nil && strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if s != nil {
			if err := s.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := Open(t.Context(), Location{URL: "s3://bucket", Credentials: "/does/not/exist"}); err == nil {
		t.Error("a Secret that is not mounted opens")
	}
	if got := azureService(place{parameters: map[string]string{"endpoint": "https://name123.blob.core.chinacloudapi.cn"}}, "name123"); !cmp.Equal(got, "https://name123.blob.core.chinacloudapi.cn") {
		t.Errorf("another cloud is at %s", got)
	}
}

// recordingDirectory notes the order in which objects are deleted.
type recordingDirectory struct {
	*directory
	deleted []string
}

func (d *recordingDirectory) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	d.deleted = append(d.deleted, key)
	return d.directory.Delete(ctx, key, o)
}

// A deletion that is interrupted leaves parts without a manifest, and never a backup without a part.
func TestABackupIsDeletedWithItsManifestFirst(t *testing.T) {
	t.Parallel()
	d := &recordingDirectory{directory: &directory{path: t.TempDir()}}
	s := newStore(blob.NewBucket(d))
	t.Cleanup(func() { _ = s.Close() })
	writeBackup(t, s, "b", Keys{}, noise(1, 100))
	if err := s.DeleteBackup(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b/manifest.json", "b/etcd.db"}, d.deleted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// syncedDirectory records what is synced, and which objects had their names at that time.
func syncedDirectory(t *testing.T, fail func(name string) error) (*Store, *[]string) {
	t.Helper()
	t.Helper()
	dir, synced := t.TempDir(), &[]string{}
	d := &directory{path: dir, fsync: func(f *os.File) error {
		rel, err := filepath.Rel(dir, f.Name())
		if err != nil {
			return err
		}
		if strings.HasSuffix(rel, temporary) {
			rel = filepath.Dir(rel) + "/temporary file"
		}
		_, err = os.Stat(filepath.Join(dir, "b", "manifest.json"))
		*synced = append(*synced, fmt.Sprintf("%s, named: %t", rel, err == nil))
		return errors.Join(fail(rel), f.Sync())
	}}
	s := newStore(blob.NewBucket(d))
	t.Cleanup(func() { _ = s.Close() })
	return s, synced
}

func TestAnObjectIsOnTheDiskBeforeItHasItsNameAndItsNameBeforeItIsAcknowledged(t *testing.T) {
	t.Parallel()
	s, synced := syncedDirectory(t, func(string) error { return nil })
	if err := s.Put(t.Context(), "b/manifest.json", []byte("x")); err != nil {
		t.Fatal(err)
	}
	want := []string{"b/temporary file, named: false", "b, named: true", "., named: true"}
	if diff := cmp.Diff(want, *synced); diff != "" {
		t.Errorf("synced (-want +got):\n%s", diff)
	}
	*synced = nil
	if err := s.Delete(t.Context(), "b/manifest.json"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"., named: false"}, *synced); diff != "" {
		t.Errorf("synced after the deletion (-want +got):\n%s", diff)
	}
}

func TestAWriteFailsWhoseFileOrDirectoryCannotBeSynced(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"b/temporary file", "b", "."} {
		lost := errors.New("input/output error")
		s, _ := syncedDirectory(t, func(synced string) error {
			if synced == name {
				return lost
			}
			return nil
		})
		if err := s.Put(t.Context(), "b/manifest.json", []byte("x")); !errors.Is(err, lost) {
			t.Errorf("%s is not synced, and the write ends with %v", name, err)
		}
	}
}
