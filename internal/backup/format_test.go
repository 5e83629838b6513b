package backup

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/quorate/quorate/test/need"
)

// The commands of docs/backup-format.md are what is left when Quorate is not there, so they are run as they stand there.
func TestTheDocumentedCommandsReadABackup(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/backup-format.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```sh\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of commands", len(blocks))
	}
	script := "set -e\n"
	for _, block := range blocks {
		commands, _, _ := strings.Cut(block, "```")
		script += commands
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]Keys{"plain": {}, "encrypted": {Recipients: []age.Recipient{identity.Recipient()}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openStore(t, "file://"+dir, "")
			m := redisManifest()
			m.Encrypted = len(k.Recipients) > 0
			var err error
			for i := range m.Parts {
				if m.Parts[i], err = s.WritePart(t.Context(), "b", m.Parts[i].Name, k, noise(uint64(i), 300000)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.WriteManifest(t.Context(), "b", m, k); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "b", "identity"), []byte(identity.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := runScript(t, filepath.Join(dir, "b"), script); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for i, p := range m.Parts {
				got, err := os.ReadFile(filepath.Join(dir, "b", p.Name+".content"))
				if err != nil || !bytes.Equal(got, bytesOf(t, noise(uint64(i), 300000))) {
					t.Errorf("part %s comes back with %d bytes: %v", p.Name, len(got), err)
				}
			}
			mustFail(t, filepath.Join(dir, "b", "manifest.json"), script)
			mustFail(t, filepath.Join(dir, "b", m.Parts[1].Name), script)
		})
	}
}

// mustFail changes one byte in the middle of a file, which the commands have to notice, and changes it back.
func mustFail(t *testing.T, path, script string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(content)
	damaged[len(damaged)/2] ^= 1
	for _, step := range []struct {
		content []byte
		fails   bool
	}{{damaged, true}, {content, false}} {
		if err := os.WriteFile(path, step.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := runScript(t, filepath.Dir(path), script); (err != nil) != step.fails {
			t.Errorf("%s, damaged: %t: %v\n%s", filepath.Base(path), step.fails, err, out)
		}
	}
}

func runScript(t *testing.T, dir, script string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("PATH=%s:%s", filepath.Dir(need.Tool(t, "age")), os.Getenv("PATH")))
	return cmd.CombinedOutput()
}
