package rediscluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/login"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/resp"
	"github.com/quorate/quorate/internal/goroutine"
)

// baseSpec is what a specification says by itself.
func baseSpec(o *v1alpha1.RedisCluster) redis.Spec {
	return redis.Spec{
		Name: o.Name, Namespace: o.Namespace, Shards: o.Spec.ShardCount(), Replicated: o.Spec.IsReplicated(), Replicas: o.Spec.Replicas(), Version: o.Spec.Version,
		NodeTimeout: redis.NodeTimeout(o.Spec.Config), Persistent: o.Spec.Storage != nil, MemoryLimit: redis.MemoryLimit(o.Spec.Resources),
		MinReplicas:   redis.MinReplicas(&o.Spec),
		DiscardClaims: redis.DiscardsClaims(o.Spec.Storage),
		AssignEmpty:   o.Spec.Recovery.AssignsEmpty(), Approved: o.Annotations[v1alpha1.AnnotationRecover],
		ReplaceDead: o.Spec.Recovery.ReplacesDead(),
		Rebalance:   rebalanceOf(o),
	}
}

// Observe reads the state of a cluster, and adds what is remembered of the states before. Only the loop of the cluster may call it,
// which looks at a cluster once at a time: what is remembered and found belongs to that one alone.
func (k *Reconciler) Observe(ctx context.Context, o *v1alpha1.RedisCluster) (redis.State, error) {
	s, connect, err := k.read(ctx, o)
	if err != nil || connect == nil {
		return s, err
	}
	k.memory(o).watchUnused(&s)
	k.memory(o).watchHosts(&s)
	k.memory(o).idle.Watch(&s)
	k.memory(o).processes.Watch(&s)
	m := &k.memory(o).meter
	m.watch(s.Pods, s.Now)
	s.Progress = m.read()
	k.weigh(ctx, o, connect, &s)
	s.Anomalies = k.memory(o).vigil.Next(s)
	return s, nil
}

// Read reads the state of a cluster as it is now, without what is remembered of it. Other kinds may call it at any time.
func (k *Reconciler) Read(ctx context.Context, o *v1alpha1.RedisCluster) (redis.State, error) {
	s, _, err := k.read(ctx, o)
	return s, err
}

// read reads the StatefulSets and pods, and asks every server for its own account. Without what it takes to connect, none is asked.
func (k *Reconciler) read(ctx context.Context, o *v1alpha1.RedisCluster) (redis.State, connectFunc, error) {
	s, err := k.readObjects(ctx, o)
	if err != nil {
		return redis.State{}, nil, err
	}
	passwords, err := k.Passwords(ctx, o)
	if err != nil {
		return redis.State{}, nil, err
	}
	connect, err := k.connector(ctx, o, passwords)
	if err != nil {
		return redis.State{}, nil, err
	}
	if connect == nil {
		return s, nil, nil
	}
	s.Spec.Access = &redis.Access{
		Passwords: passwords, Open: o.Spec.Auth.AuthMode() == v1alpha1.AuthDisabled, Replicated: o.Spec.IsReplicated(),
	}
	s.Spec.Hold = o.Spec.Auth.RotationHold()
	if s.Spec.HandedOut, err = k.handedOut(ctx, o, s.Spec.Access); err != nil {
		return redis.State{}, nil, err
	}
	k.readServers(ctx, connect, &s)
	if s.Neighbours, err = k.neighbours(ctx, o); err != nil {
		return redis.State{}, nil, err
	}
	if err := errors.Join(k.findRetained(ctx, o, &s), k.findLostNodes(ctx, o, &s)); err != nil {
		return redis.State{}, nil, err
	}
	return s, connect, nil
}

// neighbours returns the servers of all other clusters by node id, as their status has them.
func (k *Reconciler) neighbours(ctx context.Context, o *v1alpha1.RedisCluster) (map[string]string, error) {
	var list v1alpha1.RedisClusterList
	if err := k.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list Redis clusters: %w", err)
	}
	out := map[string]string{}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == o.Name && other.Namespace == o.Namespace {
			continue
		}
		for _, shard := range other.Status.Shards {
			for _, n := range shard.Nodes {
				if n.ID != "" {
					out[n.ID] = redis.ClusterOf(other.Name, other.Namespace)
				}
			}
		}
	}
	return out, nil
}

// readObjects reads all that is known without asking a server.
func (k *Reconciler) readObjects(ctx context.Context, o *v1alpha1.RedisCluster) (redis.State, error) {
	s := redis.State{Now: k.Now(), Spec: baseSpec(o)}
	live, err := redis.LiveConfig(&o.Spec)
	if err != nil {
		return redis.State{}, err
	}
	s.Spec.Live, s.Spec.LiveNames = live, redis.LiveNames(o.Spec.Config)
	if err := k.observeObjects(ctx, o, &s); err != nil {
		return redis.State{}, err
	}
	if err := k.observeBackups(ctx, o, &s); err != nil {
		return redis.State{}, err
	}
	if s.Monitoring, err = k.observeMonitoring(ctx, o); err != nil {
		return redis.State{}, err
	}
	if err := k.observeCertificates(ctx, o, &s); err != nil {
		return redis.State{}, err
	}
	if s.Accounts, err = k.accounts(ctx, o); err != nil {
		return redis.State{}, err
	}
	return s, nil
}

// observeBackups reads what is put into the cluster, and what is to be, and how its backups are.
func (k *Reconciler) observeBackups(ctx context.Context, o *v1alpha1.RedisCluster, s *redis.State) (err error) {
	if s.Restore, err = k.observeRestore(ctx, o); err != nil {
		return err
	}
	if s.Confirmed, err = k.observeConfirmed(ctx, o); err != nil {
		return err
	}
	s.BackupHealth, err = k.BackupHealth(ctx, o, v1alpha1.KindRedisCluster)
	return err
}

// observeCertificates reads where servers are reached from outside, and what proves that it is they.
func (k *Reconciler) observeCertificates(ctx context.Context, o *v1alpha1.RedisCluster, s *redis.State) error {
	missing, err := k.observeOutside(ctx, o, s)
	if err != nil {
		return err
	}
	vouched, err := k.withFormer(ctx, o, s.Doors)
	if err != nil {
		return err
	}
	if s.Certificates, err = k.CertificateReport(ctx, o, o.Spec.TLS, k.leafs(o, vouched)); err != nil {
		return owned.CertificateError{Err: err}
	}
	s.Certificates.Missing = missing
	if s.Certificates.Exposed, err = k.exposed(ctx, o); err != nil {
		return err
	}
	s.Spec.Certificate, err = k.certificate(ctx, o)
	return err
}

// observeObjects reads what Kubernetes knows.
func (k *Reconciler) observeObjects(ctx context.Context, o *v1alpha1.RedisCluster, s *redis.State) error {
	if err := errors.Join(k.observeSets(ctx, o, s), k.observeClaims(ctx, o, s), k.observePods(ctx, o, s)); err != nil {
		return err // Half a state would look like lost servers.
	}
	if err := k.findLostDisks(ctx, o, s); err != nil {
		return err
	}
	var err error
	s.Appointed, err = k.appointment(ctx, o)
	return err
}

// parallelReads bounds how many servers of one cluster are read at a time: what each answers is held
// until it is parsed, which is 160 KiB in the largest cluster.
const parallelReads = 64

// readServers asks servers in parallel.
func (k *Reconciler) readServers(ctx context.Context, connect connectFunc, s *redis.State) {
	topology, places := redis.NewTopology(), make(chan struct{}, parallelReads)
	errs := goroutine.Each(len(s.Pods), func(i int) error {
		p := &s.Pods[i]
		if p.Addr.IP == "" || p.Stuck != "" {
			return nil
		}
		places <- struct{}{}
		defer func() { <-places }()
		options := connect(redis.UserOperator, endpointOf(p))
		options.Topology = topology
		return k.readServer(ctx, options, s.Spec, p)
	})
	for i, err := range errs {
		if err != nil {
			p := &s.Pods[i]
			p.Error, p.Hangs = briefly(err), errors.Is(err, redis.ErrHangs)
		}
	}
}

// readServer fills in what a server reports of itself. Its error is a fact about that server, not an
// error of the observation.
func (k *Reconciler) readServer(ctx context.Context, options redisclient.Options, of redis.Spec, p *redis.Pod) error {
	c := k.Connect(options)
	defer func() { _ = c.Close() }() // Nothing was written that closing could lose.
	asked := k.Now()
	node, err := c.Read(ctx)
	answered := k.Now()
	p.TimedOut = redisclient.TimedOut(err)
	if err == nil || p.TimedOut {
		p.Took = answered.Sub(asked)
	}
	if err != nil {
		return err
	}
	if !node.RunsIn(p.Name, of.Name, of.Namespace) {
		return errors.New("another server answers at its address")
	}
	p.Node, p.Clock = node, anomaly.ClockOf(p.Name, node.Clock, time.Microsecond, asked, answered)
	return nil
}

// briefError reads as briefly says, and is still the error that it was.
type briefError struct{ error }

func (e briefError) Error() string { return briefly(e.error) }

func (e briefError) Unwrap() error { return e.error }

// briefly is an error without what differs from one attempt to the next, such as local ports: it goes into the status.
func briefly(err error) string {
	var op *net.OpError
	if text := certificateProblem(err); text != "" {
		return text
	}
	switch {
	case errors.Is(err, redis.ErrHangs):
		return "the server takes connections and does not answer"
	case errors.Is(err, context.DeadlineExceeded):
		return "the server does not answer"
	case errors.Is(err, redisclient.ErrPassword):
		return "the server refuses the operator's password"
	case errors.As(err, &op):
		return "the server cannot be reached: " + op.Err.Error()
	}
	return err.Error()
}

// certificateProblem says what is wrong with a server's certificate, empty when nothing is. The errors of crypto/x509 hold
// the time of day.
func certificateProblem(err error) string {
	var (
		invalid   x509.CertificateInvalidError
		host      x509.HostnameError
		authority x509.UnknownAuthorityError
		unproved  *tls.CertificateVerificationError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired or is not valid yet"
	case errors.As(err, &host):
		return "the server's certificate is not for its name"
	case errors.As(err, &authority):
		return "the server's certificate is not of the cluster's certificate authority"
	case errors.As(err, &invalid), errors.As(err, &unproved):
		return "the server's certificate cannot be verified"
	case errors.As(err, &record):
		return "the server does not speak TLS"
	}
	return ""
}

// sets returns the StatefulSets of the shards: those that the cluster owns, of which no number is
// larger than the API allows.
func (k *Reconciler) sets(ctx context.Context, o *v1alpha1.RedisCluster) ([]appsv1.StatefulSet, error) {
	var list appsv1.StatefulSetList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabels(redis.Selector(o))); err != nil {
		return nil, fmt.Errorf("list StatefulSets: %w", err)
	}
	var out []appsv1.StatefulSet
	for i := range list.Items {
		if _, ok := cluster.ShardOf(o.Name, list.Items[i].Name); !ok {
			continue
		}
		own, err := k.Owns(ctx, o, &list.Items[i])
		if err != nil {
			return nil, err
		}
		if own {
			out = append(out, list.Items[i])
		}
	}
	return out, nil
}

// pods returns the pods of these StatefulSets.
func (k *Reconciler) pods(ctx context.Context, o *v1alpha1.RedisCluster) ([]corev1.Pod, error) {
	sets, err := k.sets(ctx, o)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabels(redis.Selector(o))); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return k.PodsOfSets(ctx, o, list.Items, sets, func(pod *corev1.Pod) string {
		shard, _, ok := redis.ParsePod(o.Name, pod.Name)
		if !ok {
			return ""
		}
		return cluster.ShardSet(o.Name, shard)
	})
}

func (k *Reconciler) observeSets(ctx context.Context, o *v1alpha1.RedisCluster, s *redis.State) error {
	sets, err := k.sets(ctx, o)
	if err != nil {
		return err
	}
	for i := range sets {
		set := &sets[i]
		if set.DeletionTimestamp != nil {
			continue
		}
		shard, _ := cluster.ShardOf(o.Name, set.Name)
		k.correctSize(o, set)
		guarded, err := k.guarded(ctx, o, shard)
		if err != nil {
			return err
		}
		s.Sets = append(s.Sets, redis.Set{
			Shard: shard, Replicas: min(int(ptr.Deref(set.Spec.Replicas, 1)), cluster.MaxServers), UID: string(set.UID), ResourceVersion: set.ResourceVersion, Guarded: guarded,
			Overdue: owned.Overdue(set, k.Now()), Made: set.CreationTimestamp.Time,
		})
		s.Spec.StorageChanged = s.Spec.StorageChanged || redis.StorageChanged(o.Spec.Storage, set)
	}
	return nil
}

// observeClaims lists the claims of all data volumes, those of an earlier cluster of this name included.
func (k *Reconciler) observeClaims(ctx context.Context, o *v1alpha1.RedisCluster, s *redis.State) error {
	claims, err := k.claims(ctx, o)
	s.Claims = claims
	return err
}

// claims returns the claims with the labels of the cluster, and those that servers mount by their
// names, whatever their labels are.
func (k *Reconciler) claims(ctx context.Context, o *v1alpha1.RedisCluster) ([]redis.Claim, error) {
	if o.Spec.Storage == nil {
		return nil, nil // What there is belongs to an earlier cluster, and is nothing to this one.
	}
	live, mounted, err := k.claimants(ctx, o)
	if err != nil {
		return nil, err
	}
	list, err := k.Claims(ctx, o.Namespace, redis.Selector(o), mounted)
	if err != nil {
		return nil, err
	}
	var out []redis.Claim
	for i := range list {
		if c, ok := redisClaimOf(o, &list[i], live); ok {
			out = append(out, c)
		}
	}
	return out, nil
}

// claimants returns the StatefulSets that are not being deleted, and the names of the claims that
// the pods of the cluster's own ones mount.
func (k *Reconciler) claimants(ctx context.Context, o *v1alpha1.RedisCluster) (live map[types.UID]bool, mounted []string, err error) {
	var sets appsv1.StatefulSetList
	if err := k.List(ctx, &sets, client.InNamespace(o.Namespace), client.MatchingLabels(redis.Selector(o))); err != nil {
		return nil, nil, fmt.Errorf("list StatefulSets: %w", err)
	}
	live = map[types.UID]bool{}
	for i := range sets.Items {
		set := &sets.Items[i]
		live[set.UID] = set.DeletionTimestamp == nil
		if _, ok := cluster.ShardOf(o.Name, set.Name); ok && live[set.UID] && metav1.IsControlledBy(set, o) {
			mounted = append(mounted, owned.ClaimNames(set.Name, min(int(ptr.Deref(set.Spec.Replicas, 1)), cluster.MaxServers))...)
		}
	}
	return live, mounted, nil
}

// redisClaimOf returns what the planner needs of a claim; false if it is none of a server.
func redisClaimOf(o *v1alpha1.RedisCluster, c metav1.Object, live map[types.UID]bool) (redis.Claim, bool) {
	shard, ordinal, ok := redis.ParseClaim(o.Name, c.GetName())
	orphan := slices.ContainsFunc(c.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "StatefulSet" && !live[r.UID] })
	return redis.Claim{
		Name: c.GetName(), UID: string(c.GetUID()), ResourceVersion: c.GetResourceVersion(),
		Shard: shard, Ordinal: ordinal, Leaving: c.GetDeletionTimestamp() != nil || orphan, Made: c.GetCreationTimestamp().Time,
	}, ok
}

// findRetained adds the claims without our labels that an earlier cluster of this name may have
// left. They decide how a cluster begins, and matter no more once slots have owners.
func (k *Reconciler) findRetained(ctx context.Context, o *v1alpha1.RedisCluster, s *redis.State) error {
	if o.Spec.Storage == nil || s.Formed() {
		return nil
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"))
	if err := k.Direct.List(ctx, &list, client.InNamespace(o.Namespace)); err != nil {
		return fmt.Errorf("list claims past the cache: %w", err)
	}
	live, _, err := k.claimants(ctx, o)
	if err != nil {
		return err
	}
	for i := range list.Items {
		c, ok := redisClaimOf(o, &list.Items[i], live)
		if ok && !slices.ContainsFunc(s.Claims, func(have redis.Claim) bool { return have.Name == c.Name }) {
			s.Claims = append(s.Claims, c)
		}
	}
	return nil
}

func (k *Reconciler) observePods(ctx context.Context, o *v1alpha1.RedisCluster, s *redis.State) error {
	pods, err := k.pods(ctx, o)
	if err != nil {
		return err
	}
	b, err := k.builder(ctx, o)
	if err != nil {
		return err
	}
	wanted := templates{Builder: b, hashed: k.hashed(o)}
	for i := range pods {
		pod := &pods[i]
		shard, ordinal, _ := redis.ParsePod(o.Name, pod.Name)
		h, err := wanted.hashes(pod, shard)
		if err != nil {
			return err
		}
		p := podOf(pod, shard, ordinal)
		p.Stood = redis.LastElection(pod.Annotations[redis.AnnotationElection], p.Started, s.Now)
		p.Outdated = !h.has(pod) || b.Stale(pod.Annotations, proven(o)) || redis.Retired(pod.Annotations[redis.AnnotationLive], s.Spec.LiveNames)
		k.observeResize(ctx, o, pod, h, &p)
		if p.Cordoned, err = k.CordonOf(ctx, pod); err != nil {
			return err
		}
		if err := k.observeStranded(ctx, pod, pods, &p, s); err != nil {
			return err
		}
		s.Pods = append(s.Pods, p)
	}
	return nil
}

// observeStranded fills in why a pod will not be scheduled because of its volume.
func (k *Reconciler) observeStranded(ctx context.Context, pod *corev1.Pod, pods []corev1.Pod, p *redis.Pod, s *redis.State) error {
	i := slices.IndexFunc(s.Claims, func(c redis.Claim) bool { return c.Shard == p.Shard && c.Ordinal == p.Ordinal })
	if i < 0 {
		return nil
	}
	why, err := k.StrandedReason(ctx, pod, s.Claims[i].Name, pods)
	if why != "" {
		s.Claims[i].Stranded, p.Stuck = why, owned.AddStranded(p.Stuck, why)
	}
	return err
}

func podOf(pod *corev1.Pod, shard, ordinal int) redis.Pod {
	p := redis.Pod{
		Name: pod.Name, UID: string(pod.UID), Shard: shard, Ordinal: ordinal,
		Made:      pod.CreationTimestamp.Time,
		NodeName:  pod.Spec.NodeName,
		Deleting:  pod.DeletionTimestamp != nil,
		Ready:     owned.PodReady(pod),
		Stuck:     cmp.Or(heldBack(pod), owned.CannotRunReason(pod, redis.ContainerServer)),
		Fatal:     owned.FatalStart(pod, redis.FatalStart, redis.ContainerGate, redis.ContainerServer),
		Unready:   unreadySince(pod),
		HeldUntil: owned.BackOffUntil(pod, redis.ContainerServer),
		Started:   startedAt(pod, redis.ContainerServer),
		Ended:     endedBy(pod, redis.ContainerServer),
		HasRun:    owned.HasRun(pod, redis.ContainerServer),
		Role:      pod.Labels[v1alpha1.LabelRole],
		Gate:      gateRemark(pod),
		Since:     owned.ReadySince(pod),
	}
	if pod.Status.PodIP != "" {
		p.Addr = redis.Address{IP: pod.Status.PodIP, Port: redis.ClientPort}
	}
	return p
}

// unreadySince is when a pod became what it is when it is not ready; zero when it is.
func unreadySince(pod *corev1.Pod) time.Time {
	since := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type != corev1.PodReady:
		case c.Status == corev1.ConditionTrue:
			return time.Time{}
		case !c.LastTransitionTime.IsZero():
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// startedAt is when a container that runs was started; zero when it does not run.
func startedAt(pod *corev1.Pod, container string) time.Time {
	if r := owned.ContainerStatus(pod.Status.ContainerStatuses, container).State.Running; r != nil {
		return r.StartedAt.Time
	}
	return time.Time{}
}

// endedBy is when the process of a container that ran before had ended at the latest: the one before it, or that of an earlier pod of the name, which was
// gone when this pod was made.
func endedBy(pod *corev1.Pod, container string) time.Time {
	status := owned.ContainerStatus(pod.Status.ContainerStatuses, container)
	for _, t := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
		if t != nil && !t.FinishedAt.IsZero() {
			return t.FinishedAt.Time
		}
	}
	if started := startedAt(pod, container); status.RestartCount > 0 && !started.IsZero() {
		return started // The node was started anew, and nobody knows.
	}
	return pod.CreationTimestamp.Time
}

// gateRemark is what the start gate said at its end, this time or the last, empty when it had nothing to remark.
func gateRemark(pod *corev1.Pod) string {
	gate := owned.ContainerStatus(pod.Status.InitContainerStatuses, redis.ContainerGate)
	for _, t := range []*corev1.ContainerStateTerminated{gate.State.Terminated, gate.LastTerminationState.Terminated} {
		if t != nil && t.Message != "" {
			return t.Message
		}
	}
	return ""
}

// heldBack returns why the start gate does not let the server start, empty when it does or has not said so. The gate is
// started again and again; its last word stands while it runs.
func heldBack(pod *corev1.Pod) string {
	gate := owned.ContainerStatus(pod.Status.InitContainerStatuses, redis.ContainerGate)
	if t := gate.State.Terminated; t != nil && t.ExitCode == 0 {
		return ""
	}
	if remark := gateRemark(pod); strings.HasPrefix(remark, redis.HeldBack) {
		return remark
	}
	return ""
}

const (
	// readBudget is how many bytes the servers of a cluster may send for one observation or step, and
	// readShare how many more for each connection. The limit of a single reply is one that few servers
	// need, for slot statistics. CLUSTER NODES has 170 KiB for 1,000 servers, ACL LIST 3 MiB for
	// 10,000 users.
	readBudget = 64 << 20
	readShare  = 1 << 20
)

// endpoint is a server to connect to: its pod, the process that is expected to answer, and its
// address.
type endpoint struct {
	pod, process string
	addr         redis.Address
}

func endpointOf(p *redis.Pod) endpoint { return endpoint{p.Name, processOf(p.UID, p.Started), p.Addr} }

// processOf identifies a process by its pod and by when its container was started.
func processOf(uid string, started time.Time) string { return uid + started.UTC().Format(time.RFC3339) }

// connectFunc says how to connect to a server as one of the operator's users.
type connectFunc func(user string, to endpoint) redisclient.Options

// connector returns how to connect to the servers of a cluster; nil while the passwords or certificates do not exist
// yet.
func (k *Reconciler) connector(ctx context.Context, o *v1alpha1.RedisCluster, passwords map[string]string) (connectFunc, error) {
	if passwords == nil {
		return nil, nil
	}
	secure, err := k.tlsConfig(ctx, o)
	if err != nil {
		return nil, err
	}
	if secure == nil && o.Spec.TLS.TLSMode() != v1alpha1.TLSDisabled {
		return nil, nil
	}
	access := redis.Access{Passwords: passwords}
	if len(logins(access, redis.UserOperator, secure != nil)) == 0 {
		return nil, nil
	}
	budget := resp.NewBudget(readBudget)
	return func(user string, to endpoint) redisclient.Options {
		options := redisclient.Options{
			Logins:     logins(access, user, secure != nil),
			Replicated: o.Spec.IsReplicated(),
			Called:     k.Metrics.Caller("redis"),
			Dial: func(ctx context.Context) (net.Conn, error) {
				return k.Dial(ctx, types.NamespacedName{Namespace: o.Namespace, Name: to.pod}, to.addr.IP, to.addr.Port)
			},
		}
		if user != redis.UserMigration { // A mover reads names of keys for minutes, and each reply is bounded.
			budget.Add(readShare)
			options.Budget = budget
		}
		if secure == nil {
			options.Refusals = login.Server{Refusals: &k.memory(o).refusals, Process: to.process, Now: k.Now}
			return options
		}
		options.TLS = secure.Clone()
		options.TLS.ServerName = cluster.PodHost(to.pod, o.Name, o.Namespace, k.Domain)
		return options
	}, nil
}

// tlsConfig is how the operator connects: the servers prove themselves, the operator does so with its password.
func (k *Reconciler) tlsConfig(ctx context.Context, o *v1alpha1.RedisCluster) (*tls.Config, error) {
	ca, _, err := k.Keypair(ctx, o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		return nil, owned.CertificateError{Err: err}
	}
	if ca == nil {
		return nil, nil
	}
	m := k.memory(o)
	if last := m.vouching.Load(); last != nil && bytes.Equal(last.ca, ca) {
		return last.config, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, owned.CertificateError{Err: owned.InvalidSpec("spec.tls: the certificate authority (ca.crt) of %s cannot be read: replace it",
			owned.TLSSecret(o.Spec.TLS, cluster.ServerTLSSecret(o.Name)))}
	}
	now := &vouching{ca, &tls.Config{
		Time: k.Now, RootCAs: pool, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(sessions),
	}}
	m.vouching.Store(now)
	return now.config, nil
}
