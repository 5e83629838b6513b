package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

const shellHelp = `Start the data store's own client, connected and logged in: etcdctl, redis-cli or valkey-cli.

It runs in a pod of its own, from the image of the cluster, with the connection Secret as files: no credential is in the
arguments of a process, in the specification of a pod or on this machine. Etcd images have no shell, so that a client could
not be given credentials inside of a member. The pod is deleted at the end, and ends by itself after --ttl.

What follows -- is one command: its output is printed and its exit code is returned. Without one, the client reads from the
terminal, or from the standard input line by line.`

const shellExamples = `  kubectl quorate shell rediscluster/carts
  kubectl quorate shell etcdcluster/orders -- get --prefix /registry --keys-only
  kubectl quorate shell rediscluster/carts --pod carts-0-1 -- INFO replication
  echo 'GET cart:1' | kubectl quorate shell rediscluster/carts`

// shellOptions are the flags of shell.
type shellOptions struct {
	pod  string
	ttl  time.Duration
	args []string
}

func newShell(s *session) *cobra.Command {
	var o shellOptions
	cmd := &cobra.Command{
		Use: "shell kind/name [-- arguments]", Short: "Start the data store's own client, connected and logged in", Long: shellHelp, Example: shellExamples,
		ValidArgsFunction: s.completeCluster,
		Args: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				args = args[:at]
			}
			return oneCluster(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = args[1:]
			return s.shell(cmd.Context(), args[0], o)
		},
	}
	cmd.Flags().StringVar(&o.pod, "pod", "", "pod of the server to connect to; default: the one that the Service leads to")
	cmd.Flags().DurationVar(&o.ttl, "ttl", 8*time.Hour, "when the pod ends by itself")
	return cmd
}

func (s *session) shell(ctx context.Context, arg string, o shellOptions) error {
	c, found, err := s.cluster(ctx, arg)
	if err != nil {
		return err
	}
	template, err := templateOf(ctx, c, found)
	if err != nil {
		return err
	}
	if template == nil {
		return fmt.Errorf("%s has no servers yet: wait until it is Ready (kubectl quorate status --watch)", found.GetName())
	}
	pod, err := shellPod(found, template, o, s.typed && len(o.args) == 0)
	if err != nil {
		return err
	}
	if err := c.Create(ctx, pod); err != nil {
		return fmt.Errorf("make a pod for the client: %w", err)
	}
	defer s.removePod(ctx, c, pod)
	if err := s.waitForShell(ctx, c, pod); err != nil {
		return err
	}
	clients, cfg, err := s.clientset()
	if err != nil {
		return err
	}
	if pod.Spec.Containers[0].Stdin {
		return s.talk(ctx, c, clients, cfg, pod)
	}
	return s.listen(ctx, c, clients, pod)
}

// removePod deletes the pod also when the person has interrupted the command.
func (s *session) removePod(ctx context.Context, c client.Client, pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := client.IgnoreNotFound(c.Delete(ctx, pod, client.GracePeriodSeconds(0))); err != nil {
		s.say("pod %s is left behind: kubectl -n %s delete pod %[1]s (%[3]v)", pod.Name, pod.Namespace, err)
	}
}

// templateOf is what the servers of a cluster are made from, nil while there are none.
func templateOf(ctx context.Context, c client.Reader, o clusterObject) (*corev1.PodSpec, error) {
	component := v1alpha1.ComponentEtcd
	if kindOf(o) == v1alpha1.KindRedisCluster {
		component = v1alpha1.ComponentRedis
	}
	var sets appsv1.StatefulSetList
	if err := c.List(ctx, &sets, client.InNamespace(o.GetNamespace()), client.MatchingLabels(cluster.Selector(o.GetName(), component))); err != nil {
		return nil, fmt.Errorf("list the StatefulSets of %s: %w", o.GetName(), err)
	}
	for i := range sets.Items {
		if metav1.IsControlledBy(&sets.Items[i], o) {
			return &sets.Items[i].Spec.Template.Spec, nil
		}
	}
	return nil, nil
}

// waitForShell waits until the client runs, or has run.
func (s *session) waitForShell(ctx context.Context, c client.WithWatch, pod *corev1.Pod) error {
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the pod of the client did not start within %s", patience))
	defer cancel()
	return s.follow(ctx, c, &corev1.PodList{}, client.ObjectKeyFromObject(pod), func(o client.Object) (string, bool, error) {
		p, ok := o.(*corev1.Pod)
		if !ok {
			return "", false, nil
		}
		for _, st := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if w := st.State.Waiting; w != nil && w.Message != "" {
				return "the client does not start yet: " + w.Reason + ": " + w.Message, false, nil
			}
		}
		return "", p.Status.Phase != corev1.PodPending, nil
	})
}

// listen prints what one command prints, and returns its exit code as an error.
func (s *session) listen(ctx context.Context, c client.WithWatch, clients kubernetes.Interface, pod *corev1.Pod) error {
	logs, err := clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: containerShell, Follow: true}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("read what the client prints: %w", err)
	}
	_, err = io.Copy(s.out, logs)
	if err = errors.Join(err, logs.Close()); err != nil {
		return fmt.Errorf("read what the client prints: %w", err)
	}
	return s.ended(ctx, c, pod)
}

// ended waits for the end of the client and returns its exit code as an error.
func (s *session) ended(ctx context.Context, c client.WithWatch, pod *corev1.Pod) error {
	var code int32
	err := s.follow(ctx, c, &corev1.PodList{}, client.ObjectKeyFromObject(pod), func(o client.Object) (string, bool, error) {
		p, ok := o.(*corev1.Pod)
		if !ok {
			return "", false, nil
		}
		for _, st := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if t := st.State.Terminated; t != nil {
				code = max(code, t.ExitCode)
			}
		}
		return "", p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed, nil
	})
	if err == nil && code != 0 {
		return exitCode(code)
	}
	return err
}

// talk connects the client with the terminal, or with the standard input.
func (s *session) talk(ctx context.Context, c client.WithWatch, clients kubernetes.Interface, cfg *rest.Config, pod *corev1.Pod) error {
	tty := pod.Spec.Containers[0].TTY
	request := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Container: containerShell, Stdin: true, Stdout: true, Stderr: !tty, TTY: tty}, clientgoscheme.ParameterCodec)
	// Older API servers speak SPDY alone, as with kubectl.
	web, err := remotecommand.NewWebSocketExecutor(cfg, "GET", request.URL().String())
	if err != nil {
		return fmt.Errorf("attach to the client: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(cfg, "POST", request.URL())
	if err != nil {
		return fmt.Errorf("attach to the client: %w", err)
	}
	both, err := remotecommand.NewFallbackExecutor(web, spdy, func(error) bool { return true })
	if err != nil {
		return fmt.Errorf("attach to the client: %w", err)
	}
	options := remotecommand.StreamOptions{Stdin: s.in, Stdout: s.out, Tty: tty}
	if !tty {
		options.Stderr = s.err
		if err := both.StreamWithContext(ctx, options); err != nil {
			return fmt.Errorf("talk to the client: %w", err)
		}
		return s.ended(ctx, c, pod)
	}
	s.say("press enter for a prompt; exit or ctrl-D ends it")
	restore, err := raw()
	if err != nil {
		return err
	}
	defer restore()
	options.TerminalSizeQueue = &screen{}
	if err := both.StreamWithContext(ctx, options); err != nil {
		return fmt.Errorf("talk to the client: %w", err)
	}
	return nil // How a person ends it is no error.
}

// raw lets every key reach the client.
func raw() (restore func(), err error) {
	fd := int(os.Stdin.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("prepare the terminal: %w", err)
	}
	return func() { _ = term.Restore(fd, before) }, nil
}

// screen tells the size of the terminal once.
type screen struct{ told bool }

// Next is the size, nil when there is no other one.
func (s *screen) Next() *remotecommand.TerminalSize {
	if s.told {
		return nil
	}
	s.told = true
	width, height, err := term.GetSize(int(os.Stdin.Fd()))
	if err != nil {
		return nil
	}
	return &remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)} //nolint:gosec // Terminals are not that large.
}
