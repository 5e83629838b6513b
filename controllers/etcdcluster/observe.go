package etcdcluster

import (
	"context"
	"crypto/sha256"
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
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/goroutine"
)

const (
	// statusTimeout bounds the question to one member, which answers from memory, and loginTimeout the one that is put anew where none was answered in
	// time: with another password or transport the operator logs in to all of them at once, and each login costs a member a bcrypt.
	statusTimeout = time.Second
	loginTimeout  = 4 * time.Second
	// quorumTimeout bounds a read through the quorum.
	quorumTimeout = 2 * time.Second
)

// Observe reads the state of a cluster: its objects from the cache, and from the members what they say themselves.
func (k *Reconciler) Observe(ctx context.Context, o *v1alpha1.EtcdCluster) (etcd.State, error) {
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return etcd.State{}, err
	}
	set, err := k.StatefulSet(ctx, o)
	if err != nil {
		return etcd.State{}, err
	}
	report, err := k.observeCertificates(ctx, o, &b, set)
	if err != nil {
		return etcd.State{}, err
	}
	want, err := k.want(o, b)
	if err != nil {
		return etcd.State{}, err
	}
	s := etcd.State{Want: want, Certificates: report, Now: k.Now(), Monitoring: k.MonitoringCondition(o, o.Spec.Monitoring != nil, nil)}
	if s.BackupHealth, err = k.BackupHealth(ctx, o, v1alpha1.KindEtcdCluster); err != nil {
		return etcd.State{}, err
	}
	if len(b.Record.Members) > 0 {
		s.Record = &b.Record
		s.Want.Anew, err = k.anew(ctx, o, b.Record)
	} else {
		s.Want.Restore, err = restore.Request(ctx, k.Client, o, etcdBootstrap(o))
	}
	if err != nil {
		return etcd.State{}, err
	}
	pods, err := k.observeObjects(ctx, o, set, &s)
	if err != nil {
		return etcd.State{}, err
	}
	if len(pods) == 0 || s.Record == nil || s.Record.Hibernated {
		return s, nil
	}
	if err := k.observeBackups(ctx, o, &s); err != nil {
		return etcd.State{}, err
	}
	return s, k.askMembers(ctx, o, &s, pods)
}

// observeObjects fills in what Kubernetes knows, and returns the pods.
func (k *Reconciler) observeObjects(
	ctx context.Context, o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet, s *etcd.State,
) (pods []corev1.Pod, err error) {
	now := k.Now()
	if set != nil {
		made, _ := etcd.ParseVersion(set.Spec.Template.Annotations[v1alpha1.AnnotationVersion]) // Or it does not say.
		s.Set = &etcd.Set{
			UID: string(set.UID), Age: now.Sub(set.CreationTimestamp.Time), Overdue: owned.Overdue(set, now), Storage: storageState(storage(o.Spec.Storage, set)),
			Replicas: int(ptr.Deref(set.Spec.Replicas, 1)), Version: made, KeepsClaims: keepsClaims(set),
		}
	}
	if s.Open, err = k.ServesClients(ctx, o); err != nil {
		return nil, err
	}
	if s.Claims, err = k.observeClaims(ctx, o, set, s.Record, now); err != nil {
		return nil, err
	}
	if err := k.judgeStorage(ctx, o, s); err != nil {
		return nil, err
	}
	if pods, err = k.Pods(ctx, o, set); err != nil {
		return nil, err
	}
	for i := range pods {
		p := podState(&pods[i])
		p.OldRevision, p.Age = oldRevision(&pods[i], set), now.Sub(pods[i].CreationTimestamp.Time)
		if p.Cordoned, err = k.CordonOf(ctx, &pods[i]); err != nil {
			return nil, err
		}
		s.Pods = append(s.Pods, p)
	}
	return pods, k.findLosses(ctx, o, s, pods)
}

func (k *Reconciler) want(o *v1alpha1.EtcdCluster, b etcd.Blueprint) (etcd.Want, error) {
	hash, err := b.TemplateHash()
	if err != nil {
		return etcd.Want{}, err
	}
	policy, err := b.Policy()
	if err != nil {
		return etcd.Want{}, err
	}
	settings := etcd.SettingsOf(b.Cluster.Spec)
	settings.Version = b.Version.String()
	made, err := settings.Encode()
	if err != nil {
		return etcd.Want{}, err
	}
	secret := o.Spec.Auth.Secret()
	if secret == "" {
		secret = cluster.AuthSecret(o.Name)
	}
	return etcd.Want{
		Name:            o.Name,
		Namespace:       o.Namespace,
		Size:            int(o.Spec.Size),
		Peers:           b.Peers(),
		TLS:             b.Reach().WantsTLS(o.Spec.TLS),
		Hold:            b.Cluster.Spec.TLS.RotationHold(),
		TemplateHash:    hash,
		Maintenance:     policy,
		Version:         b.Target,
		Settings:        made,
		Asked:           b.Asked,
		Snapshot:        o.Spec.Upgrade.NeedsSnapshot(),
		SnapshotPlace:   b.Storage != nil || o.Spec.Upgrade.BackupDestination() != nil,
		ImageOverridden: b.Cluster.Spec.Image != nil,
		Auth:            o.Spec.Auth.AuthMode() == v1alpha1.AuthPassword,
		PasswordSecret:  secret,
		Persistent:      b.Storage != nil,
		Approved:        o.Annotations[v1alpha1.AnnotationRecover],
		RecoverAfter:    o.Spec.Recovery.After(),
		StorageChanged:  (o.Spec.Storage == nil) != (b.Storage == nil),
		Storage:         storageState(o.Spec.Storage),
		StorageQuota:    b.QuotaOn(storageState(o.Spec.Storage).Size),
		Hibernated:      o.IsHibernated(),
	}, nil
}

// oldRevision reports whether the StatefulSet controller would make the pod from another template by now.
func oldRevision(p *corev1.Pod, set *appsv1.StatefulSet) bool {
	return set != nil && set.Status.ObservedGeneration == set.Generation && set.Status.UpdateRevision != "" &&
		p.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision
}

// observeClaims returns the claims that matter to a cluster. Before the record is written they are
// those of every ordinal that there can be: the data of an earlier cluster decides how this one begins.
func (k *Reconciler) observeClaims(
	ctx context.Context, o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet, record *etcd.Record, now time.Time,
) ([]etcd.Claim, error) {
	switch {
	case record == nil:
		return k.claims(ctx, o, set, etcd.MaxSize, now)
	case o.Spec.Storage == nil:
		return nil, nil // Those that there are belong to an earlier cluster.
	}
	return k.claims(ctx, o, set, claimable(o, *record), now)
}

// claimable returns the number of ordinals whose members mount a claim, or are to mount one.
func claimable(o *v1alpha1.EtcdCluster, record etcd.Record) int {
	if o.Spec.Storage == nil {
		return 0
	}
	return max(len(record.Members), int(o.Spec.Size))
}

// claims returns the data volume claims of all ordinals, those of an earlier cluster of this name
// included. Those of the first n ordinals are found whatever their labels are.
func (k *Reconciler) claims(ctx context.Context, o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet, n int, now time.Time) ([]etcd.Claim, error) {
	list, err := k.Claims(ctx, o.Namespace, etcd.Selector(o.Name), owned.ClaimNames(o.Name, n))
	if err != nil {
		return nil, err
	}
	var out []etcd.Claim
	for i := range list {
		c := &list[i]
		n, ok := ordinal(c.Name, cluster.VolumeData+"-"+o.Name)
		if !ok {
			continue
		}
		state := claimState(c)
		state.Ordinal, state.Leaving = n, c.DeletionTimestamp != nil || condemned(c, set)
		state.Owned = slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool { return set != nil && r.UID == set.UID })
		state.Age, state.Unlabelled = now.Sub(c.CreationTimestamp.Time), owned.Unlabelled(c, etcd.Selector(o.Name))
		out = append(out, state)
	}
	return out, nil
}

// claimRefs refer to the claims of a cluster that its StatefulSet does not take along when it goes.
func (k *Reconciler) claimRefs(ctx context.Context, o *v1alpha1.EtcdCluster) ([]*metav1ac.OwnerReferenceApplyConfiguration, error) {
	record, err := k.Record(ctx, o)
	if err != nil {
		return nil, err
	}
	list, err := k.Claims(ctx, o.Namespace, etcd.Selector(o.Name), owned.ClaimNames(o.Name, claimable(o, record)))
	if err != nil {
		return nil, err
	}
	var out []*metav1ac.OwnerReferenceApplyConfiguration
	for _, c := range list {
		if c.DeletionTimestamp == nil {
			out = append(out, metav1ac.OwnerReference().
				WithAPIVersion("v1").WithKind("PersistentVolumeClaim").WithName(c.Name).WithUID(c.UID))
		}
	}
	return out, nil
}

// keepsClaims reports whether the StatefulSet controller knows that the claims do not go with the set. It takes its references to
// it off them then.
func keepsClaims(set *appsv1.StatefulSet) bool {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	kept := p == nil || p.WhenDeleted != appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return kept && set.Status.ObservedGeneration >= set.Generation
}

// condemned reports whether a claim goes with a StatefulSet that is gone or going.
func condemned(c *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) bool {
	return slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == "StatefulSet" && (set == nil || set.UID != r.UID)
	})
}

// Pods returns the pods of the StatefulSet of o, all that carry its labels if set is nil.
func (k *Reconciler) Pods(ctx context.Context, o *v1alpha1.EtcdCluster, set *appsv1.StatefulSet) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabels(etcd.Selector(o.Name))); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var sets []appsv1.StatefulSet
	if set != nil {
		sets = append(sets, *set)
	}
	pods, err := k.PodsOfSets(ctx, o, list.Items, sets, func(pod *corev1.Pod) string {
		ref := metav1.GetControllerOf(pod)
		if _, ok := ordinal(pod.Name, o.Name); !ok || (ref != nil && set != nil && ref.UID != set.UID) {
			return "" // The pods of an earlier StatefulSet run members of an earlier cluster.
		}
		return o.Name
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return podState(&a).Ordinal - podState(&b).Ordinal })
	return pods, err
}

// ordinal parses the number behind the prefix and a dash.
func ordinal(name, prefix string) (int, bool) {
	rest, found := strings.CutPrefix(name, prefix+"-")
	n, ok := cluster.Number(rest)
	return n, ok && found
}

// Credentials are what it takes to talk to the members of a cluster.
type Credentials struct {
	rootLogin
	tls         *tls.Config
	domain      string
	fingerprint [sha256.Size]byte
}

// Credentials reads certificates and password. They are nil and empty while they do not exist.
func (k *Reconciler) Credentials(ctx context.Context, o *v1alpha1.EtcdCluster) (Credentials, error) {
	login, err := k.rootLogin(ctx, o)
	if err != nil {
		return Credentials{}, err
	}
	record, err := k.Record(ctx, o)
	if err != nil {
		return Credentials{}, err
	}
	a := Credentials{rootLogin: login, domain: k.DNSDomain(o, record)}
	reach, err := k.Transport(ctx, o, record)
	if err != nil {
		return a, err
	}
	if !reach.Secure {
		a.fingerprint = sha256.Sum256(login.bytes())
		return a, nil
	}
	from := reach.Certificates(o.Spec.TLS)
	ca, pair, err := k.Keypair(ctx, o, from, cluster.OperatorTLSSecret(o.Name))
	if err != nil {
		return a, owned.CertificateError{Err: err}
	}
	a.fingerprint = sha256.Sum256(slices.Concat(ca, []byte{0}, pair.Cert, []byte{0}, pair.Key, []byte{0}, login.bytes()))
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return a, owned.CertificateError{Err: fmt.Errorf("the operator's certificate: %w", err)}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return a, owned.CertificateError{Err: owned.InvalidSpec("spec.tls: the certificate authority (ca.crt) of %s cannot be read: replace it",
			owned.TLSSecret(from, cluster.OperatorTLSSecret(o.Name)))}
	}
	a.tls = &tls.Config{Time: k.Now, MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}}
	return a, nil
}

// MemberClientOf returns the client of the member in a pod, kept between passes.
func (k *Reconciler) MemberClientOf(ctx context.Context, o *v1alpha1.EtcdCluster, a Credentials, pod *corev1.Pod) MemberClient {
	key := clientKey{pod: pod.UID, ip: pod.Status.PodIP, access: a.fingerprint}
	return k.clients.get(ctx, key, func() MemberClient {
		name, ip := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.Status.PodIP
		return k.Connect(etcdclient.Config{
			Host: cluster.PodHost(pod.Name, o.Name, o.Namespace, a.domain), TLS: a.tls, Password: a.password, Former: a.former, SigningKey: a.signingKey,
			Dial:   func(ctx context.Context) (net.Conn, error) { return k.Dial(ctx, name, ip, etcd.ClientPort) },
			Called: k.Metrics.Caller("etcd"),
		})
	})
}

// askMembers asks every running member about itself, and one that has a leader about the cluster. What does not
// answer stays unknown.
func (k *Reconciler) askMembers(ctx context.Context, o *v1alpha1.EtcdCluster, s *etcd.State, pods []corev1.Pod) error {
	a, err := k.Credentials(ctx, o)
	if err != nil {
		return err
	}
	s.Want.CertificateIsRoot = etcdclient.IsRoot(a.tls)
	if a.former != "" {
		s.Want.NewPassword, s.Want.PasswordSecret = true, cluster.AuthSecret(o.Name)
	}
	clients, due := map[string]etcd.Client{}, k.vitalsDue(o, s)
	for i := range pods {
		if Running(&pods[i]) {
			clients[pods[i].Name] = k.MemberClientOf(ctx, o, a, &pods[i])
		}
	}
	if k.askAll(ctx, s.Pods, clients, due, statusTimeout); allSlow(s.Pods) {
		k.askAll(ctx, s.Pods, clients, due, loginTimeout)
	}
	k.recall(o, s)
	defer k.watch(o, s)
	if wrongPassword(s.Pods) {
		s.Auth = &etcd.Auth{Enabled: true}
		return nil
	}
	follow := leaderFirst(s.Pods)
	if s.VersionMoves() {
		s.ClusterVersion = agreedVersion(ctx, s.Pods, clients)
	}
	for _, p := range follow {
		if k.askCluster(ctx, o, s, clients[p.Name], a.password) {
			k.examine(ctx, o, s, clients[p.Name], clients)
			break
		}
	}
	return nil
}

// askAll asks all members about themselves at the same time.
func (k *Reconciler) askAll(ctx context.Context, pods []etcd.Pod, clients map[string]etcd.Client, due map[string]bool, timeout time.Duration) {
	errs := goroutine.Each(len(pods), func(i int) error {
		if c := clients[pods[i].Name]; c != nil {
			return k.askStatus(ctx, c, &pods[i], due[pods[i].UID], timeout)
		}
		return nil
	})
	for i, err := range errs {
		if err != nil {
			pods[i].View, pods[i].Unreachable = nil, err
		}
	}
}

// allSlow tells whether no member has answered, and one did not in time that the kubelet finds ready.
func allSlow(pods []etcd.Pod) bool {
	return !slices.ContainsFunc(pods, func(p etcd.Pod) bool { return p.View != nil }) &&
		slices.ContainsFunc(pods, func(p etcd.Pod) bool { return p.Ready && p.Unreachable != nil && p.Took > 0 })
}

// askStatus asks a member about itself and, if they are wanted, for its metrics. Those may stay unknown.
func (k *Reconciler) askStatus(ctx context.Context, c etcd.Client, p *etcd.Pod, vitals bool, timeout time.Duration) error {
	short, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("it did not answer in time"))
	defer cancel()
	began := k.Now()
	v, err := c.Status(short)
	if err == nil || short.Err() != nil {
		p.Took = k.Now().Sub(began)
	}
	if err != nil {
		return err
	}
	p.View, p.Unreachable = &v, nil
	if vitals {
		k.askVitals(ctx, c, p)
	}
	return nil
}

// agreedVersion is the version that the members have agreed on, by the first that tells it: one that follows a leader, or else any, which
// needs no quorum for it. One without a leader may be behind, and never ahead: what it has applied is settled.
func agreedVersion(ctx context.Context, pods []etcd.Pod, clients map[string]etcd.Client) (v etcd.Version) {
	leaderless := slices.DeleteFunc(slices.Clone(pods), func(p etcd.Pod) bool { return p.View == nil || p.View.Leader != 0 })
	for _, p := range slices.Concat(leaderFirst(pods), leaderless) {
		if v = askVersion(ctx, clients[p.Name]); v != (etcd.Version{}) {
			break
		}
	}
	return v
}

// askVersion asks for the version that the members have agreed on, zero when there is no answer.
func askVersion(ctx context.Context, c etcd.Client) etcd.Version {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, errors.New("it did not answer in time"))
	defer cancel()
	v, err := c.ClusterVersion(ctx)
	if err != nil {
		return etcd.Version{}
	}
	return v
}

// wrongPassword reports whether no member answers that has a vote, and one does not because of the password.
func wrongPassword(pods []etcd.Pod) bool {
	found := false
	for _, p := range pods {
		if p.View != nil && !p.View.Learner {
			return false
		}
		found = found || errors.Is(p.Unreachable, etcd.ErrPassword)
	}
	return found
}

// leaderFirst returns the pods whose member follows a leader, the leader's own first.
func leaderFirst(pods []etcd.Pod) []etcd.Pod {
	var out []etcd.Pod
	for _, p := range pods {
		switch {
		case p.View == nil || p.View.Leader == 0:
		case p.View.Leader == p.View.MemberID:
			out = append([]etcd.Pod{p}, out...)
		default:
			out = append(out, p)
		}
	}
	return out
}

// askCluster reads the member list through the quorum, and the state of authentication. It reports whether the list
// could be read.
func (k *Reconciler) askCluster(ctx context.Context, o *v1alpha1.EtcdCluster, s *etcd.State, c etcd.Client, password string) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, quorumTimeout, errors.New("the quorum did not answer in time"))
	defer cancel()
	members, err := c.Members(ctx)
	if err != nil {
		return false
	}
	s.Members = members
	slices.SortStableFunc(s.Members, func(a, b etcd.Member) int { return s.Ordinal(a) - s.Ordinal(b) })
	asWanted := etcd.Auth{Enabled: s.Want.Auth, PasswordWorks: s.Want.Auth}
	if k.trusts(o.UID, password) {
		s.Auth = &asWanted
		return true
	}
	auth, err := c.Auth(ctx, password)
	if err != nil {
		s.AuthError = err
		return true
	}
	s.Auth = &auth
	if auth == asWanted {
		k.trust(o.UID, password)
	}
	return true
}

func (k *Reconciler) trusts(uid types.UID, password string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.trusted[uid]
	return ok && t.password == sha256.Sum256([]byte(password)) && k.Now().Sub(t.at) < authTrust
}

func (k *Reconciler) trust(uid types.UID, password string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, t := range k.trusted {
		if k.Now().Sub(t.at) >= authTrust {
			delete(k.trusted, id)
		}
	}
	k.trusted[uid] = trust{password: sha256.Sum256([]byte(password)), at: k.Now()}
}

func (k *Reconciler) distrust(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.trusted, uid)
}
