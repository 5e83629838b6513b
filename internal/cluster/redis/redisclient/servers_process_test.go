package redisclient_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	redisconfig "github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/test/stores"
)

type process struct {
	name, ip, dir  string
	shard, ordinal int
	cmd            *exec.Cmd
	gate           string
	started, ended time.Time // the process, and the one before it
	// version of the template that the pod was made from.
	version string
	// stuck says why the pod cannot start.
	stuck string
	// limit of the memory of the pod's container.
	limit int64
}

func (w *world) newIP(p *process) {
	w.change.Lock()
	defer w.change.Unlock()
	w.nextIP++
	p.ip = fmt.Sprintf("%s.%d", w.subnet, w.nextIP)
}

// kill ends a server as kill -9 does.
func (w *world) kill(p *process) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd, p.ended = nil, time.Now()
}

// terminate ends a server as the deletion of its pod does.
func (w *world) terminate(pods ...*process) {
	w.t.Helper()
	for _, p := range pods {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, p := range pods {
		_ = p.cmd.Wait()
		p.cmd, p.ended = nil, time.Now()
	}
}

// recreate starts the successor of a deleted pod: it has another address, and the volume unless it is lost.
func (w *world) recreate(p *process, loseDisk bool) {
	w.t.Helper()
	w.newIP(p)
	w.recreateAt(p, p.ip, loseDisk)
}

// recreateAt does so at an address that another server may have had before.
func (w *world) recreateAt(p *process, ip string, loseDisk bool) {
	w.t.Helper()
	if loseDisk {
		p.dir = w.t.TempDir()
	}
	w.change.Lock()
	p.ip = ip
	w.change.Unlock()
	w.start(p)
}

// start does what the gate and then the server's container do.
func (w *world) start(p *process) {
	w.t.Helper()
	nodes, err := os.ReadFile(filepath.Join(p.dir, model.NodesFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(p.dir, model.AppendDir, "*.manifest"))
	if err != nil {
		w.t.Fatal(err)
	}
	disk := gate.Disk{Nodes: string(nodes), Data: len(manifests) > 0, Server: software.Release{Engine: w.cluster.Spec.ServerEngine(), Version: w.cluster.Spec.Version}}
	if disk.Data {
		disk.Writer = w.writerOf(p, manifests[0])
	}
	decision := w.gate(disk)
	p.gate = decision.Message
	if !decision.Start {
		w.t.Fatalf("the gate holds %s: %s", p.name, decision.Message)
	}
	if decision.Retire {
		if err := os.Remove(filepath.Join(p.dir, model.NodesFile)); err != nil {
			w.t.Fatal(err)
		}
	}
	if decision.SetAside {
		if err := os.RemoveAll(filepath.Join(p.dir, model.AppendDir)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.writeFiles(p, decision.Admit)
	p.version, p.limit = w.cluster.Spec.Version, redisconfig.MemoryLimit(w.cluster.Spec.Resources)
	w.run(p)
}

// writerOf reads which server wrote what lies on the volume of a pod.
func (w *world) writerOf(p *process, manifest string) software.Release {
	w.t.Helper()
	text, err := os.ReadFile(manifest)
	if err != nil {
		w.t.Fatal(err)
	}
	head, err := os.ReadFile(filepath.Join(p.dir, model.AppendDir, gate.BaseFile(string(text))))
	if err != nil {
		w.t.Fatal(err)
	}
	writer := gate.RDBWriter(head)
	if writer.Version == "" {
		w.t.Errorf("%s does not tell who wrote it: %q", manifest, head[:min(len(head), 64)])
	}
	return writer
}

// run starts the process alone, as a restart in place does.
func (w *world) run(p *process) {
	w.t.Helper()
	p.cmd = exec.CommandContext(context.Background(), w.binary, filepath.Join(p.dir, redisconfig.ConfigKey)) //nolint:usetesting // killed in Cleanup
	p.started = time.Now()
	stores.Start(w.t, p.cmd, filepath.Join(p.dir, "server.log"))
}

func (w *world) writeFiles(p *process, admit bool) {
	w.t.Helper()
	common, err := redisconfig.Config(&w.cluster.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := redisconfig.PodConfig(common, redisconfig.PodFacts{
		Name: p.name, IP: p.ip, Host: w.host(p.name), Engine: string(w.cluster.Spec.ServerEngine()), Version: w.cluster.Spec.Version,
		ReplicationPassword: w.access().ReplicationPassword(p.name),
		Announcement:        w.announcement(p.name), Replicated: w.cluster.Spec.IsReplicated(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	// The paths of a pod become those of the test. bind keeps the servers of one machine apart.
	config = strings.NewReplacer("/run/quorate", p.dir, "dir /data", "dir "+p.dir, "/etc/quorate/tls", p.dir).Replace(config) +
		"bind " + p.ip + "\nbind-source-addr " + p.ip + "\n"
	users, err := w.access().Users(p.name, software.Release{Engine: w.cluster.Spec.ServerEngine(), Version: w.cluster.Spec.Version})
	if err != nil {
		w.t.Fatal(err)
	}
	for name, text := range map[string]string{
		redisconfig.ConfigKey: config, redisconfig.UsersFile: acl.UsersText(users, admit),
		"tls.crt": string(w.leaf.Cert), "tls.key": string(w.leaf.Key), "ca.crt": string(w.ca.Cert),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) host(pod string) string {
	return cluster.PodHost(pod, w.cluster.Name, w.cluster.Namespace, domain)
}

// squat starts a server of another cluster at an address.
func (w *world) squat(ip string) {
	w.t.Helper()
	dir := w.t.TempDir()
	foreign := exec.CommandContext(context.Background(), w.binary, "--bind", ip, "--port", "6379", "--cluster-enabled", "yes", //nolint:usetesting // killed in Cleanup
		"--dir", dir, "--requirepass", "foreign", "--protected-mode", "no")
	if err := foreign.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = foreign.Process.Kill()
		_ = foreign.Wait()
	})
}
