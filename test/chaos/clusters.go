package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/chaos/report"
	"github.com/quorate/quorate/test/chaos/schedule"
	"github.com/quorate/quorate/test/harness"
)

// namespace is what the namespace of a run begins with.
const namespace = "chaos"

// target is a cluster that is broken.
type target struct {
	schedule.Cluster
	object               client.Object
	container, component string
	loads                []*writer

	mu sync.Mutex
	// since is from when on it has been well; zero: it is not. seen is when it was looked at last, why what is wrong with it.
	since, seen time.Time
	why         string
}

// writer is a load, with when its number of acknowledged writes grew last.
type writer struct {
	report.Load
	options harness.LoadOptions
	load    *harness.Load
	acked   int
	grew    time.Time
}

// The rates of writes per second: what two cores bear beside everything else.
const (
	etcdRate, redisRate = 40, 60
	// sizes of the clusters, and what they become.
	size, largeSize     = 3, 5
	shards, largeShards = 3, 4
)

// updated is how many keys each writer overwrites, deletes and increments.
const updated = "-updates=12"

// targetsOf are the clusters of a run. etcd begins with the minor version before the newest, the others with the major version before.
func (r *runner) targetsOf() ([]*target, error) {
	versions := map[string]string{}
	for _, key := range []string{"ETCD_3_6", "ETCD_3_7", "REDIS_7_0", "REDIS_8_0", "VALKEY_8_1", "VALKEY_9_1"} {
		v, err := r.Version(key)
		if err != nil {
			return nil, err
		}
		versions[key] = v
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: r.ns, Name: name} }
	storage := &v1alpha1.StorageSpec{
		Size: resource.MustParse("512Mi"), ClassName: ptr.To(class), DeletionPolicy: ptr.To(v1alpha1.DeletionDelete),
	}
	redis := func(name string, engine v1alpha1.RedisEngine, version string, config *v1alpha1.RedisConfig) *v1alpha1.RedisCluster {
		return &v1alpha1.RedisCluster{ObjectMeta: meta(name), Spec: v1alpha1.RedisClusterSpec{
			Engine: &engine, Version: version, Shards: shards, ReplicasPerShard: ptr.To[int32](1), Storage: storage, Config: config,
		}}
	}
	all := []*target{
		{
			Cluster: schedule.Cluster{Name: "orders", Store: schedule.Etcd}, container: "etcd", component: v1alpha1.ComponentEtcd,
			object: &v1alpha1.EtcdCluster{ObjectMeta: meta("orders"), Spec: v1alpha1.EtcdClusterSpec{Size: size, Version: versions["ETCD_3_6"], Storage: storage}},
			loads:  []*writer{{Load: report.Load{Class: "majority"}, options: harness.LoadOptions{Mode: "etcd", Rate: etcdRate, Flags: []string{"-watch", "-registers=4", updated}}}},
		},
		{
			Cluster: schedule.Cluster{Name: "carts", Store: schedule.Redis}, container: "redis", component: v1alpha1.ComponentRedis,
			object: redis("carts", v1alpha1.EngineRedis, versions["REDIS_7_0"], nil),
			loads: []*writer{
				{Load: report.Load{Class: "plain"}, options: harness.LoadOptions{Mode: "redis", Rate: redisRate, Flags: []string{"-look-back", updated}}},
				{Load: report.Load{Class: "WAIT 1"}, options: harness.LoadOptions{Mode: "redis", Rate: redisRate / 2, Flags: []string{"-look-back", "-wait=1", updated}}},
			},
		},
		{
			Cluster: schedule.Cluster{Name: "sessions", Store: schedule.Valkey}, container: "redis", component: v1alpha1.ComponentRedis,
			object: redis("sessions", v1alpha1.EngineValkey, versions["VALKEY_8_1"], &v1alpha1.RedisConfig{MinReplicasToWrite: ptr.To[int32](1)}),
			loads:  []*writer{{Load: report.Load{Class: "min-replicas-to-write 1"}, options: harness.LoadOptions{Mode: "redis", Rate: redisRate, Flags: []string{"-look-back", updated}}}},
		},
	}
	return slices.DeleteFunc(all, func(t *target) bool {
		return len(r.o.Stores) > 0 && !slices.Contains(r.o.Stores, t.Store)
	}), nil
}

// setUp makes what a run needs: disks that can be filled, nodes that nothing depends on, clusters that are Ready, and writers.
func (r *runner) setUp(ctx context.Context) error {
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return err
	}
	if len(nodes) < 3 {
		return fmt.Errorf("there are %d nodes: chaos needs three", len(nodes))
	}
	r.control, r.workers = nodes[0], nodes[1:]
	r.say("setup", nil, "prepare nodes, and clear away what former runs have left")
	if err := errors.Join(r.putBack(ctx), r.leftovers(ctx)); err != nil {
		return err
	}
	if err := errors.Join(r.disks(ctx, mountDisk), r.storageClass(ctx), r.clearWorkers(ctx), r.managers(ctx, 2)); err != nil {
		return err
	}
	if r.image, err = r.BuildLoad(ctx); err != nil {
		return err
	}
	if r.ns, err = r.NewNamespace(ctx, namespace); err != nil {
		return err
	}
	if r.targets, err = r.targetsOf(); err != nil {
		return err
	}
	for _, t := range r.targets {
		r.run.Clusters = append(r.run.Clusters, t.Cluster)
		r.say("setup", t.Cluster, "create %s (%s)", t.Name, t.Store)
		if err := r.Create(ctx, t.object); err != nil {
			return fmt.Errorf("create %s: %w", t.Name, err)
		}
	}
	for _, t := range r.targets {
		if err := t.ready(ctx, r, clustersReady); err != nil {
			return fmt.Errorf("%w\n%s", err, r.Dump(ctx, r.ns))
		}
		if err := r.startLoads(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// tearDown removes everything again.
func (r *runner) tearDown(ctx context.Context) error {
	err := r.putBack(ctx)
	if r.ns != "" {
		err = errors.Join(err, r.DeleteNamespace(ctx, r.ns))
	}
	if len(r.workers) == 0 {
		return err
	}
	return errors.Join(err, r.volumesGone(ctx), r.disks(ctx, removeDisk), r.managers(ctx, 1),
		client.IgnoreNotFound(r.Delete(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}})))
}

// volumesGone waits until the provisioner has removed the volumes of the run, for which it needs the disks.
func (r *runner) volumesGone(ctx context.Context) error {
	return harness.Eventually(ctx, "the volumes to be gone", 2*time.Minute, func(ctx context.Context) (bool, string, error) {
		var all corev1.PersistentVolumeList
		err := r.List(ctx, &all)
		left := slices.DeleteFunc(all.Items, func(v corev1.PersistentVolume) bool { return v.Spec.StorageClassName != class })
		return len(left) == 0, fmt.Sprintf("%d are left", len(left)), err
	})
}

// storageClass makes the class of volumes on the disks that can be filled, whose provisioner is that of the default class.
func (r *runner) storageClass(ctx context.Context) error {
	var standard storagev1.StorageClass
	if err := r.Get(ctx, client.ObjectKey{Name: "standard"}, &standard); err != nil {
		return fmt.Errorf("read the default StorageClass: %w", err)
	}
	own := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: standard.Provisioner,
		ReclaimPolicy: standard.ReclaimPolicy, VolumeBindingMode: standard.VolumeBindingMode,
		Parameters: map[string]string{"pathPattern": class + "/{{ .PVC.Namespace }}-{{ .PVC.Name }}-{{ .PVName }}"},
	}
	if err := client.IgnoreNotFound(r.Delete(ctx, own.DeepCopy())); err != nil {
		return fmt.Errorf("remove the StorageClass of a former run: %w", err)
	}
	if err := r.Create(ctx, own); err != nil {
		return fmt.Errorf("make the StorageClass: %w", err)
	}
	return nil
}

// clearWorkers moves what Kubernetes and the operator depend on to the node of the API server, so that the others can be broken.
func (r *runner) clearWorkers(ctx context.Context) error {
	var errs []error
	for _, node := range r.workers {
		errs = append(errs, r.Vacate(ctx, node))
	}
	for _, node := range r.workers {
		_, err := r.Run(ctx, "uncordon", node)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// managers sets how many operators run: one that leads, and one that can take over. The second comes while the workers take no pods.
func (r *runner) managers(ctx context.Context, n int32) error {
	for _, node := range r.workers {
		if _, err := r.Run(ctx, "cordon", node); err != nil {
			return err
		}
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: harness.Manager}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
	err := r.Patch(ctx, d, client.RawPatch("application/merge-patch+json", patch))
	if err == nil {
		_, err = r.Run(ctx, "rollout", "status", "-n", harness.SystemNamespace, "deployment/"+harness.Manager, "--timeout=3m")
	}
	for _, node := range r.workers {
		_, uncordoned := r.Run(ctx, "uncordon", node)
		err = errors.Join(err, uncordoned)
	}
	return err
}

// ready waits until the cluster is Ready at first.
func (t *target) ready(ctx context.Context, r *runner, timeout time.Duration) error {
	switch o := t.object.(type) {
	case *v1alpha1.EtcdCluster:
		return harness.WaitReady(ctx, r.Cluster, o, timeout)
	case *v1alpha1.RedisCluster:
		return harness.WaitReady(ctx, r.Cluster, o, timeout)
	}
	return fmt.Errorf("%T is no cluster", t.object)
}

// startLoads starts the writers of a cluster, on the node that is not broken.
func (r *runner) startLoads(ctx context.Context, t *target) error {
	for _, w := range t.loads {
		w.Name, w.Cluster = t.Name+" "+w.Class, t.Name
		o := w.options
		o.Image, o.Namespace, o.Cluster, o.Node = r.image, r.ns, t.Name, r.control
		o.Flags = append(slices.Clone(o.Flags), "-duration="+(r.o.Duration+2*time.Hour).String(), "-check-timeout=10m")
		if t.Store == schedule.Etcd {
			for i := range size {
				o.Endpoints = append(o.Endpoints, cluster.PodHost(cluster.Pod(t.Name, i), t.Name, r.ns, "cluster.local")+":2379")
			}
		}
		var err error
		if w.load, err = r.StartLoad(ctx, o); err != nil {
			return fmt.Errorf("start to write to %s: %w", t.Name, err)
		}
		r.say("setup", nil, "writes to %s (%s) are acknowledged", t.Name, w.Class)
	}
	return nil
}

// finishLoad ends a writer and keeps what it found.
func (r *runner) finishLoad(ctx context.Context, t *target, i int) {
	w := t.loads[i]
	s, err := w.load.Stop(ctx)
	if err != nil {
		w.Error = err.Error()
	} else {
		w.Summary = &s
	}
	r.keep(func(run *report.Run) { run.Loads = append(run.Loads, w.Load) })
	r.say("load", w.Load, "%s: %s%s", w.Name, s, w.Error)
}

// leads are the pods that lead: the leader of etcd, or the primaries of all shards.
func (t *target) leads(ctx context.Context, r *runner) ([]string, error) {
	now := t.object.DeepCopyObject().(client.Object)
	if err := r.Get(ctx, client.ObjectKeyFromObject(now), now); err != nil {
		return nil, fmt.Errorf("read %s: %w", t.Name, err)
	}
	switch o := now.(type) {
	case *v1alpha1.EtcdCluster:
		return []string{o.Status.Leader}, nil
	case *v1alpha1.RedisCluster:
		var out []string
		for _, s := range o.Status.Shards {
			out = append(out, s.Primary)
		}
		return out, nil
	}
	return nil, nil
}

// wait waits until the cluster has been well for a while, since a time or later, and returns from when on.
func (t *target) wait(ctx context.Context, since time.Time, timeout time.Duration) (time.Time, error) {
	deadline := time.Now().Add(timeout + steady)
	for {
		t.mu.Lock()
		well, seen, why := t.since, t.seen, t.why
		t.mu.Unlock()
		if well.Before(since) && !well.IsZero() {
			well = since
		}
		if !well.IsZero() && seen.Sub(well) >= steady {
			return well, nil
		}
		if time.Now().After(deadline) {
			return time.Time{}, fmt.Errorf("%s is not well within %s: %s", t.Name, timeout, why)
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// remark adds something to the report that its reader has to know, once.
func (r *runner) remark(text string) {
	r.keep(func(run *report.Run) {
		if !slices.Contains(run.Notes, text) {
			run.Notes = append(run.Notes, text)
		}
	})
}

// podsWanted is how many pods a cluster is to have.
func podsWanted(o client.Object) int {
	switch o := o.(type) {
	case *v1alpha1.EtcdCluster:
		return int(o.Spec.Size)
	case *v1alpha1.RedisCluster:
		return int(o.Spec.Shards * (1 + ptr.Deref(o.Spec.ReplicasPerShard, 0)))
	}
	return 0
}

// unready names the pods that are not ready, or how many there are when that is not what is wanted.
func unready(pods []*corev1.Pod, wanted int) string {
	var out []string
	for _, p := range pods {
		if !harness.IsReady(p) || p.DeletionTimestamp != nil {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	if len(pods) != wanted {
		out = append(out, fmt.Sprintf("%d pods instead of %d", len(pods), wanted))
	}
	return strings.Join(out, ", ")
}
