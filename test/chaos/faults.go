package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/chaos/report"
	"github.com/quorate/quorate/test/chaos/schedule"
	"github.com/quorate/quorate/test/harness"
	"github.com/quorate/quorate/test/skew"
)

// errSkip says that a fault would break more than is covered, as things are.
var errSkip = errors.New("not made")

// undo ends a fault. One that is over at once has none.
type undo func(context.Context) error

// onPods are the faults of pods: they are given the one that was chosen, or all of them.
var onPods = map[string]func(context.Context, *runner, *target, []corev1.Pod, schedule.Fault) (undo, error){
	"pod-delete": deletePods,
	"all-pods":   deletePods,
	"kill": func(ctx context.Context, r *runner, t *target, pods []corev1.Pod, _ schedule.Fault) (undo, error) {
		return nil, r.KillProcess(ctx, &pods[0], t.container)
	},
	"stop": func(ctx context.Context, r *runner, t *target, pods []corev1.Pod, _ schedule.Fault) (undo, error) {
		return r.stopProcess(ctx, &pods[0], t.container)
	},
	"oom":       exhaust,
	"corrupt":   corrupt,
	"disk-lost": loseDisk,
	"pod-cut":   cutPod,
	"peers-cut": cutPeers,
	"clock": func(ctx context.Context, r *runner, t *target, pods []corev1.Pod, f schedule.Fault) (undo, error) {
		return r.skewClock(ctx, &pods[0], t.container, f.Skew)
	},
}

// onNodes are the faults of nodes.
var onNodes = map[string]func(context.Context, *runner, string) (undo, error){
	"node-pause": func(ctx context.Context, r *runner, node string) (undo, error) {
		_, err := r.Docker(ctx, "pause", node)
		return func(ctx context.Context) error {
			_, err := r.Docker(ctx, "unpause", node)
			return err
		}, err
	},
	"node-stop": func(ctx context.Context, r *runner, node string) (undo, error) {
		_, err := r.Docker(ctx, "kill", node)
		return func(ctx context.Context) error { return r.StartNode(ctx, node) }, err
	},
	"node-lost": func(ctx context.Context, r *runner, node string) (undo, error) {
		err := r.StopNode(ctx, node)
		return func(ctx context.Context) error { return r.StartNode(ctx, node) }, err
	},
	"node-cut": func(ctx context.Context, r *runner, node string) (undo, error) {
		return r.drop(ctx, []string{node}, "INPUT -i eth0", "OUTPUT -o eth0", "FORWARD -i eth0", "FORWARD -o eth0")
	},
	"node-slow": slow,
	"disk-full": fill,
}

// onWorld are the faults of what all clusters depend on.
var onWorld = map[string]func(context.Context, *runner, *report.Fault) (undo, error){
	"operator-kill": func(ctx context.Context, r *runner, f *report.Fault) (undo, error) {
		leader, err := r.leader(ctx)
		if err != nil {
			return nil, err
		}
		f.Target = leader.Name
		return nil, r.KillProcess(ctx, leader, managerContainer)
	},
	"operator-stop": func(ctx context.Context, r *runner, f *report.Fault) (undo, error) {
		leader, err := r.leader(ctx)
		if err != nil {
			return nil, err
		}
		f.Target = leader.Name
		return r.stopProcess(ctx, leader, managerContainer)
	},
	"operator-clock": func(ctx context.Context, r *runner, f *report.Fault) (undo, error) {
		leader, err := r.leader(ctx)
		if err != nil {
			return nil, err
		}
		f.Target = leader.Name
		return r.skewClock(ctx, leader, managerContainer, f.Drawn.Skew)
	},
	"operator-cut": func(ctx context.Context, r *runner, f *report.Fault) (undo, error) {
		managers, err := r.ManagerPods(ctx)
		if err != nil {
			return nil, err
		}
		var rules []string
		for _, m := range managers {
			rules = append(rules, "FORWARD -s "+m.Status.PodIP+" -p tcp -m multiport --dports 2379,6379")
		}
		f.Target = fmt.Sprintf("%d managers", len(managers))
		return r.drop(ctx, append([]string{r.control}, r.workers...), rules...)
	},
	"api-stop": func(ctx context.Context, r *runner, f *report.Fault) (undo, error) {
		f.Target = r.control
		_, err := r.OnNode(ctx, r.control, "pkill", "-STOP", "-x", "kube-apiserver")
		return func(ctx context.Context) error {
			_, err := r.OnNode(ctx, r.control, "pkill", "-CONT", "-x", "kube-apiserver")
			return err
		}, err
	},
	"dns-loss": func(ctx context.Context, r *runner, f *report.Fault) (undo, error) {
		f.Target = "all nodes"
		return r.drop(ctx, append([]string{r.control}, r.workers...), "FORWARD -p udp --dport 53", "FORWARD -p tcp --dport 53")
	},
}

const (
	managerContainer = "manager"
	// mark is the comment of the rules that faults make.
	mark = "quorate-chaos"
)

// blow makes a fault. What it returns ends it.
func (r *runner) blow(ctx context.Context, began time.Time, f *report.Fault) (undo, error) {
	switch f.Kind().Scope {
	case schedule.Pod:
		t := r.target(f.Drawn.Cluster)
		pods, err := r.choose(ctx, t, began, f.Drawn)
		if err != nil {
			return nil, err
		}
		f.Clusters, f.Target = []string{t.Name}, names(pods)
		return onPods[f.Drawn.Kind](ctx, r, t, pods, f.Drawn)
	case schedule.Node:
		f.Clusters = r.names()
		node, err := r.chooseNode(ctx, f)
		if err != nil {
			return nil, err
		}
		f.Target = node
		return onNodes[f.Drawn.Kind](ctx, r, node)
	default:
		f.Clusters = r.names()
		return onWorld[f.Drawn.Kind](ctx, r, f)
	}
}

func (r *runner) names() []string {
	var out []string
	for _, t := range r.targets {
		out = append(out, t.Name)
	}
	return out
}

func names(pods []corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

// newcomer is how long a fault waits for a pod that is younger than its round.
const newcomer = 40 * time.Second

// choose finds the pods that a fault is for.
func (r *runner) choose(ctx context.Context, t *target, began time.Time, f schedule.Fault) ([]corev1.Pod, error) {
	pods, err := r.Pods(ctx, r.ns, t.Name, t.component)
	if err != nil || f.Kind == "all-pods" {
		return pods, err
	}
	if f.Role == schedule.Newest {
		return r.youngest(ctx, t, began)
	}
	leads, err := t.leads(ctx, r)
	if err != nil {
		return nil, err
	}
	fits := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || slices.Contains(leads, p.Name) != (f.Role == schedule.Lead) || !harness.IsReady(&p)
	})
	if len(fits) == 0 {
		return nil, fmt.Errorf("%w: no pod of %s is in the role %s now", errSkip, t.Name, f.Role)
	}
	return fits[f.Pick%len(fits):][:1], nil
}

// youngest waits for a pod that runs and is younger than the round, and takes the youngest that there is when none comes.
func (r *runner) youngest(ctx context.Context, t *target, began time.Time) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, newcomer)
	defer cancel()
	for {
		pods, err := r.Pods(ctx, r.ns, t.Name, t.component)
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
			_, err := harness.ContainerID(&p, t.container)
			return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil || err != nil
		})
		slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
		late := !sleep(ctx, time.Second)
		switch {
		case len(pods) > 0 && (late || pods[0].CreationTimestamp.After(began)):
			return pods[:1], nil
		case late:
			return nil, fmt.Errorf("%w: no pod of %s runs: %w", errSkip, t.Name, errors.Join(err))
		}
	}
}

// chooseNode finds the node that a fault is for. What takes its volumes for good must leave a copy of everything.
func (r *runner) chooseNode(ctx context.Context, f *report.Fault) (string, error) {
	var why error
	for i := range r.workers {
		node := r.workers[(f.Drawn.Pick+i)%len(r.workers)]
		if !f.Kind().Lasting {
			return node, nil
		}
		if why = r.spares(ctx, node); why == nil {
			return node, nil
		}
	}
	return "", why
}

// spares tells whether all clusters can do without the volumes of a node.
func (r *runner) spares(ctx context.Context, node string) error {
	for _, t := range r.targets {
		pods, err := r.Pods(ctx, r.ns, t.Name, t.component)
		if err != nil {
			return err
		}
		here, all := map[string]int{}, map[string]int{}
		for _, p := range pods {
			set := p.Name[:strings.LastIndex(p.Name, "-")]
			all[set]++
			if p.Spec.NodeName == node {
				here[set]++
			}
		}
		for set, n := range all {
			needed := 1
			if t.Store == schedule.Etcd {
				needed = model.Quorum(n)
			}
			if n-here[set] < needed {
				return fmt.Errorf("%w: %d of %d copies of %s are on %s", errSkip, here[set], n, set, node)
			}
		}
	}
	return nil
}

func deletePods(ctx context.Context, r *runner, _ *target, pods []corev1.Pod, _ schedule.Fault) (undo, error) {
	var errs []error
	for i := range pods {
		errs = append(errs, client.IgnoreNotFound(r.Delete(ctx, &pods[i])))
	}
	return nil, errors.Join(errs...)
}

// stopProcess lets a process stand still. When it is gone by then, there is nothing to let go on.
func (r *runner) stopProcess(ctx context.Context, pod *corev1.Pod, container string) (undo, error) {
	id, err := harness.ContainerID(pod, container)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := r.sh(ctx, pod.Spec.NodeName, harness.ProcessOf+`[ -z "$pid" ] || kill -CONT "$pid"`, id)
		return err
	}, r.Signal(ctx, pod, container, "SIGSTOP")
}

// skewClock gives a process another time of day.
func (r *runner) skewClock(ctx context.Context, pod *corev1.Pod, container string, by time.Duration) (undo, error) {
	end, err := r.Skew(ctx, pod, container, by)
	if errors.Is(err, skew.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", errSkip, err)
	}
	return end, err
}

// loseDisk deletes a claim with its pod, so that another pod comes with an empty disk.
func loseDisk(ctx context.Context, r *runner, _ *target, pods []corev1.Pod, _ schedule.Fault) (undo, error) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: cluster.VolumeData + "-" + pods[0].Name}}
	return nil, errors.Join(r.Delete(ctx, claim), r.Delete(ctx, &pods[0]))
}

// cutPod drops what a pod sends, what it is sent, or both. The node itself still reaches it, so that its probes pass.
func cutPod(ctx context.Context, r *runner, _ *target, pods []corev1.Pod, f schedule.Fault) (undo, error) {
	var rules []string
	if f.Direction != schedule.In {
		rules = append(rules, "FORWARD -s "+pods[0].Status.PodIP)
	}
	if f.Direction != schedule.Out {
		rules = append(rules, "FORWARD -d "+pods[0].Status.PodIP)
	}
	return r.drop(ctx, []string{pods[0].Spec.NodeName}, rules...)
}

// cutPeers isolates a server from the others of its cluster; clients and the operator reach all.
func cutPeers(ctx context.Context, r *runner, t *target, pods []corev1.Pod, _ schedule.Fault) (undo, error) {
	all, err := r.Pods(ctx, r.ns, t.Name, t.component)
	if err != nil {
		return nil, err
	}
	var rules []string
	for _, peer := range all {
		if peer.Name != pods[0].Name && peer.Status.PodIP != "" {
			rules = append(rules, "FORWARD -s "+pods[0].Status.PodIP+" -d "+peer.Status.PodIP, "FORWARD -s "+peer.Status.PodIP+" -d "+pods[0].Status.PodIP)
		}
	}
	return r.drop(ctx, []string{pods[0].Spec.NodeName}, rules...)
}

// drop makes nodes drop packets, each rule being a chain and what to match.
func (r *runner) drop(ctx context.Context, nodes []string, rules ...string) (undo, error) {
	apply := func(ctx context.Context, verb string) error {
		var errs []error
		for _, node := range nodes {
			var script strings.Builder
			for _, rule := range rules {
				fmt.Fprintf(&script, "iptables -w %s %s -m comment --comment %s -j DROP || exit 1\n", verb, rule, mark)
			}
			_, err := r.sh(ctx, node, script.String())
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return func(ctx context.Context) error { return apply(ctx, "-D") }, apply(ctx, "-I")
}

// leader is the pod of the operator that holds the lease.
func (r *runner) leader(ctx context.Context) (*corev1.Pod, error) {
	var lease coordinationv1.Lease
	if err := r.Get(ctx, client.ObjectKey{Namespace: harness.SystemNamespace, Name: harness.LeaderLease}, &lease); err != nil {
		return nil, fmt.Errorf("find the leading operator: %w", err)
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
	}
	pod := &corev1.Pod{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: harness.SystemNamespace, Name: holder}, pod); err != nil {
		return nil, fmt.Errorf("%w: the lease is held by %q, which is no pod: %w", errSkip, holder, err)
	}
	return pod, nil
}
