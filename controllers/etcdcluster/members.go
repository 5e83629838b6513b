package etcdcluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/goroutine"
)

// askMembers asks every running member about itself, and one that has a leader about the cluster. What does not
// answer stays unknown.
func (k *Reconciler) askMembers(ctx context.Context, o *v1alpha1.EtcdCluster, s *model.State, pods []corev1.Pod) error {
	a, err := k.Credentials(ctx, o)
	if err != nil {
		return err
	}
	s.Want.CertificateIsRoot = etcdclient.IsRoot(a.tls)
	if a.former != "" {
		s.Want.NewPassword, s.Want.PasswordSecret = true, cluster.AuthSecret(o.Name)
	}
	clients, due := map[string]model.Client{}, k.vitalsDue(o, s)
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
		s.Auth = &model.Auth{Enabled: true}
		return nil
	}
	follow := leaderFirst(s.Pods)
	if planner.VersionMoves(*s) {
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
func (k *Reconciler) askAll(ctx context.Context, pods []model.Pod, clients map[string]model.Client, due map[string]bool, timeout time.Duration) {
	errs := goroutine.Each(len(pods), func(i int) error {
		if c := clients[pods[i].Name]; c != nil {
			return k.askStatus(ctx, c, &pods[i], due[pods[i].UID], timeout)
		}
		return nil
	})
	for i, err := range errs {
		if err != nil {
			pods[i].Status, pods[i].Unreachable = nil, err
		}
	}
}

// allSlow tells whether no member has answered, and one did not in time that the kubelet finds ready.
func allSlow(pods []model.Pod) bool {
	return !slices.ContainsFunc(pods, func(p model.Pod) bool { return p.Status != nil }) &&
		slices.ContainsFunc(pods, func(p model.Pod) bool { return p.Ready && p.Unreachable != nil && p.Took > 0 })
}

// askStatus asks a member about itself and, if they are wanted, for its metrics. Those may stay unknown.
func (k *Reconciler) askStatus(ctx context.Context, c model.Client, p *model.Pod, vitals bool, timeout time.Duration) error {
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
	p.Status, p.Unreachable = &v, nil
	if vitals {
		k.askVitals(ctx, c, p)
	}
	return nil
}

// agreedVersion is the version that the members have agreed on, by the first that tells it: one that follows a leader, or else any, which
// needs no quorum for it. One without a leader may be behind, and never ahead: what it has applied is settled.
func agreedVersion(ctx context.Context, pods []model.Pod, clients map[string]model.Client) (v model.Version) {
	leaderless := slices.DeleteFunc(slices.Clone(pods), func(p model.Pod) bool { return p.Status == nil || p.Status.Leader != 0 })
	for _, p := range slices.Concat(leaderFirst(pods), leaderless) {
		if v = askVersion(ctx, clients[p.Name]); v != (model.Version{}) {
			break
		}
	}
	return v
}

// askVersion asks for the version that the members have agreed on, zero when there is no answer.
func askVersion(ctx context.Context, c model.Client) model.Version {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, errors.New("it did not answer in time"))
	defer cancel()
	v, err := c.ClusterVersion(ctx)
	if err != nil {
		return model.Version{}
	}
	return v
}

// wrongPassword reports whether no member answers that has a vote, and one does not because of the password.
func wrongPassword(pods []model.Pod) bool {
	found := false
	for _, p := range pods {
		if p.Status != nil && !p.Status.Learner {
			return false
		}
		found = found || errors.Is(p.Unreachable, model.ErrPassword)
	}
	return found
}

// leaderFirst returns the pods whose member follows a leader, the leader's own first.
func leaderFirst(pods []model.Pod) []model.Pod {
	var out []model.Pod
	for _, p := range pods {
		switch {
		case p.Status == nil || p.Status.Leader == 0:
		case p.Status.Leader == p.Status.MemberID:
			out = append([]model.Pod{p}, out...)
		default:
			out = append(out, p)
		}
	}
	return out
}

// askCluster reads the member list through the quorum, and the state of authentication. It reports whether the list
// could be read.
func (k *Reconciler) askCluster(ctx context.Context, o *v1alpha1.EtcdCluster, s *model.State, c model.Client, password string) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, quorumTimeout, errors.New("the quorum did not answer in time"))
	defer cancel()
	members, err := c.Members(ctx)
	if err != nil {
		return false
	}
	s.Members = members
	slices.SortStableFunc(s.Members, func(a, b model.Member) int { return s.Ordinal(a) - s.Ordinal(b) })
	asWanted := model.Auth{Enabled: s.Want.Auth, PasswordWorks: s.Want.Auth}
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

const (
	// statusTimeout bounds the question to one member, which answers from memory, and loginTimeout the one that is put anew where none was answered in
	// time: with another password or transport the operator logs in to all of them at once, and each login costs a member a bcrypt.
	statusTimeout = time.Second
	loginTimeout  = 4 * time.Second
	// quorumTimeout bounds a read through the quorum.
	quorumTimeout = 2 * time.Second
)
