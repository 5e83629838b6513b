// Package stores finds the data stores' own programs for tests that run real servers.
package stores

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/quorate/quorate/test/need"
)

// Etcds are the minor versions of etcd that are supported, the oldest first.
var Etcds = []string{"etcd-3.5", "etcd-3.6", "etcd-3.7"}

// Server is an installed version of a data store.
type Server struct {
	// Name of the data store: etcd, redis or valkey. Dir is where its programs are.
	Name, Version, Dir string
}

// Program is the path of the server's own program.
func (s Server) Program() string {
	if s.Name == "etcd" {
		return s.Tool("etcd")
	}
	return s.Tool(s.Name + "-server")
}

// Tool is the path of another program that comes with it.
func (s Server) Tool(name string) string { return filepath.Join(s.Dir, name) }

// Newest finds the newest patch of a minor version, such as "etcd-3.6", below $QUORATE_SERVERS, which is where hack/kind keeps them unless it is
// set. `make test-unit` builds them.
func Newest(tb testing.TB, minor string) Server {
	tb.Helper()
	dir := os.Getenv("QUORATE_SERVERS")
	if dir == "" {
		cache := os.Getenv("QUORATE_CACHE")
		if cache == "" {
			user, err := os.UserCacheDir()
			if err != nil {
				tb.Fatal(err)
			}
			cache = filepath.Join(user, "quorate")
		}
		dir = filepath.Join(cache, "servers")
	}
	name, _, _ := strings.Cut(minor, "-")
	var found []Server
	dirs, err := filepath.Glob(filepath.Join(dir, minor+".*", "bin"))
	for _, d := range dirs {
		found = append(found, Server{name, strings.TrimPrefix(filepath.Base(filepath.Dir(d)), name+"-"), d})
	}
	if err != nil || len(found) == 0 {
		need.Missing(tb, "no %s under %s: run `make test-unit`, or set QUORATE_SERVERS to the directory that holds it", minor, dir)
	}
	return slices.MaxFunc(found, func(a, b Server) int {
		order, err := version.MustParseGeneric(a.Version).Compare(b.Version)
		if err != nil {
			tb.Fatal(err)
		}
		return order
	})
}

// Start starts a server that writes what it says to a file. To wait for the command is to wait, for 10 s at most, for what the server has
// forked, too: a child of Redis outlives a server that is killed, and writes to the directory that the test is about to remove.
func Start(tb testing.TB, server *exec.Cmd, file string) {
	tb.Helper()
	log, err := os.Create(file)
	if err != nil {
		tb.Fatal(err)
	}
	server.Stdout = struct{ io.Writer }{log} // Not a file for exec, which gives it a pipe that children hold open.
	server.Stderr = server.Stdout
	server.WaitDelay = 10 * time.Second
	if err := server.Start(); err != nil {
		tb.Fatal(err)
	}
}
