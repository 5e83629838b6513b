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
	"strings"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	redisconfig "github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// terminationLog is where Kubernetes picks up a container's last words.
const terminationLog = "/dev/termination-log"

// redisGate is what the start gate of a Redis pod works with.
type redisGate struct {
	engine, version, domain             string
	needPassword, replicated            bool
	configDir, authDir, dataDir, runDir string
	podName, podIP                      string
	lastWords                           string
	now                                 func() time.Time
}

// runGateRedis writes a server's configuration and decides whether it may start. It runs before the server in every
// pod, with the environment variables POD_NAME and POD_IP.
func runGateRedis(_ context.Context, args []string) error {
	g := redisGate{podName: os.Getenv("POD_NAME"), podIP: os.Getenv("POD_IP"), lastWords: terminationLog, now: time.Now}
	flags := flag.NewFlagSet("gate redis", flag.ContinueOnError)
	flags.StringVar(&g.engine, "engine", "redis", "redis or valkey")
	flags.StringVar(&g.version, "version", "", "version of the server")
	flags.StringVar(&g.domain, "domain", "", "domain that the pod's name is completed with to a host name")
	flags.BoolVar(&g.needPassword, "auth", true, "whether clients need a password")
	flags.BoolVar(&g.replicated, "replicated", false, "whether there is one primary and no cluster protocol")
	flags.StringVar(&g.configDir, "config-dir", manifests.GateConfigDir, "directory of the ConfigMap")
	flags.StringVar(&g.authDir, "auth-dir", manifests.GateAuthDir, "directory of the passwords")
	flags.StringVar(&g.dataDir, "data-dir", manifests.GateDataDir, "data directory of the server")
	flags.StringVar(&g.runDir, "run-dir", manifests.GateRunDir, "directory to write the configuration to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	message, err := g.run()
	if err != nil {
		message = err.Error()
	}
	if message != "" {
		fmt.Println(message)
		g.say(message)
	}
	return err
}

// say leaves a message in the pod's status. It is a courtesy: that it cannot be delivered changes nothing.
func (g redisGate) say(message string) {
	if err := os.WriteFile(g.lastWords, []byte(message), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "agent: leave a message in the pod's status:", err)
	}
}

func (g redisGate) run() (message string, err error) {
	if g.podName == "" || g.podIP == "" {
		return "", errors.New("POD_NAME and POD_IP must be set")
	}
	disk, err := readDisk(g.dataDir, g.software())
	if err != nil {
		return "", err
	}
	decide := gate.Decide
	if g.replicated {
		decide = gate.DecideReplicated
	}
	decision := decide(disk)
	if !decision.Start {
		return "", fmt.Errorf("%s%s", gate.HeldBack, decision.Message)
	}
	if decision.Retire {
		aside := filepath.Join(g.dataDir, model.NodesFile+".retired-"+g.now().UTC().Format("20060102T150405Z"))
		if err := os.Rename(filepath.Join(g.dataDir, model.NodesFile), aside); err != nil {
			return "", fmt.Errorf("set %s aside: %w", model.NodesFile, err)
		}
	}
	if decision.SetAside {
		if err := setAppendFilesAside(g.dataDir); err != nil {
			return "", err
		}
	}
	return decision.Message, g.writeConfig(decision.Admit)
}

// setAppendFilesAside moves append-only files out of the way of the server. There is room for one such copy at a time.
func setAppendFilesAside(dir string) error {
	from := filepath.Join(dir, model.AppendDir)
	to := from + ".set-aside"
	if err := errors.Join(os.RemoveAll(to), os.Rename(from, to)); err != nil {
		return fmt.Errorf("set the append-only files aside: %w", err)
	}
	return nil
}

func (g redisGate) writeConfig(admitReplicas bool) error {
	common, err := os.ReadFile(filepath.Join(g.configDir, redisconfig.ConfigKey))
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	announcement, err := g.announcement()
	if err != nil {
		return err
	}
	passwords, err := readPasswords(g.authDir)
	if err != nil {
		return err
	}
	access := acl.Access{Passwords: passwords, Open: !g.needPassword, Replicated: g.replicated}
	users, err := access.Users(g.podName, g.software())
	if err != nil {
		return err
	}
	config, err := redisconfig.PodConfig(string(common), redisconfig.PodFacts{
		Name: g.podName, IP: g.podIP, Host: g.podName + "." + g.domain, Engine: g.engine, Version: g.version,
		ReplicationPassword: access.ReplicationPassword(g.podName),
		Announcement:        announcement, Replicated: g.replicated,
	})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(g.runDir, redisconfig.UsersFile), []byte(acl.UsersText(users, admitReplicas)), 0o600),
		os.WriteFile(filepath.Join(g.runDir, redisconfig.ConfigKey), []byte(config), 0o600), //nolint:gosec // a path of our own pod
	)
}

// announcement is what the ConfigMap says of where the pod is reached from outside.
func (g redisGate) announcement() (model.Announcement, error) {
	raw, err := os.ReadFile(filepath.Join(g.configDir, redisconfig.AnnounceKey))
	if errors.Is(err, fs.ErrNotExist) {
		return model.Announcement{}, nil
	}
	if err != nil {
		return model.Announcement{}, fmt.Errorf("read announcements: %w", err)
	}
	all, err := redisconfig.ReadAnnouncements(raw)
	return all[g.podName], err
}

// readPasswords reads the auth Secret: beside the passwords in use there may be their successors or predecessors.
func readPasswords(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "[a-z]*")) // The kubelet's own begin with two dots.
	if err != nil {
		return nil, fmt.Errorf("look for passwords: %w", err)
	}
	passwords := map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file) //nolint:gosec // a path of our own pod
		if err != nil {
			return nil, fmt.Errorf("read password: %w", err)
		}
		passwords[filepath.Base(file)] = string(raw)
	}
	return passwords, nil
}

func (g redisGate) software() software.Release {
	return software.Release{Engine: v1alpha1.RedisEngine(g.engine), Version: g.version}
}

// readDisk returns what an earlier server left in the data directory of the given one.
func readDisk(dir string, server software.Release) (gate.Disk, error) {
	nodes, err := os.ReadFile(filepath.Join(dir, model.NodesFile)) //nolint:gosec // a path of our own pod
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return gate.Disk{}, fmt.Errorf("read %s: %w", model.NodesFile, err)
	}
	found, head, err := readData(dir)
	if err != nil {
		return gate.Disk{}, err
	}
	disk := gate.Disk{Nodes: strings.TrimSpace(string(nodes)), Data: found, Writer: gate.RDBWriter(head), Server: server}
	disk.Foreign = disk.Writer.Engine != "" && disk.Writer.Engine != server.Engine && !reads(server, disk.Writer, head)
	return disk, nil
}

// reads reports whether a server reads a dump that another engine wrote, as far as the beginning of the dump tells.
func reads(server, writer software.Release, head []byte) bool {
	version, err := redisdump.VersionOf(head)
	if err != nil {
		return true // What is damaged is for the server to complain about.
	}
	dump := func(s software.Release) redisdump.Software {
		return redisdump.Software{Engine: string(s.Engine), Version: s.Version}
	}
	return !errors.Is(redisdump.Compatible(dump(writer), version, dump(server)), redisdump.ErrIncompatible)
}

// readData reports whether there are append-only files that the server would load, and returns the beginning of their base. The manifest
// lists them; without it the server starts empty, whatever else lies around. A dump is such a thing: replicas leave one
// behind when they sync.
func readData(dir string) (found bool, head []byte, err error) {
	manifests, err := filepath.Glob(filepath.Join(dir, model.AppendDir, "*.manifest"))
	if err != nil {
		return false, nil, fmt.Errorf("look for append-only files: %w", err)
	}
	for _, name := range manifests {
		manifest, err := os.ReadFile(name) //nolint:gosec // a path of our own pod
		if err != nil {
			return false, nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(manifest) == 0 {
			continue
		}
		head, err := headOfBase(filepath.Join(dir, model.AppendDir), string(manifest))
		return true, head, err
	}
	return false, nil, nil
}

// headOfBase reads the beginning of the base of the append-only files, nil when there is none.
func headOfBase(dir, manifest string) ([]byte, error) {
	base := gate.BaseFile(manifest)
	if base == "" {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(dir, filepath.Base(base))) //nolint:gosec // a path of our own pod
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // What is missing is for the server to complain about.
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", base, err)
	}
	defer func() { _ = f.Close() }() // Nothing was written.
	head := make([]byte, 128)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s: %w", base, err)
	}
	return head[:n], nil
}
