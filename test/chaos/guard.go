package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quorate/quorate/test/harness"
	"github.com/quorate/quorate/test/skew"
)

// GuardVariable is set in the environment of a program that is to be a guard, see Guard.
const GuardVariable = "QUORATE_CHAOS_GUARD"

// Guard is what a program does that was started as a guard: it waits for the end of the run that started it, which closes its standard
// input however it ends, and puts back what that has left. It returns the exit code.
func Guard() int {
	log.SetLogger(logr.Discard())
	_, _ = io.Copy(io.Discard, os.Stdin) // Whatever ends it, the run is over.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c, err := harness.Connect(ctx)
	if err == nil {
		err = PutBack(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		return 1
	}
	return 0
}

// watchOver starts a guard, in a process group of its own so that it outlives an interrupt. release lets it go and waits for it.
func watchOver(ctx context.Context) (release func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self)
	cmd.Env = append(os.Environ(), GuardVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return func() error { return errors.Join(stdin.Close(), cmd.Wait()) }, nil
}

// mend puts back what faults change within a node: rules of the packet filter, the queue of its network card, processes that were stopped, their
// clocks, and the file that fills the disk.
const mend = `iptables -w -S | grep -- '--comment ` + mark + `' | sed 's/^-A/iptables -w -D/' | sh
tc qdisc del dev eth0 root 2>/dev/null
for status in /proc/[0-9]*/status; do
  if grep -q '^State:.T' "$status" 2>/dev/null; then pid=${status#/proc/}; kill -CONT "${pid%/status}"; fi
done
rm -f ` + filler + `
set -- $(ctr -n k8s.io tasks ls | awk 'NR > 1 { print $2 }')
` + skew.End + `
true`

// PutBack ends every fault that there may be, of this run or of one before. It does nothing where nothing is broken.
func PutBack(ctx context.Context, c *harness.Cluster) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range nodes { // The API server's comes first: the others need it.
		errs = append(errs, revive(ctx, c, node))
		_, err := c.OnNode(ctx, node, "sh", "-c", mend)
		errs = append(errs, err)
	}
	for _, node := range nodes {
		errs = append(errs, harness.Eventually(ctx, "node "+node+" to be in service", 2*time.Minute, func(ctx context.Context) (bool, string, error) {
			err := c.BackInService(ctx, node)
			if err == nil {
				_, err = c.Run(ctx, "uncordon", node)
			}
			return err == nil, "it is not", err
		}))
	}
	return errors.Join(errs...)
}

// revive lets a node run that was paused or stopped.
func revive(ctx context.Context, c *harness.Cluster, node string) error {
	state, err := c.Docker(ctx, "inspect", "--format", "{{.State.Status}}", node)
	switch {
	case err != nil:
		return err
	case state == "paused":
		_, err = c.Docker(ctx, "unpause", node)
		return err
	case state != "running":
		return c.StartNode(ctx, node)
	}
	return nil
}

func (r *runner) putBack(ctx context.Context) error { return PutBack(ctx, r.Cluster) }

// leftovers are namespaces of runs that were killed.
func (r *runner) leftovers(ctx context.Context) error {
	var all corev1.NamespaceList
	if err := r.List(ctx, &all); err != nil {
		return fmt.Errorf("look for what former runs have left: %w", err)
	}
	for _, ns := range slices.DeleteFunc(all.Items, func(ns corev1.Namespace) bool { return !strings.HasPrefix(ns.Name, namespace+"-") }) {
		if err := r.DeleteNamespace(ctx, ns.Name); err != nil {
			return err
		}
	}
	return nil
}
