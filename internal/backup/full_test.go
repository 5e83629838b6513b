package backup

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/quorate/quorate/test/need"
)

// onSmallDisk are the beginning of a command that runs with 24 MiB of disk in a directory, which nobody else sees.
func onSmallDisk(dir string) []string {
	return []string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mount -t tmpfs -o size=24m tmpfs "$0" && exec "$@"`, dir}
}

func TestAFullStoreIsSaidToBeFull(t *testing.T) {
	t.Parallel()
	s := startS3(t, false, onSmallDisk("{}")...).open(t, bucketOfTest, rootID, rootKey)
	fill(t, s)
}

// The process of the test sees no small disk, so it runs this test of itself again in one that does.
func TestAFullDiskIsSaidToBeFull(t *testing.T) {
	t.Parallel()
	const variable = "QUORATE_TEST_SMALL_DISK"
	if dir := os.Getenv(variable); dir != "" {
		fill(t, openStore(t, "file://"+dir, ""))
		return
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), onSmallDisk(dir)[0], append(onSmallDisk(dir)[1:], "true")...).CombinedOutput(); err != nil {
		need.Missing(t, "no file system can be mounted here (as root with unshare and mount it can): %v %s", err, out)
	}
	command := append(onSmallDisk(dir), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.count", "1")
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// fill writes what fits, what does not, and finds that the former is still whole and that there is room again.
func fill(t *testing.T, s *Store) {
	t.Helper()
	m := writeBackup(t, s, "first", Keys{}, noise(1, 2<<20))
	if _, err := s.WritePart(t.Context(), "second", "p", Keys{}, noise(1, 60<<20)); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if objects, err := s.List(t.Context(), "second/"); err != nil || len(objects) > 0 {
		t.Errorf("there is %v, %v", objects, err)
	}
	if err := s.ReadPart(t.Context(), "first", m.Parts[0], Keys{}, func(io.Reader) error { return nil }); err != nil {
		t.Errorf("the backup of before is damaged: %v", err)
	}
	writeBackup(t, s, "third", Keys{}, noise(1, 2<<20))
}
