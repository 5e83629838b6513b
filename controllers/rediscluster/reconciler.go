package rediscluster

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/internal/ttlmap"
)

// BindingType marks the connection Secret for tools that speak Service Binding.
const BindingType corev1.SecretType = "servicebinding.io/redis"

// Reconciler is what a RedisCluster brings to the loop.
type Reconciler struct {
	*owned.Client
	// Connect opens a client to a server. It is redisclient.New outside of tests.
	Connect func(redisclient.Options) steps.Client
	// ConnectMover opens one that moves keys. It is redisclient.NewMover outside of tests.
	ConnectMover func(redisclient.Options) steps.Mover
	// memories of the clusters.
	memories ttlmap.Map[types.UID, memory]
}

var _ reconcile.Kind[*v1alpha1.RedisCluster, model.State] = (*Reconciler)(nil)

// New returns the kind of RedisCluster.
func New(c *owned.Client) *Reconciler {
	return &Reconciler{
		Client:       c,
		Connect:      func(o redisclient.Options) steps.Client { return redisclient.New(o) },
		ConnectMover: func(o redisclient.Options) steps.Mover { return redisclient.NewMover(o) },
		memories:     ttlmap.Map[types.UID, memory]{New: newMemory},
	}
}

// Next decides what to do.
func (k *Reconciler) Next(s model.State) cluster.Plan { return planner.Next(s) }

// Repairs decides what to do while Ensure fails.
func (k *Reconciler) Repairs(s model.State) cluster.Plan { return planner.Repairs(s) }

// Ensure applies the children in the order in which pods need them: what they mount comes before them.
func (k *Reconciler) Ensure(ctx context.Context, o *v1alpha1.RedisCluster) error {
	err := owned.SkipIfUnchanged(ctx, func(ctx context.Context) error { return k.ensureCluster(ctx, o) })
	k.NoteMonitoring(o, k.ensureMonitoring(ctx, o))
	return err
}

func (k *Reconciler) ensureCluster(ctx context.Context, o *v1alpha1.RedisCluster) error {
	inUse, err := k.started(ctx, o)
	if err != nil {
		return err
	}
	if !inUse {
		ctx = owned.Uncached(ctx) // Whoever took the StatefulSets away may have taken what they mount as well.
	}
	passwords, err := k.ensurePasswords(ctx, o, inUse)
	if err != nil {
		return owned.RenewAnyway(err, func() error { return k.RenewWhilePaused(ctx, o) })
	}
	doors, err := k.ensureExternal(ctx, o, inUse)
	if err != nil {
		return err
	}
	if doors, err = k.withFormer(ctx, o, doors); err != nil {
		return err
	}
	if err := k.refuseExposed(ctx, o, inUse); err != nil {
		return err
	}
	if err := k.EnsureCertificates(ctx, o, k.certificates(o, inUse, doors)); err != nil {
		return err
	}
	b, err := k.builder(ctx, o)
	if err != nil {
		return err
	}
	if b.Doors, err = k.ExternalEndpoints(ctx, o); err != nil {
		return err
	}
	if err := k.ensureShared(ctx, o, b); err != nil {
		return err
	}
	return k.ensureServers(ctx, o, b, passwords)
}

// ensureServers applies the servers and what clients need. Of a cluster that begins with a backup, servers are started when it is known which
// one that is, and clients are let in when it has been loaded.
func (k *Reconciler) ensureServers(ctx context.Context, o *v1alpha1.RedisCluster, b manifests.Builder, passwords map[string]string) error {
	err := k.AdoptNamed(ctx, o, &corev1.ConfigMap{ObjectMeta: owned.ObjectMeta(o, cluster.RestoreConfig(o.Name))},
		&batchv1.Job{ObjectMeta: owned.ObjectMeta(o, cluster.RestoreJob(o.Name))}, &batchv1.Job{ObjectMeta: owned.ObjectMeta(o, cluster.LoadJob(o.Name))})
	if err != nil {
		return err
	}
	restore, err := k.observeRestore(ctx, o)
	if err != nil || (restore != nil && restore.Wish != nil) {
		return err
	}
	shards, err := k.shards(ctx, o)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		if err := k.ensureShard(ctx, o, b, shard); err != nil {
			return err
		}
	}
	if facts.Bootstraps(restore) {
		return nil
	}
	return k.ensureConnection(ctx, o, passwords, b.Doors)
}

// started reports whether servers may have been started: their StatefulSets come after all that they mount.
func (k *Reconciler) started(ctx context.Context, o *v1alpha1.RedisCluster) (bool, error) {
	set := &appsv1.StatefulSet{}
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.ShardSet(o.Name, 0)}, set)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read StatefulSet of shard 0: %w", err)
	}
	return k.Owns(ctx, o, set)
}

func (k *Reconciler) builder(ctx context.Context, o *v1alpha1.RedisCluster) (manifests.Builder, error) {
	b := manifests.Builder{
		Cluster: o, Domain: k.Domain, AgentImage: k.AgentImage, Registry: k.Registry,
		TLSSecret: owned.TLSSecret(o.Spec.TLS, cluster.ServerTLSSecret(o.Name)),
	}
	var err error
	if b.Owner, err = k.OwnerReference(o); err != nil {
		return b, err
	}
	b.CertificateSum, err = k.certificateSum(ctx, o)
	return b, err
}

// leafs returns the one certificate of a cluster, which all servers share. Clients are handed none: whatever
// the authority signs opens the cluster bus, where a peer takes slots without a password, and servers
// ask clients for no certificate.
func (k *Reconciler) leafs(o *v1alpha1.RedisCluster, doors []model.Door) map[string]clustertls.Leaf {
	names, addresses := hostsOutside(doors)
	peers := cluster.ServiceNames(cluster.PeersService(o.Name), o.Namespace, k.Domain)
	var service []string
	for _, name := range entries(o) {
		service = append(service, cluster.ServiceNames(name, o.Namespace, k.Domain)...)
	}
	return map[string]clustertls.Leaf{
		cluster.ServerTLSSecret(o.Name): {
			CommonName: o.Name, DNSNames: slices.Concat(service, cluster.Wildcards(peers), []string{"localhost"}, names),
			IPs: slices.Concat(clustertls.Loopback, addresses),
		},
	}
}

// hosts are the names under which clients and the operator reach the servers.
func (k *Reconciler) hosts(o *v1alpha1.RedisCluster) []string {
	var hosts []string
	for _, name := range entries(o) {
		hosts = append(hosts, cluster.ServiceHost(name, o.Namespace, k.Domain))
	}
	for shard := range o.Spec.ShardCount() {
		for ordinal := range 1 + o.Spec.Replicas() {
			hosts = append(hosts, cluster.PodHost(cluster.Pod(cluster.ShardSet(o.Name, shard), ordinal), o.Name, o.Namespace, k.Domain))
		}
	}
	return hosts
}

func (k *Reconciler) ensureShared(ctx context.Context, o *v1alpha1.RedisCluster, b manifests.Builder) error {
	config, err := b.Config()
	if err != nil {
		return err
	}
	if err := k.Apply(ctx, o, &corev1.ConfigMap{ObjectMeta: owned.ObjectMeta(o, *config.Name)}, config); err != nil {
		return err
	}
	if err := k.ensureService(ctx, o, b.Peers()); err != nil {
		return err
	}
	if o.Spec.IsReplicated() {
		return k.ensureRoles(ctx, o, b)
	}
	return k.ensureService(ctx, o, b.Client())
}

func (k *Reconciler) ensureService(ctx context.Context, o *v1alpha1.RedisCluster, s *corev1ac.ServiceApplyConfiguration) error {
	return k.Apply(ctx, o, &corev1.Service{ObjectMeta: owned.ObjectMeta(o, *s.Name)}, s)
}

func (k *Reconciler) ensureShard(ctx context.Context, o *v1alpha1.RedisCluster, b manifests.Builder, shard int) error {
	guarded, err := k.guarded(ctx, o, shard)
	if err != nil {
		return err
	}
	if err := k.ensureBudget(ctx, o, b, shard, guarded); err != nil {
		return err
	}
	live, err := k.liveShard(ctx, o, shard)
	if err != nil {
		return err
	}
	set, err := b.Set(shard, live)
	if err != nil {
		return err
	}
	return k.ApplyIf(ctx, o, &appsv1.StatefulSet{ObjectMeta: owned.ObjectMeta(o, *set.Name)}, set, func() error {
		if live != nil { // The planner may have given it another size since this look, see scaleShard, or dropped it.
			set.WithUID(live.UID).WithResourceVersion(live.ResourceVersion)
		}
		return k.ConfirmSpec(ctx, o)
	})
}

// liveShard returns the StatefulSet of a shard, adopted if it was an orphan. It is nil if there is
// none, and if it is another owner's, which apply refuses.
func (k *Reconciler) liveShard(ctx context.Context, o *v1alpha1.RedisCluster, shard int) (*appsv1.StatefulSet, error) {
	live, key := &appsv1.StatefulSet{}, client.ObjectKey{Namespace: o.Namespace, Name: cluster.ShardSet(o.Name, shard)}
	err := k.GetCurrent(ctx, key, live) // To apply the size of a stale one would undo scaleShard.
	if apierrors.IsNotFound(err) {
		err = k.Direct.Get(ctx, key, live) // It may be there without the label by which the cache finds it.
	}
	if apierrors.IsNotFound(err) {
		return nil, k.waitForClaims(ctx, o, shard)
	}
	if err != nil {
		return nil, fmt.Errorf("read StatefulSet of shard %d: %w", shard, err)
	}
	if own, err := k.Owns(ctx, o, live); !own || err != nil {
		return nil, err
	}
	if err := k.Adopt(ctx, o, live); err != nil {
		return nil, err
	}
	return live, nil
}

// ensureBudget applies the budget of a shard. One of a shard that leaves is not made: it goes before its StatefulSet does, see dropShard.
func (k *Reconciler) ensureBudget(ctx context.Context, o *v1alpha1.RedisCluster, b manifests.Builder, shard int, guarded bool) error {
	budget := b.Budget(shard, guarded)
	live := &policyv1.PodDisruptionBudget{ObjectMeta: owned.ObjectMeta(o, *budget.Name)}
	if shard >= o.Spec.ShardCount() {
		if err := k.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return k.ApplyIf(ctx, o, live, budget, func() error {
		if live.UID == "" {
			return k.ConfirmSpec(ctx, o)
		}
		budget.WithUID(live.UID)
		return nil
	})
}

// guarded tells whether a shard's budget allows no evictions. That is for the planner to change, see redis.Guard:
// to apply what a stale one says would undo the step.
func (k *Reconciler) guarded(ctx context.Context, o *v1alpha1.RedisCluster, shard int) (bool, error) {
	var live policyv1.PodDisruptionBudget
	err := k.GetCurrent(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.ShardSet(o.Name, shard)}, &live)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read budget of shard %d: %w", shard, err)
	}
	most := live.Spec.MaxUnavailable
	if most == nil || most.IntValue() != 0 {
		return false, nil
	}
	return k.Owns(ctx, o, &live)
}

// waitForClaims holds a new StatefulSet back while claims of its pods are on their way out: a pod that took one would
// lose its disk at the next restart.
func (k *Reconciler) waitForClaims(ctx context.Context, o *v1alpha1.RedisCluster, shard int) error {
	claims, err := k.claims(ctx, o)
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.Shard == shard && c.Leaving {
			return cluster.Hold{Reason: v1alpha1.ReasonPreviousCluster, Message: fmt.Sprintf("claim %s of an earlier cluster of this name is being deleted", c.Name)}
		}
	}
	return nil
}

// ensureConnection writes the Secret that clients connect with. It may exist before the cluster does: without slots a
// server takes no write.
func (k *Reconciler) ensureConnection(ctx context.Context, o *v1alpha1.RedisCluster, passwords map[string]string, doors []model.Door) error {
	ca, err := k.Authorities(ctx, o)
	if err != nil {
		return err
	}
	data := manifests.Connection(o, manifests.Login{
		Domain: k.Domain, Username: acl.UserDefault, Password: passwords[acl.PasswordDefault], CA: ca, Doors: doors,
	})
	return k.EnsureSecret(ctx, o, owned.Secret{Name: cluster.ConnectionSecret(o.Name), Type: BindingType, Labels: manifests.Labels(o), Data: data})
}

// Report fills in the status.
func (k *Reconciler) Report(o *v1alpha1.RedisCluster, s model.State, p cluster.Plan, err error) {
	o.Status.ObservedGeneration = o.Generation
	o.Status.Activity = cluster.Activity(p, err)
	o.Status.Selector = k8slabels.SelectorFromSet(manifests.OnePerShard(o)).String()
	o.Status.ConnectionSecret = cluster.ConnectionSecret(o.Name)
	planner.Status(s, &o.Status)
	o.Status.ExternalEndpoints = manifests.Endpoints(s.Doors)
	conditions.Set(&o.Status.Conditions, k.Now(), o.Generation, planner.Conditions(s, p, err)...)
	if !s.Spec.Rebalance.On() {
		meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionBalanced)
	}
	if s.Spec.Name != "" {
		o.Status.Certificates = owned.CertificateStatus(s.Certificates)
		owned.ReportBackups(&o.Status.Conditions, k.Now(), o.Generation, s.BackupHealth)
		owned.ReportMonitoring(&o.Status.Conditions, k.Now(), o.Generation, s.Monitoring)
	}
	conditions.Set(&o.Status.Conditions, k.Now(), o.Generation, owned.TLSReady(o.Spec.TLS, s.Certificates, err))
}

// Figures of a state, for metrics.
func (*Reconciler) Figures(s model.State) cluster.Figures { return facts.Figures(s) }
