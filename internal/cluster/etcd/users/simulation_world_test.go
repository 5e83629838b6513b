package users_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

// world is a Kubernetes with a cluster, two resources that may be for the same user, and an etcd in memory.
type world struct {
	rng       *rand.Rand
	trace     []string
	etcd      *etcdfake.Users
	cluster   *users.Cluster
	resources []*resource
	// budget is how many writes are left until the operator crashes; negative: it does not.
	budget, writes int
	// theirs are users that somebody else made and nobody gave up since.
	theirs map[string]etcdfake.Account
}

// resource is an EtcdUser as the API server holds it, the first being the oldest.
type resource struct {
	name, username       string
	spec                 []v1alpha1.EtcdPermission
	given                string // password of a Secret of the user, empty for a generated one
	generated, published string
	protected, deleting  bool
	gone                 bool
}

func newWorld(seed uint64) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 7)), etcd: etcdfake.NewUsers(1, "root's"), cluster: &users.Cluster{Auth: true, Open: true},
		budget: -1, theirs: map[string]etcdfake.Account{},
	}
	w.etcd.Roles["hand"] = []users.Permission{{Keys: users.Keys{From: "/hand"}, Access: v1alpha1.EtcdRead}}
	w.byHand("bob")
	if w.rng.IntN(4) == 0 {
		w.byHand("app")
	}
	w.etcd.Written = w.wrote
	w.resources = append(w.resources, w.resource("first", "app"))
	if w.rng.IntN(2) == 0 {
		w.resources = append(w.resources, w.resource("second", []string{"app", "web"}[w.rng.IntN(2)]))
	}
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// wrote counts a write. At the chosen one the operator never hears of it.
func (w *world) wrote(what string) error {
	w.note("  wrote: %s", what)
	w.writes++
	w.budget--
	if w.budget == 0 {
		w.note("  crash")
		return errCrash
	}
	return nil
}

func (w *world) resource(name, username string) *resource {
	r := &resource{name: name, username: username, spec: w.permissions()}
	if w.rng.IntN(3) == 0 {
		r.given = w.password()
	}
	return r
}

func (w *world) password() string { return fmt.Sprintf("password-%d", w.rng.IntN(3)) }

// permissions come from a small pool, so that many speak of the same first key.
func (w *world) permissions() []v1alpha1.EtcdPermission {
	var out []v1alpha1.EtcdPermission
	for range w.rng.IntN(5) {
		p := v1alpha1.EtcdPermission{Access: w.access()}
		text := ptr.To([]string{"/a", "/a/", "/b"}[w.rng.IntN(3)])
		switch w.rng.IntN(3) {
		case 0:
			p.Prefix = text
		case 1:
			p.Key = text
		default:
			p.Range = &v1alpha1.EtcdKeyRange{From: *text}
		}
		out = append(out, p)
	}
	return out
}

func (w *world) access() v1alpha1.EtcdAccess {
	return []v1alpha1.EtcdAccess{v1alpha1.EtcdRead, v1alpha1.EtcdWrite, v1alpha1.EtcdReadWrite}[w.rng.IntN(3)]
}

// byHand makes a user that is none of the operator's business.
func (w *world) byHand(name string) {
	w.etcd.Accounts[name] = &etcdfake.Account{Password: "theirs", Roles: []string{"hand"}}
	w.etcd.State.Revision++
	w.theirs[name] = *w.etcd.Accounts[name]
}

func (r *resource) password() string {
	if r.given != "" {
		return r.given
	}
	return r.generated
}

func (r *resource) want() users.Want {
	return users.Want{
		Name: r.name, ClusterName: "orders", Username: r.username, Permissions: users.Permissions(r.spec), Generated: r.given == "",
	}
}

// observe is what package controllers does.
func (w *world) observe(r *resource) users.State {
	s := users.State{Want: r.want(), Deleting: r.deleting, Protected: r.protected}
	if w.cluster != nil {
		s.Cluster = ptr.To(*w.cluster)
	}
	for _, other := range w.resources {
		if other == r {
			break
		}
		if !other.gone && other.username == r.username {
			s.Rival = &users.Rival{Name: other.name, Leaving: other.deleting}
			break
		}
	}
	s.Published = r.published == r.password() && r.published != ""
	if s.Cluster == nil || s.Cluster.Leaving || (!s.Cluster.Open && !r.deleting) {
		return s
	}
	ctx := context.Background()
	store, err := w.etcd.Store(ctx)
	if err != nil {
		s.Unreachable = err
		return s
	}
	s.Etcd = &users.Etcd{Enabled: store.Enabled}
	if permissions, found, _ := w.etcd.Role(ctx, s.Want.Role()); found {
		s.Etcd.Role = &users.Role{Permissions: permissions}
	}
	if roles, found, _ := w.etcd.User(ctx, r.username); found {
		s.Etcd.User = &users.User{Roles: roles}
		if store.Enabled {
			s.Etcd.User.Password, _ = w.etcd.CheckPassword(ctx, r.username, r.password())
		}
	}
	return s
}

// act is what package controllers does.
func (w *world) act(r *resource, step cluster.Step) error {
	ctx := context.Background()
	switch step := step.(type) {
	case users.Protect:
		r.protected = true
		return w.wrote("finalizer of " + r.name)
	case users.Release:
		r.protected, r.gone = false, true
		return w.wrote("no finalizer of " + r.name)
	case users.Publish:
		r.published = r.password()
		return w.wrote("connection Secret of " + r.name)
	case users.AddRole:
		return w.etcd.AddRole(ctx, step.Role)
	case users.DeleteRole:
		return w.etcd.DeleteRole(ctx, step.Role)
	case users.SetPermissions:
		for _, c := range step.Changes {
			call := w.etcd.Grant
			if c.Revoke {
				call = w.etcd.Revoke
			}
			if err := call(ctx, step.Role, c.Permission); err != nil {
				return err
			}
		}
		return nil
	case users.AddUser:
		return w.etcd.AddUser(ctx, step.User, r.password())
	case users.DeleteUser:
		return w.etcd.DeleteUser(ctx, step.User)
	case users.SetPassword:
		return w.etcd.SetPassword(ctx, step.User, r.password())
	case users.GrantRole:
		return w.etcd.GrantRole(ctx, step.User, step.Role)
	case users.RevokeRoles:
		for _, role := range step.Roles {
			if err := w.etcd.RevokeRole(ctx, step.User, role); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("there is no such step as %T", step)
}

// pass is one pass of the operator over a resource, and what must hold after it.
func (w *world) pass(r *resource) (cluster.Plan, error) {
	if r.gone || (r.deleting && !r.protected) {
		r.gone = true
		return cluster.Plan{Message: "it is gone"}, nil
	}
	if r.given == "" && r.generated == "" && !r.deleting {
		r.generated = fmt.Sprintf("generated-%d", w.rng.Uint64())
	}
	before, writes := w.etcd.Clone(), w.writes
	p := users.Next(w.observe(r))
	if p.Step == nil {
		w.note("%s: %s %s", r.name, p.Reason, p.Message)
		return p, nil
	}
	w.note("%s: %s, because %s", r.name, p.Step, p.Message)
	err := w.act(r, p.Step)
	if err == nil && w.writes == writes {
		return p, fmt.Errorf("step %s changed nothing", p.Step)
	}
	if err := w.unharmed(); err != nil {
		return p, err
	}
	if !r.protected && !r.gone && before.State.Revision != w.etcd.State.Revision {
		return p, fmt.Errorf("%s: etcd was written to before the resource was held", p.Step)
	}
	if _, ok := p.Step.(users.Publish); ok && w.etcd.Accounts[r.username].Password != r.published {
		return p, errors.New("a connection Secret was written that does not work")
	}
	if err := w.noMoreThanBefore(r, before); err != nil {
		return p, err
	}
	return p, err
}

// disturb does what people and failures do.
func (w *world) disturb() {
	r := w.resources[w.rng.IntN(len(w.resources))]
	role := r.want().Role()
	_, hasRole := w.etcd.Roles[role]
	a := w.etcd.Accounts[r.username]
	if !w.ours(r.username) {
		a = nil
	}
	switch w.rng.IntN(16) {
	case 0, 1:
		r.spec = w.permissions()
		w.note("%s: other permissions: %v", r.name, users.Permissions(r.spec))
	case 2:
		if r.given != "" {
			r.given = w.password()
			w.note("%s: the Secret of the user has another password", r.name)
		}
	case 3:
		r.given = []string{"", w.password()}[w.rng.IntN(2)]
		w.note("%s: given password %q", r.name, r.given)
	case 4:
		w.etcd.Down = []error{nil, errors.New("no answer")}[w.rng.IntN(2)]
		w.note("down: %v", w.etcd.Down)
	case 5:
		w.cluster.Paused = !w.cluster.Paused
	case 6:
		w.cluster.Open = !w.cluster.Open
	case 7:
		w.budget = 1 + w.rng.IntN(4)
	case 8:
		if w.rng.IntN(4) == 0 {
			r.deleting = true
			w.note("%s: deleted", r.name)
		}
	default:
		w.drift(r, role, hasRole, a)
	}
}

// drift changes users and roles by hand.
func (w *world) drift(r *resource, role string, hasRole bool, a *etcdfake.Account) {
	written, down := w.etcd.Written, w.etcd.Down
	w.etcd.Written, w.etcd.Down = nil, nil
	defer func() { w.etcd.Written, w.etcd.Down = written, down }()
	ctx := context.Background()
	var what string
	switch w.rng.IntN(8) {
	case 0, 1:
		if p := users.Permissions(w.permissions()); hasRole && len(p) > 0 {
			what = "grant by hand " + p[0].String()
			_ = w.etcd.Grant(ctx, role, p[0])
		}
	case 2:
		if have := w.etcd.Roles[role]; len(have) > 0 {
			what = "revoke by hand " + have[0].String()
			_ = w.etcd.Revoke(ctx, role, have[0])
		}
	case 3:
		if a != nil {
			what = "delete the user by hand"
			_ = w.etcd.DeleteUser(ctx, r.username)
		}
	case 4:
		if a != nil && slices.Contains(a.Roles, role) {
			what = "another password by hand"
			_ = w.etcd.SetPassword(ctx, r.username, "by hand")
		}
	case 5:
		if a != nil && slices.Contains(a.Roles, role) {
			what = "another role by hand"
			_ = w.etcd.GrantRole(ctx, r.username, "hand")
		}
	case 6:
		if a != nil && slices.Contains(a.Roles, role) && a.Password == r.password() {
			what = "revoke the role by hand"
			_ = w.etcd.RevokeRole(ctx, r.username, role)
		}
	case 7:
		if a != nil && slices.Contains(a.Roles, role) {
			what = "no password by hand"
			a.Password = ""
			w.etcd.State.Revision++
		}
	}
	if what != "" {
		w.note("%s: %s", r.name, what)
	}
}
