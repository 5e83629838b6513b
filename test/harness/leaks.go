package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness/leak"
)

// leakTimeout bounds the search in one namespace.
const leakTimeout = 2 * time.Minute

// Leaks looks for what is or was secret in a namespace of NewNamespace in everything else that can be read: the resources of the namespace with spec and status,
// its events, the logs of its containers and of the operator since it was made, and the command lines of all processes on the nodes. It
// says where it found what, without the secret itself, and in how many texts it looked.
func (c *Cluster) Leaks(ctx context.Context, ns string) (found []string, texts int, err error) {
	ctx, cancel := context.WithTimeout(ctx, leakTimeout)
	defer cancel()
	var list corev1.SecretList
	if err := c.List(ctx, &list, client.InNamespace(ns)); err != nil {
		return nil, 0, fmt.Errorf("list the Secrets of %s: %w", ns, err)
	}
	secrets, err := leak.Secrets(slices.Concat(list.Items, c.remembered(ns)))
	if err != nil || len(secrets) == 0 {
		return nil, 0, err
	}
	s := &search{Cluster: c, ns: ns, secrets: secrets}
	s.group.SetLimit(atOnce)
	s.objects(ctx)
	err = errors.Join(s.logs(ctx), s.processes(ctx), s.group.Wait())
	slices.Sort(s.found)
	return s.found, s.texts, err
}

// secretMemory has seen all Secrets of a namespace, also those that were changed or deleted since.
type secretMemory struct {
	forget context.CancelFunc
	mu     sync.Mutex
	seen   []corev1.Secret
}

// remember watches the Secrets of a namespace until it is deleted.
func (c *Cluster) remember(ctx context.Context, ns string) {
	ctx, forget := context.WithCancel(context.WithoutCancel(ctx))
	m := &secretMemory{forget: forget}
	c.secrets.Store(ns, m)
	go func() {
		for ctx.Err() == nil {
			if w, err := c.Watch(ctx, &corev1.SecretList{}, client.InNamespace(ns)); err == nil {
				m.keep(w) // Until the API server ends it, as it does from time to time.
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
}

func (m *secretMemory) keep(w watch.Interface) {
	defer w.Stop()
	for e := range w.ResultChan() {
		if s, ok := e.Object.(*corev1.Secret); ok {
			m.mu.Lock()
			m.seen = append(m.seen, *s)
			m.mu.Unlock()
		}
	}
}

func (c *Cluster) remembered(ns string) []corev1.Secret {
	m, ok := c.secrets.Load(ns)
	if !ok {
		return nil
	}
	memory := m.(*secretMemory)
	memory.mu.Lock()
	defer memory.mu.Unlock()
	return slices.Clone(memory.seen)
}

func (c *Cluster) forget(ns string) {
	if m, ok := c.secrets.LoadAndDelete(ns); ok {
		m.(*secretMemory).forget()
	}
}

// atOnce is how many texts are fetched at a time.
const atOnce = 8

// search is one look at everything.
type search struct {
	*Cluster
	ns      string
	secrets []leak.Secret
	group   errgroup.Group

	mu    sync.Mutex
	found []string
	texts int
}

func (s *search) look(where, text string) {
	names := leak.Texts(s.secrets, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts++
	for _, name := range names {
		s.found = append(s.found, fmt.Sprintf("Secret %s is in %s", name, where))
	}
}

// readable are the kinds that nothing secret may be in.
func readable() []client.ObjectList {
	return []client.ObjectList{
		&v1alpha1.EtcdClusterList{}, &v1alpha1.EtcdUserList{}, &v1alpha1.RedisClusterList{}, &v1alpha1.RedisUserList{}, &v1alpha1.BackupList{},
		&v1alpha1.BackupScheduleList{}, &v1alpha1.RestoreList{}, &v1alpha1.AutoscalerList{}, &corev1.PodList{}, &corev1.ConfigMapList{}, &corev1.EventList{}, &corev1.ServiceList{},
		&corev1.PersistentVolumeClaimList{}, &appsv1.StatefulSetList{}, &appsv1.ControllerRevisionList{}, &batchv1.JobList{}, &policyv1.PodDisruptionBudgetList{},
	}
}

func (s *search) objects(ctx context.Context) {
	for _, list := range readable() {
		s.group.Go(func() error {
			if err := s.List(ctx, list, client.InNamespace(s.ns)); err != nil {
				return fmt.Errorf("list what is in %s: %w", s.ns, err)
			}
			return meta.EachListItem(list, func(o runtime.Object) error {
				raw, err := json.Marshal(o)
				if err != nil {
					return fmt.Errorf("write an object as JSON: %w", err)
				}
				s.look(fmt.Sprintf("%T %s", o, o.(metav1.Object).GetName()), string(raw))
				return nil
			})
		})
	}
}

// logs reads the logs of all containers that there are, and of those that were there before them.
func (s *search) logs(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	if err := s.Get(ctx, client.ObjectKey{Name: s.ns}, namespace); err != nil {
		return fmt.Errorf("read namespace %s: %w", s.ns, err)
	}
	var pods corev1.PodList
	if err := s.List(ctx, &pods, client.InNamespace(s.ns)); err != nil {
		return fmt.Errorf("list the pods of %s: %w", s.ns, err)
	}
	managers, err := s.ManagerPods(ctx)
	if err != nil {
		return err
	}
	for _, p := range slices.Concat(pods.Items, managers) {
		for _, container := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			for _, previous := range []bool{false, true} {
				if container.ContainerID == "" || (previous && container.RestartCount == 0) {
					continue
				}
				s.group.Go(func() error { return s.log(ctx, &p, container.Name, previous, namespace.CreationTimestamp) })
			}
		}
	}
	return nil
}

func (s *search) log(ctx context.Context, p *corev1.Pod, container string, previous bool, since metav1.Time) error {
	o := &corev1.PodLogOptions{Container: container, Previous: previous, SinceTime: &since}
	text, err := s.Clients.CoreV1().Pods(p.Namespace).GetLogs(p.Name, o).DoRaw(ctx)
	if err != nil && !logIsGone(err) {
		return fmt.Errorf("read the log of %s in pod %s: %w", container, p.Name, err)
	}
	s.look(fmt.Sprintf("the log of %s in pod %s (previous: %v)", container, p.Name, previous), string(text))
	return nil
}

// logIsGone tells whether there is no log that could be read: the pod has left meanwhile, a container is yet to start, its node is down,
// or the container before was removed already.
func logIsGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// processes reads the command lines of all processes of all nodes that are up.
func (s *search) processes(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := s.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for _, node := range nodes.Items {
		if !isUp(&node) {
			continue
		}
		s.group.Go(func() error {
			// Processes end while it reads.
			lines, err := s.OnNode(ctx, node.Name, "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null || true")
			if err != nil {
				return err
			}
			if !strings.Contains(lines, "kubelet") {
				return fmt.Errorf("no kubelet is among the processes of node %s: this looks at the wrong place", node.Name)
			}
			s.look("the command line of a process on node "+node.Name, lines)
			return nil
		})
	}
	return nil
}

func isUp(node *corev1.Node) bool {
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == OutOfService }) {
		return false
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
