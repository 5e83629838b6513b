package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/internal/backup/job"
)

// authorities are the files in which systems keep the certificate authorities that they trust.
var authorities = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// runInstall copies this program into a directory, from which a container of another image runs it, and the certificate authorities with
// it: images of data stores often have none, and the store of backups has to be told from others all the same.
func runInstall(_ context.Context, args []string) error {
	fs := flag.NewFlagSet("install", flag.ContinueOnError)
	dir := fs.String("dir", job.ToolsDir, "directory to copy to")
	if err := fs.Parse(args); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return install(self, authorities, *dir)
}

func install(program string, authorities []string, dir string) error {
	if err := copyFile(program, filepath.Join(dir, job.AgentFile), 0o755); err != nil {
		return err
	}
	for _, path := range authorities {
		err := copyFile(path, filepath.Join(dir, job.AuthoritiesFile), 0o644)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil // An image without any: what has a certificate cannot be reached from there either.
}

func copyFile(from, to string, mode os.FileMode) (err error) {
	source, err := os.Open(from) //nolint:gosec // It is this program, or named above.
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	defer func() { _ = source.Close() }()                                    // It was only read.
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode) //nolint:gosec // Where the Job says.
	if err != nil {
		return fmt.Errorf("copy to %s: %w", to, err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if _, err := io.Copy(target, source); err != nil {
		return fmt.Errorf("copy to %s: %w", to, err)
	}
	return nil
}
