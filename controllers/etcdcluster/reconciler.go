package etcdcluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/goroutine"
)

// BindingType is the type of a connection Secret.
const BindingType corev1.SecretType = "servicebinding.io/etcd"

// authTrust is how long authentication that was found as wanted is taken to stay so: asking costs an entry in etcd's
// log and a bcrypt.
const authTrust = 10 * time.Minute

// Reconciler runs etcd clusters.
type Reconciler struct {
	*owned.Client
	// Connect makes a client of a member. It is etcdclient.New outside of tests.
	Connect func(etcdclient.Config) MemberClient

	clients     *clientPool
	mu          sync.Mutex
	trusted     map[types.UID]trust
	maintenance *maintenance
}

// trust remembers with which password, or without any, authentication was found as wanted.
type trust struct {
	password [sha256.Size]byte
	at       time.Time
}

var _ reconcile.Kind[*v1alpha1.EtcdCluster, model.State] = (*Reconciler)(nil)

// New returns what the loop needs to run etcd clusters.
func New(c *owned.Client) *Reconciler {
	return &Reconciler{
		Client:      c,
		Connect:     func(cfg etcdclient.Config) MemberClient { return etcdclient.New(cfg) },
		clients:     newClientPool(clientIdle),
		trusted:     map[types.UID]trust{},
		maintenance: newMaintenance(drainTime, goroutine.Go),
	}
}

// Ensure applies what is safe at any time: certificates, passwords and the peers' Service at once, the StatefulSet once
// the record exists, and what clients need once the planner has let them in.
func (k *Reconciler) Ensure(ctx context.Context, o *v1alpha1.EtcdCluster) error {
	err := owned.SkipIfUnchanged(ctx, func(ctx context.Context) error { return k.ensureCluster(ctx, o) })
	k.NoteMonitoring(o, k.ensureMonitoring(ctx, o))
	return err
}

func (k *Reconciler) ensureCluster(ctx context.Context, o *v1alpha1.EtcdCluster) error {
	password, err := k.ensurePassword(ctx, o)
	if err != nil {
		return owned.RenewAnyway(err, func() error { return k.RenewWhilePaused(ctx, o) })
	}
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return err
	}
	if err := k.EnsureCertificates(ctx, o, k.certificates(o, b)); err != nil {
		return err
	}
	if b.TrustSum, err = k.trustSum(ctx, o, b); err != nil {
		return err
	}
	if err := k.Apply(ctx, o, &corev1.Service{ObjectMeta: owned.ObjectMeta(o, cluster.PeersService(o.Name))}, b.PeersService()); err != nil {
		return err
	}
	if len(b.Record.Members) == 0 {
		return nil // The planner writes the record first.
	}
	if err := k.ensureMembers(ctx, o, b); err != nil {
		return err
	}
	if err := k.keepSnapshots(ctx, o, b); err != nil {
		return err
	}
	if open, err := k.ServesClients(ctx, o); err != nil || !open {
		return err
	}
	return k.ensureAccess(ctx, o, b, password)
}

// ensureMembers applies what the members run from, the configuration first: a pod reads it when it starts.
func (k *Reconciler) ensureMembers(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder) error {
	if err := k.ensureConfig(ctx, o, b); err != nil {
		return err
	}
	if err := k.AdoptNamed(ctx, o, &batchv1.Job{ObjectMeta: owned.ObjectMeta(o, cluster.RestoreJob(o.Name))}); err != nil {
		return err
	}
	set, err := b.StatefulSet()
	if err != nil {
		return err
	}
	live := &appsv1.StatefulSet{ObjectMeta: owned.ObjectMeta(o, o.Name)}
	current := func() error {
		if live.UID != "" { // Whoever changes it after this look, or makes it anew, knows better.
			set.WithUID(live.UID).WithResourceVersion(live.ResourceVersion)
		}
		return k.current(ctx, o, b.Record)
	}
	if err := k.ApplyIf(ctx, o, live, set, current); err != nil {
		return err
	}
	return k.Apply(ctx, o, &policyv1.PodDisruptionBudget{ObjectMeta: owned.ObjectMeta(o, o.Name)}, b.DisruptionBudget())
}

// ServesClients reports whether clients are let in.
func (k *Reconciler) ServesClients(ctx context.Context, o *v1alpha1.EtcdCluster) (bool, error) {
	svc := &corev1.Service{}
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.ClientService(o.Name)}, svc)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return k.Owns(ctx, o, svc)
}

func (k *Reconciler) applyClientService(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder) error {
	return k.Apply(ctx, o, &corev1.Service{ObjectMeta: owned.ObjectMeta(o, cluster.ClientService(o.Name))}, b.ClientService())
}

// ensureAccess applies what clients need.
func (k *Reconciler) ensureAccess(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder, password string) error {
	if err := k.applyClientService(ctx, o, b); err != nil {
		return err
	}
	return k.ensureConnection(ctx, o, b, password)
}

func (k *Reconciler) ensureConnection(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder, password string) error {
	ca, pair, err := k.UserKeypair(ctx, o, b.Reach())
	if err != nil {
		return err
	}
	return k.EnsureSecret(ctx, o, owned.Secret{
		Name: cluster.ConnectionSecret(o.Name), Type: BindingType, Labels: manifests.Labels(o.Name), Data: b.Connection(password, ca, pair),
	})
}

// Blueprint gathers what the objects of a cluster are built from. Its record is empty while there is none.
func (k *Reconciler) Blueprint(ctx context.Context, o *v1alpha1.EtcdCluster) (manifests.Builder, error) {
	record, err := k.Record(ctx, o)
	if err != nil {
		return manifests.Builder{}, err
	}
	set, err := k.StatefulSet(ctx, o)
	if err != nil {
		return manifests.Builder{}, err
	}
	b, err := k.planned(o, record, firstReach(o, set))
	if err != nil {
		return b, err
	}
	if b.Owner, err = k.OwnerReference(o); err != nil {
		return b, err
	}
	b.Domain = k.DNSDomain(o, b.Record)
	if b.SigningSum, err = k.signingSum(ctx, o); err != nil {
		return b, err
	}
	b.Storage = storage(o.Spec.Storage, set)
	claims, err := k.claims(ctx, o, set, min(claimable(o, b.Record), len(b.Record.Members)), k.Now())
	if err != nil {
		return b, err
	}
	b.Smallest = smallest(claims, len(b.Record.Members))
	b.InUse, err = k.versionsInUse(ctx, o, set)
	return b, err
}

// planned returns what follows from the specification and the record alone: the settings that pods are made with, which are the
// proven ones while those of the specification are rejected.
func (k *Reconciler) planned(o *v1alpha1.EtcdCluster, record model.Record, first model.Transport) (manifests.Builder, error) {
	made := o.DeepCopy()
	asked, err := model.SettingsOf(o.Spec).Encode()
	if err != nil {
		return manifests.Builder{}, err
	}
	if record.Rejected != "" && record.Rejected == model.Sum(asked) {
		proven, err := model.DecodeSettings(record.Proven)
		if err != nil {
			return manifests.Builder{}, err
		}
		proven.Into(&made.Spec)
	}
	target, err := model.ParseVersion(made.Spec.Version)
	if err != nil || !model.CapabilitiesOf(target).Supported {
		return manifests.Builder{}, owned.InvalidSpec("spec.version: %q is not a supported version of etcd: use %s", o.Spec.Version, model.Supported())
	}
	if len(record.Members) == 0 && made.Spec.TLS.TLSMode() != v1alpha1.TLSDisabled && !model.CapabilitiesOf(target).RestrictsPeers {
		return manifests.Builder{}, owned.InvalidSpec("%s", unrestrictedPeers(target))
	}
	b := manifests.Builder{
		Cluster: made, Target: target, Version: target, Record: record, First: first, AgentImage: k.AgentImage, Registry: k.Registry,
		Asked: model.Sum(asked),
	}
	b = k.secured(o, b)
	if len(record.Members) > 0 {
		b.Version = record.Version
	}
	b.Common, err = config.Common(made.Spec.Config, b.Version, target)
	return b, err
}

// versionsInUse are the versions that the pods of a cluster were made with.
func (k *Reconciler) versionsInUse(ctx context.Context, o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet) ([]model.Version, error) {
	pods, err := k.Pods(ctx, o, set)
	if err != nil {
		return nil, err
	}
	var out []model.Version
	for _, p := range pods {
		if v, err := model.ParseVersion(p.Annotations[v1alpha1.AnnotationVersion]); err == nil && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out, nil
}

// signingSum tells keys apart that tokens are signed with, empty while there is none.
func (k *Reconciler) signingSum(ctx context.Context, o *v1alpha1.EtcdCluster) (string, error) {
	if o.Spec.Auth.AuthMode() == v1alpha1.AuthDisabled {
		return "", nil
	}
	passwords, err := k.Passwords(ctx, o)
	if err != nil || passwords[config.SigningKey] == "" {
		return "", err
	}
	sum := sha256.Sum256([]byte(passwords[config.SigningKey]))
	return hex.EncodeToString(sum[:8]), nil
}

// DNSDomain is the DNS domain that the members were named in, and before there are any that of the Kubernetes cluster.
func (k *Reconciler) DNSDomain(o *v1alpha1.EtcdCluster, r model.Record) string {
	return cmp.Or(r.Domain(o.Name, o.Namespace), k.Domain)
}

// StatefulSet reads the StatefulSet of a cluster, nil when there is none of its own.
func (k *Reconciler) StatefulSet(ctx context.Context, o *v1alpha1.EtcdCluster) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	err := k.Get(ctx, client.ObjectKeyFromObject(o), set)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read StatefulSet %s: %w", o.Name, err)
	}
	if own, err := k.Owns(ctx, o, set); !own || err != nil {
		return nil, err
	}
	if k.Expectations.IsDeleted(set) { // What it was made with would be applied to the next one.
		return nil, nil
	}
	return set, nil
}

// storage is what an existing StatefulSet makes claims with, because that cannot change before the planner has it made anew, and
// what the specification asks for otherwise.
func storage(spec *v1alpha1.StorageSpec, set *appsv1.StatefulSet) *v1alpha1.StorageSpec {
	if set == nil {
		return spec
	}
	if len(set.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	claim := set.Spec.VolumeClaimTemplates[0].Spec
	out := &v1alpha1.StorageSpec{Size: claim.Resources.Requests[corev1.ResourceStorage], ClassName: claim.StorageClassName}
	if spec == nil {
		return out
	}
	out.DeletionPolicy = spec.DeletionPolicy
	if storageState(out) != storageState(spec) {
		out.DeletionPolicy = ptr.To(v1alpha1.DeletionRetain) // The set is to be made anew, and must not take claims along.
	}
	return out
}

// Next decides what to do.
func (k *Reconciler) Next(s model.State) cluster.Plan { return planner.Next(s) }

// Report fills in the status.
func (k *Reconciler) Report(o *v1alpha1.EtcdCluster, s model.State, p cluster.Plan, err error) {
	st := &o.Status
	st.ObservedGeneration = o.Generation
	st.Selector = labels.SelectorFromSet(manifests.Selector(o.Name)).String()
	st.Activity = cluster.Activity(p, err)
	planner.Status(st, s)
	if s.Want.Name != "" {
		st.Certificates = owned.CertificateStatus(s.Certificates)
		owned.ReportBackups(&st.Conditions, k.Now(), o.Generation, s.BackupHealth)
		owned.ReportMonitoring(&st.Conditions, k.Now(), o.Generation, s.Monitoring)
	}
	conditions.Set(&st.Conditions, k.Now(), o.Generation, append(planner.Conditions(s, p, err), switching(owned.TLSReady(o.Spec.TLS, s.Certificates, err), s))...)
}

// Figures of a state, for metrics.
func (*Reconciler) Figures(s model.State) cluster.Figures { return planner.Figures(s) }
