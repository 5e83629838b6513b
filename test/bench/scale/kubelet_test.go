package scale

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	etcdgate "github.com/quorate/quorate/internal/cluster/etcd/gate"
	etcdmanifests "github.com/quorate/quorate/internal/cluster/etcd/manifests"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	redisacl "github.com/quorate/quorate/internal/cluster/redis/acl"
	redisconfig "github.com/quorate/quorate/internal/cluster/redis/config"
	redismodel "github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

const (
	// hands are how many sets are worked on at a time.
	hands = 16
	// nodes that pods are spread over.
	nodes = 10
	// gateAgain is how soon a start gate asks again.
	gateAgain = time.Second
)

// kubelet stands for the controller of StatefulSets, the scheduler, the provisioner and the kubelets of all nodes.
type kubelet struct {
	client.Client
	cache cache.Cache
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	host  *host

	mu     sync.Mutex
	etcds  map[types.NamespacedName]*etcdCluster
	redis  map[types.NamespacedName]*redisCluster
	pods   map[types.NamespacedName]*instance
	failed atomic.Pointer[error]
}

// instance is a pod and its server.
type instance struct {
	uid  types.UID
	stop func()
	// held is what its gate has said last; only what changes is written.
	held string
}

// etcdCluster is the members of one cluster, and their disks.
type etcdCluster struct {
	mu    sync.Mutex
	net   *etcdfake.Network
	procs map[string]*etcdfake.Process
	disks map[string]*etcdfake.Disk
	epoch map[string]string
}

func newKubelet(c client.Client, informers cache.Cache) *kubelet {
	return &kubelet{
		Client: c, cache: informers, host: newHost(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 5*time.Second)),
		etcds: map[types.NamespacedName]*etcdCluster{}, redis: map[types.NamespacedName]*redisCluster{}, pods: map[types.NamespacedName]*instance{},
	}
}

// run works until the context ends.
func (k *kubelet) run(ctx context.Context) error {
	for object, of := range map[client.Object]func(client.Object) types.NamespacedName{
		&appsv1.StatefulSet{}: client.ObjectKeyFromObject,
		&corev1.Pod{}: func(o client.Object) types.NamespacedName {
			return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()[:max(0, strings.LastIndexByte(o.GetName(), '-'))]}
		},
	} {
		informer, err := k.cache.GetInformer(ctx, object)
		if err != nil {
			return err
		}
		add := func(o any) {
			if o, ok := o.(client.Object); ok {
				k.queue.Add(of(o))
			}
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: add, UpdateFunc: func(_, o any) { add(o) }, DeleteFunc: add,
		})
		if err != nil {
			return err
		}
	}
	go func() { _ = k.cache.Start(ctx) }()
	if !k.cache.WaitForCacheSync(ctx) {
		return errors.New("the simulated kubelet sees nothing")
	}
	for range hands {
		go k.work(ctx)
	}
	go func() {
		<-ctx.Done()
		k.queue.ShutDown()
	}()
	return nil
}

func (k *kubelet) work(ctx context.Context) {
	for {
		key, end := k.queue.Get()
		if end {
			return
		}
		again, err := k.sync(ctx, key)
		switch {
		case ctx.Err() != nil:
		case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
			k.queue.AddAfter(key, 100*time.Millisecond) // The cache was behind.
		case err != nil:
			err = fmt.Errorf("StatefulSet %s: %w", key, err)
			k.failed.Store(&err)
			k.queue.AddRateLimited(key)
		case again:
			k.queue.AddAfter(key, gateAgain)
		default:
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

// complaint is what went wrong last, since it was asked for.
func (k *kubelet) complaint() string {
	if err := k.failed.Swap(nil); err != nil {
		return "; the simulated kubelet: " + (*err).Error()
	}
	return ""
}

// sync makes the pods of a set, starts what is in them, and takes away those that are too many. again says that a gate holds one back.
func (k *kubelet) sync(ctx context.Context, key types.NamespacedName) (again bool, err error) {
	set := &appsv1.StatefulSet{}
	if err := k.cache.Get(ctx, key, set); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if err := k.observed(ctx, set); err != nil {
		return false, err
	}
	for ordinal := range int(*set.Spec.Replicas) {
		held, err := k.syncPod(ctx, set, ordinal)
		if err != nil {
			return false, err
		}
		again = again || held
	}
	for ordinal := int(*set.Spec.Replicas); ; ordinal++ {
		pod := &corev1.Pod{}
		name := types.NamespacedName{Namespace: set.Namespace, Name: cluster.Pod(set.Name, ordinal)}
		if err := k.cache.Get(ctx, name, pod); err != nil {
			return again, client.IgnoreNotFound(err)
		}
		if err := k.end(ctx, pod); err != nil {
			return false, err
		}
	}
}

// observed tells what the controller of StatefulSets does of a new specification.
func (k *kubelet) observed(ctx context.Context, set *appsv1.StatefulSet) error {
	if set.Status.ObservedGeneration == set.Generation {
		return nil
	}
	next := set.DeepCopy()
	next.Status.ObservedGeneration, next.Status.Replicas, next.Status.UpdateRevision = set.Generation, *set.Spec.Replicas, revision(set)
	return k.Status().Patch(ctx, next, client.MergeFrom(set))
}

func revision(set *appsv1.StatefulSet) string {
	raw, _ := json.Marshal(set.Spec.Template) // It came as JSON.
	sum := sha256.Sum256(raw)
	return set.Name + "-" + hex.EncodeToString(sum[:5])
}

func (k *kubelet) syncPod(ctx context.Context, set *appsv1.StatefulSet, ordinal int) (held bool, err error) {
	name := types.NamespacedName{Namespace: set.Namespace, Name: cluster.Pod(set.Name, ordinal)}
	pod := &corev1.Pod{}
	switch err := k.cache.Get(ctx, name, pod); {
	case apierrors.IsNotFound(err):
		pod = podOf(set, ordinal)
		if err := k.createPod(ctx, set, pod, ordinal); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	case pod.DeletionTimestamp != nil:
		return false, k.end(ctx, pod)
	}
	at := k.instance(name)
	if at.uid == pod.UID && at.stop != nil {
		return false, nil
	}
	if at.uid != pod.UID {
		at.halt()
		at.uid, at.held = pod.UID, ""
	}
	return k.start(ctx, set, pod, ordinal, at)
}

func (k *kubelet) instance(name types.NamespacedName) *instance {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pods[name] == nil {
		k.pods[name] = &instance{}
	}
	return k.pods[name]
}

func (i *instance) halt() {
	if i.stop != nil {
		i.stop()
	}
	i.stop = nil
}

// end stops the server of a pod, and lets the pod go.
func (k *kubelet) end(ctx context.Context, pod *corev1.Pod) error {
	if at := k.instance(client.ObjectKeyFromObject(pod)); at.uid == pod.UID {
		at.halt()
	}
	return client.IgnoreNotFound(k.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
}

// createPod makes a pod and its claims.
func (k *kubelet) createPod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) error {
	for i := range set.Spec.VolumeClaimTemplates {
		claim := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		labels := map[string]string{}
		for key, value := range claim.Labels {
			labels[key] = value
		}
		for key, value := range set.Spec.Selector.MatchLabels {
			labels[key] = value
		}
		claim.ObjectMeta = metav1.ObjectMeta{Namespace: set.Namespace, Name: cluster.Claim(set.Name, ordinal), Labels: labels}
		status := corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: claim.Spec.Resources.Requests}
		switch err := k.Create(ctx, claim); {
		case apierrors.IsAlreadyExists(err):
			continue
		case err != nil:
			return err
		}
		claim.Status = status
		if err := k.Status().Update(ctx, claim); err != nil {
			return err
		}
	}
	return k.Create(ctx, pod)
}

func podOf(set *appsv1.StatefulSet, ordinal int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	p.Namespace, p.Name = set.Namespace, cluster.Pod(set.Name, ordinal)
	p.Labels["apps.kubernetes.io/pod-index"], p.Labels["statefulset.kubernetes.io/pod-name"] = strconv.Itoa(ordinal), p.Name
	p.Labels[appsv1.StatefulSetRevisionLabel] = revision(set)
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	p.Spec.Hostname, p.Spec.Subdomain, p.Spec.NodeName = p.Name, set.Spec.ServiceName, nodeName(ordinal)
	for _, claim := range set.Spec.VolumeClaimTemplates {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + p.Name},
		}})
	}
	return p
}

func nodeName(n int) string { return fmt.Sprintf("node-%d", n%nodes) }

// start asks the gate of a pod, starts its server and says that it is ready.
func (k *kubelet) start(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int, at *instance) (held bool, err error) {
	owner := metav1.GetControllerOf(set)
	if owner == nil {
		return false, errors.New("nobody owns it")
	}
	name := types.NamespacedName{Namespace: set.Namespace, Name: owner.Name}
	secret := &corev1.Secret{}
	if err := k.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: cluster.ServerTLSSecret(name.Name)}, secret); err != nil {
		return false, err
	}
	ip := k.host.address()
	if owner.Kind == string(v1alpha1.KindRedisCluster) {
		at.stop, err = k.startRedis(ctx, name, set, pod, ip, secret)
	} else {
		var remark string
		if at.stop, remark, err = k.startEtcd(ctx, name, set, ordinal, ip, secret); remark != "" {
			return true, k.hold(ctx, pod, at, remark)
		}
	}
	if err != nil {
		return false, err
	}
	next := pod.DeepCopy()
	next.Status = running(pod, ip)
	if err := k.Status().Patch(ctx, next, client.MergeFrom(pod)); err != nil {
		at.halt() // The next attempt starts it again.
		return false, err
	}
	return false, nil
}

// hold says why a gate holds a pod back, once.
func (k *kubelet) hold(ctx context.Context, pod *corev1.Pod, at *instance, remark string) error {
	if at.held == remark {
		return nil
	}
	next := pod.DeepCopy()
	next.Status.Phase = corev1.PodPending
	next.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: etcdmanifests.ContainerGate, Image: pod.Spec.InitContainers[0].Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: remark}},
	}}
	if err := k.Status().Patch(ctx, next, client.MergeFrom(pod)); err != nil {
		return err
	}
	at.held = remark
	return nil
}

// running is the status of a pod all of whose containers run and are ready, as a kubelet writes it.
func running(pod *corev1.Pod, ip string) corev1.PodStatus {
	now := metav1.Now()
	s := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
		StartTime: &now, QOSClass: pod.Status.QOSClass,
	}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	id := func(name string) string {
		sum := sha256.Sum256([]byte(string(pod.UID) + name))
		return "containerd://" + hex.EncodeToString(sum[:])
	}
	yes := true
	for _, c := range pod.Spec.InitContainers {
		s.InitContainerStatuses = append(s.InitContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: id("image"), ContainerID: id(c.Name), Ready: true, Started: new(bool),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now, ContainerID: id(c.Name)}},
		})
	}
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: id("image"), ContainerID: id(c.Name), Ready: true, Started: &yes, Resources: c.Resources.DeepCopy(),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return s
}

// startEtcd starts a member, or says why its gate does not.
func (k *kubelet) startEtcd(
	ctx context.Context, name types.NamespacedName, set *appsv1.StatefulSet, ordinal int, ip string, secret *corev1.Secret,
) (stop func(), remark string, err error) {
	config := &corev1.ConfigMap{}
	if err := k.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: cluster.ConfigName(name.Name)}, config); err != nil {
		return nil, "", err
	}
	record, err := etcdmodel.ParseRecord(config.Data)
	if err != nil {
		return nil, "", err
	}
	if ordinal >= len(record.Members) {
		return nil, "the record does not know this member yet", nil
	}
	identity, err := identity(secret, tls.RequireAndVerifyClientCert)
	if err != nil {
		return nil, "", err
	}
	c := k.etcdCluster(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	proc, remark, err := c.start(set, record, record.Members[ordinal])
	if proc == nil || err != nil {
		return nil, remark, err
	}
	m := &etcdMember{mu: &c.mu, net: c.net, proc: proc}
	shut, err := k.host.listen(ctx, ip, etcdmodel.ClientPort, &endpoint{tls: identity, handle: m.handler()})
	return func() {
		shut()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.net.Stop(proc)
	}, "", err
}

func (k *kubelet) etcdCluster(name types.NamespacedName) *etcdCluster {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.etcds[name] == nil {
		k.etcds[name] = &etcdCluster{
			net: etcdfake.New(), procs: map[string]*etcdfake.Process{}, disks: map[string]*etcdfake.Disk{}, epoch: map[string]string{},
		}
	}
	return k.etcds[name]
}

// start decides as the start gate does, and starts the member.
func (c *etcdCluster) start(set *appsv1.StatefulSet, record etcdmodel.Record, self etcdmodel.Peer) (proc *etcdfake.Process, remark string, err error) {
	if c.disks[self.Name] == nil {
		c.disks[self.Name] = &etcdfake.Disk{}
	}
	disk := c.disks[self.Name]
	d := etcdgate.Decide(etcdgate.Input{
		Self: self, Record: record, Answers: c.net.Answers(self, record.Members),
		Disk: map[bool]etcdgate.Disk{true: etcdgate.DiskReady}[disk.HasLog], Epoch: c.epoch[self.Name], Log: &etcdmodel.LogEnd{Term: 1, Index: 1},
	})
	if !d.Start {
		return nil, d.Report.Encode(), nil
	}
	if d.Epoch != "" {
		c.epoch[self.Name] = d.Epoch
	}
	proc, err = c.net.Start(etcdfake.Config{
		Self: self, Token: string(set.UID), State: d.State, Members: record.Members, Version: set.Spec.Template.Annotations[v1alpha1.AnnotationVersion], TLS: true,
	}, disk)
	if err == nil {
		c.net.Settle()
	}
	return proc, "", err
}

// startRedis starts a server in a pod.
func (k *kubelet) startRedis(
	ctx context.Context, name types.NamespacedName, set *appsv1.StatefulSet, pod *corev1.Pod, ip string, secret *corev1.Secret,
) (stop func(), err error) {
	auth, config := &corev1.Secret{}, &corev1.ConfigMap{}
	err = errors.Join(
		k.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: cluster.AuthSecret(name.Name)}, auth),
		k.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: cluster.ConfigName(name.Name)}, config),
	)
	if err != nil {
		return nil, err
	}
	shard, err := strconv.Atoi(set.Labels[v1alpha1.LabelShard])
	if err != nil {
		return nil, err
	}
	identity, err := identity(secret, tls.NoClientCert)
	if err != nil {
		return nil, err
	}
	c := k.redisCluster(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass()
	c.secrets = map[string]string{}
	for key, value := range auth.Data {
		c.secrets[key] = string(value)
	}
	c.fingerprint = clustertls.LeafFingerprint(secret.Data[corev1.TLSCertKey])
	server := c.start(pod.Name, shard, redismodel.Address{IP: ip, Port: redismodel.ClientPort}, cluster.PodHost(pod.Name, name.Name, name.Namespace, domain), versionOf(set))
	announced := map[string]redismodel.Announcement{}
	if text := config.Data[redisconfig.AnnounceKey]; text != "" {
		if announced, err = redisconfig.ReadAnnouncements([]byte(text)); err != nil {
			return nil, err
		}
	}
	server.Announces = announced[pod.Name].Parameters(server.Host, ip)
	password := redisacl.ShardPassword(c.secrets[redisacl.PasswordReplication], pod.Name)
	shut, err := k.host.listen(ctx, ip, redismodel.ClientPort, &endpoint{tls: identity, serve: serveRedis(c, server, &password)})
	return func() {
		shut()
		c.mu.Lock()
		defer c.mu.Unlock()
		server.Stop()
	}, err
}

func (k *kubelet) redisCluster(name types.NamespacedName) *redisCluster {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.redis[name] == nil {
		k.redis[name] = newRedisCluster(uint64(len(k.redis)))
	}
	return k.redis[name]
}

func (c *redisCluster) start(pod string, shard int, at redismodel.Address, host, version string) *redisfake.Server {
	server := c.servers[pod]
	if server == nil {
		server = c.net.Add(at, shard, host)
		c.servers[pod] = server
	} else {
		server.Stop()
		server.Start(at)
	}
	server.Version = version
	return server
}

// versionOf is the version that the pods of a StatefulSet are for.
func versionOf(set *appsv1.StatefulSet) string {
	i := slices.IndexFunc(set.Spec.Template.Spec.InitContainers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "--version=") })
	if i < 0 {
		return ""
	}
	return strings.TrimPrefix(set.Spec.Template.Spec.InitContainers[0].Args[i], "--version=")
}
