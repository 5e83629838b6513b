package redisclient_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
)

// lastWords is what the pod of a server does before that is told to end, with the files that a Secret brings to it.
func (w *world) lastWords(ctx context.Context, p *process, secret map[string]string) *exec.Cmd {
	w.t.Helper()
	b := manifests.Builder{Cluster: w.cluster, Owner: metav1ac.OwnerReference().WithName("carts"), Domain: domain, AgentImage: "quorate:1"}
	if w.secure() {
		b.TLSSecret = "carts-server-tls"
	}
	tpl, err := b.Template(p.shard)
	if err != nil {
		w.t.Fatal(err)
	}
	volumes := map[string]*corev1ac.SecretVolumeSourceApplyConfiguration{}
	for _, v := range tpl.Spec.Volumes {
		volumes[*v.Name] = v.Secret
	}
	server := tpl.Spec.Containers[0]
	script := strings.ReplaceAll(server.Lifecycle.PreStop.Exec.Command[2], "127.0.0.1", p.ip)
	for _, m := range server.VolumeMounts {
		dir := p.dir
		if *m.Name == "replication" {
			dir = w.t.TempDir()
			for _, item := range volumes[*m.Name].Items {
				if text, ok := secret[*item.Key]; ok {
					must(w.t, os.WriteFile(filepath.Join(dir, *item.Path), []byte(text), 0o600))
				}
			}
		}
		script = strings.ReplaceAll(script, *m.MountPath+"/", dir+"/")
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(w.binary)+":"+os.Getenv("PATH"))
	return cmd
}

// TestAPrimaryWaitsToHandOverAfterItsPasswordWasReplaced runs what a pod does before it ends, for what a Secret brings to it while its
// passwords are replaced and afterwards: the server takes other ones than those that its configuration holds.
func TestAPrimaryWaitsToHandOverAfterItsPasswordWasReplaced(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newReplicatedWorld(t, engine, 1, secure)
		w.startAll()
		w.settle()
		introduced := acl.Introduce(w.passwords, map[string]string{
			acl.PasswordDefault: "second", acl.PasswordOperator: "second-op", acl.PasswordReplication: `second "\\x41`, acl.PasswordMigration: "second-mig",
		})
		w.passwords = introduced
		w.settle()
		time.Sleep(hold)
		w.settle()
		if (acl.Access{Passwords: w.passwords}).Replacing() {
			t.Fatalf("the passwords are still being replaced\n%s", strings.Join(w.steps, "\n"))
		}
		for name, secret := range map[string]map[string]string{
			"the Secret of now": w.passwords, "what it was two phases ago": introduced,
		} {
			from, to := w.lead(), w.pods["carts-0-1"]
			if from == to {
				to = w.pods["carts-0-0"]
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			cmd := w.lastWords(ctx, from, secret)
			ended := make(chan error, 1)
			go func() { ended <- cmd.Run() }()
			select {
			case err := <-ended:
				t.Fatalf("%s: it does not wait for the hand-over: %v", name, err)
			case <-time.After(2 * time.Second):
			}
			w.handsOver(from, to)
			select {
			case err := <-ended:
				must(t, err)
			case <-time.After(5 * time.Second):
				t.Fatalf("%s: it has not noticed the hand-over", name)
			}
			cancel()
			w.settle()
		}
	})
}
