package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
)

const authentication = "4f9e0d5b7a6c3e2f1d0c9b8a79685746"

// aSecret writes the keys of a Secret to a directory, as a pod has it mounted.
func aSecret(t *testing.T, keys map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range keys {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// storePlanted stores a backup of another etcd in the place of the real one, with what the writer of the store has.
func storePlanted(t *testing.T, url, dir, id string, member string, secret map[string]string) {
	t.Helper()
	args := []string{"--url=" + url, "--directory=" + dir, "--id=" + id, "--namespace=shop", "--cluster=orders", "--timeline=a1", "--version=3.6.16", "--member=" + member, "--tls-dir=" + t.TempDir()}
	if secret != nil {
		args = append(args, "--keys-dir="+aSecret(t, secret))
	}
	if r, err := runJob(t, runBackupEtcd, append(args, "--password-file="+filepath.Join(aSecret(t, map[string]string{"password": "planted"}), "password"))...); err != nil {
		t.Fatal(r.Problem, err)
	}
}

// A writer of the store has the public keys at most. It plants a database with a user root of its own and authentication switched on.
func TestPlantedUsersAndRolesAreNotRestored(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	member, c := startEtcd(t)
	for _, err := range []error{
		second(c.RoleAdd(t.Context(), "root")), second(c.UserAdd(t.Context(), "root", "planted")), second(c.UserGrantRole(t.Context(), "root", "root")),
		second(c.UserAdd(t.Context(), "mallory", "planted")), second(c.UserGrantRole(t.Context(), "mallory", "root")), second(c.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	reader := aSecret(t, map[string]string{"identity": identity.String(), "authentication": authentication})
	trusting := aSecret(t, map[string]string{"identity": identity.String(), "authentication": "none"})
	for name, tc := range map[string]struct {
		writer      map[string]string
		reason      string
		whenTrusted string
	}{
		"plain":         {nil, "NotAuthentic", "NotEncrypted"},
		"encrypted":     {map[string]string{"recipients": identity.Recipient().String()}, "NotAuthentic", ""},
		"its own key":   {map[string]string{"recipients": identity.Recipient().String(), "authentication": "00000000000000000000000000000000"}, "NotAuthentic", ""},
		"the right key": {map[string]string{"recipients": identity.Recipient().String(), "authentication": authentication}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := aStore(t)
			storePlanted(t, url, "first", "1", member, tc.writer)
			for secret, want := range map[string]string{reader: tc.reason, trusting: tc.whenTrusted} {
				for what, run := range map[string]func() (string, error){
					"find": func() (string, error) {
						r, err := runJob(t, runBackupFind, "--url="+url, "--kind=EtcdCluster", "--directory=first", "--keys-dir="+secret)
						if r.Problem == nil {
							return "", err
						}
						return r.Problem.Reason, nil
					},
					"check": func() (string, error) {
						r, err := runJob(t, runBackupCheck, "--url="+url, "--directory=first", "--keys-dir="+secret, "--scratch-dir="+t.TempDir())
						if r.Problem == nil {
							return "", err
						}
						return r.Problem.Reason, nil
					},
					"restore": func() (string, error) { return restorePlanted(t, url, secret) },
				} {
					if got, err := run(); err != nil || got != want {
						t.Errorf("%s: %q, %v instead of %q", what, got, err, want)
					}
				}
			}
		})
	}
}

// restorePlanted restores the backup as a start gate does. Where that works, mallory is root of the restored member.
func restorePlanted(t *testing.T, url, secret string) (reason string, err error) {
	t.Helper()
	keys, err := backup.ReadKeys(secret)
	if err != nil {
		return "", err
	}
	s, err := backup.Open(t.Context(), backup.Location{URL: url})
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }()
	j := &backupJob{store: s, keys: keys}
	dir := filepath.Join(t.TempDir(), "data")
	_, err = j.restoreEtcd(t.Context(), etcdTarget{directory: "first"}, etcdrestore.Options{
		Dir: dir, RootPassword: "ours",
		Member: etcdrestore.Member{Name: "default", Cluster: map[string][]string{"default": {"http://localhost:2380"}}, Token: "t"},
	})
	if err != nil {
		if _, statErr := os.Stat(dir); !errors.Is(statErr, fs.ErrNotExist) {
			t.Errorf("a data directory is left: %v", statErr)
		}
		return problemOf(err).Reason, nil
	}
	return "", loginTo(t, dir, "mallory", "planted")
}

// loginTo starts a member on a data directory and logs in.
func loginTo(t *testing.T, dir, user, password string) error {
	t.Helper()
	url, _ := etcdOn(t, "etcd-3.6", dir)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Username: user, Password: password, DialTimeout: 30 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = c.UserList(t.Context())
	return err
}
