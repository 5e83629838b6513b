package users_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

var (
	simulationSeed = flag.Uint64("simulation.seed", 0, "replay this one seed and say what happens")
	simulationRuns = flag.Int("simulation.runs", 3000, "number of seeds to run")
)

var errCrash = errors.New("the operator crashed")

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

// unharmed checks what somebody else made.
func (w *world) unharmed() error {
	for name, was := range w.theirs {
		if is := w.etcd.Accounts[name]; is == nil || !reflect.DeepEqual(*is, was) {
			return fmt.Errorf("user %s of somebody else became %+v, was %+v", name, is, was)
		}
	}
	if len(w.etcd.Roles["hand"]) != 1 {
		return errors.New("the role of somebody else was changed")
	}
	return nil
}

// noMoreThanBefore checks that a step gave the user no right that is not in its specification.
func (w *world) noMoreThanBefore(r *resource, before *etcdfake.Users) error {
	had, has := before.Accounts[r.username], w.etcd.Accounts[r.username]
	if had == nil || has == nil {
		return nil
	}
	for _, key := range []string{"/a", "/a/", "/a/x", "/b", "/c", "/hand", "0"} {
		for _, access := range []v1alpha1.EtcdAccess{v1alpha1.EtcdRead, v1alpha1.EtcdWrite} {
			if !w.etcd.May(r.username, has.Password, key, access) || before.May(r.username, had.Password, key, access) {
				continue
			}
			if !covers(users.Permissions(r.spec), key, access) {
				return fmt.Errorf("user %s got %s on %s, which nobody asked for", r.username, access, key)
			}
		}
	}
	return nil
}

func covers(list []users.Permission, key string, access v1alpha1.EtcdAccess) bool {
	return slices.ContainsFunc(list, func(p users.Permission) bool {
		in := key == p.From || (p.End != "" && key >= p.From && (key < p.End || p.End == "\x00"))
		return in && (p.Access == access || p.Access == v1alpha1.EtcdReadWrite)
	})
}

// ours reports whether the user in etcd was made by the operator.
func (w *world) ours(name string) bool {
	_, theirs := w.theirs[name]
	return w.etcd.Accounts[name] != nil && !theirs
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

// calm ends all disturbances, and gives the operator the time to come to rest.
func (w *world) calm() error {
	w.note("calm")
	w.etcd.Down, w.budget = nil, -1
	w.cluster.Paused, w.cluster.Open = false, true
	for range 60 {
		quiet := true
		for _, r := range w.resources {
			p, err := w.pass(r)
			if err != nil {
				return err
			}
			quiet = quiet && p.Step == nil
		}
		if quiet {
			return nil
		}
	}
	return errors.New("it does not come to rest")
}

// asSpecified checks the end of all: every resource has what it asks for, says why not, or is gone without a trace.
func (w *world) asSpecified() error {
	for _, r := range w.resources {
		want := r.want()
		role, hasRole := w.etcd.Roles[want.Role()]
		if r.gone {
			if hasRole {
				return fmt.Errorf("role %s is left of %s", want.Role(), r.name)
			}
			continue
		}
		p := users.Next(w.observe(r))
		if p.Stalled {
			continue
		}
		a := w.etcd.Accounts[r.username]
		if !p.Settled() || a == nil {
			return fmt.Errorf("%s: user %+v, and it says %s: %s", r.name, a, p.Reason, p.Message)
		}
		role = slices.Clone(role)
		slices.SortFunc(role, func(x, y users.Permission) int {
			return cmp.Or(strings.Compare(x.From, y.From), strings.Compare(x.End, y.End))
		})
		if len(role)+len(want.Permissions) > 0 && !reflect.DeepEqual(role, want.Permissions) {
			return fmt.Errorf("%s: role has %v, want %v", r.name, role, want.Permissions)
		}
		if !reflect.DeepEqual(a.Roles, []string{want.Role()}) || a.Password != r.password() || r.published != a.Password {
			return fmt.Errorf("%s: user %+v, password %q, published %q", r.name, a, r.password(), r.published)
		}
	}
	return nil
}

// stalls counts the resources that need a human, and that have a reason to.
func (w *world) stalls() (int, error) {
	count := 0
	for i, r := range w.resources {
		if r.gone {
			continue
		}
		p := users.Next(w.observe(r))
		if !p.Stalled {
			continue
		}
		count++
		_, theirs := w.theirs[r.username]
		rival := i > 0 && !w.resources[0].gone && w.resources[0].username == r.username
		if !theirs && !rival && !strings.Contains(p.Message, "not made by this resource") {
			return count, fmt.Errorf("%s is stalled without a reason: %s", r.name, p.Message)
		}
	}
	return count, nil
}

func simulate(seed uint64) (w *world, stalled int, err error) {
	w = newWorld(seed)
	for range 10 + w.rng.IntN(60) {
		if w.rng.IntN(3) == 0 {
			w.disturb()
		}
		_, err := w.pass(w.resources[w.rng.IntN(len(w.resources))])
		if err != nil && !errors.Is(err, errCrash) && !errors.Is(err, w.etcd.Down) {
			return w, 0, err
		}
	}
	if err := w.calm(); err != nil {
		return w, 0, err
	}
	if err := w.asSpecified(); err != nil {
		return w, 0, err
	}
	stalled, err = w.stalls()
	if err != nil {
		return w, stalled, err
	}
	return w, stalled, w.farewell()
}

// farewell deletes everything: nothing of ours is left, and everything of others is.
func (w *world) farewell() error {
	var placed []string
	for _, r := range w.resources {
		if !r.gone && users.Next(w.observe(r)).Settled() {
			placed = append(placed, r.username)
		}
		r.deleting = true
	}
	if err := w.calm(); err != nil {
		return err
	}
	if err := w.asSpecified(); err != nil {
		return err
	}
	for _, name := range placed {
		if w.etcd.Accounts[name] != nil {
			return fmt.Errorf("user %s is left", name)
		}
	}
	return w.unharmed()
}

func TestSimulation(t *testing.T) {
	seeds := []uint64{*simulationSeed}
	if *simulationSeed == 0 {
		seeds = nil
		for i := range *simulationRuns {
			seeds = append(seeds, uint64(i)+1)
		}
	}
	writes, stalled := 0, 0
	for _, seed := range seeds {
		w, n, err := simulate(seed)
		if err != nil {
			t.Fatalf("seed %d: %v\nreplay: go test ./internal/cluster/etcd/users -run Simulation -simulation.seed=%d\n%s",
				seed, err, seed, strings.Join(w.trace, "\n"))
		}
		if *simulationSeed != 0 {
			t.Log("\n" + strings.Join(w.trace, "\n"))
		}
		writes, stalled = writes+w.writes, stalled+n
	}
	t.Logf("%d runs, %d writes, %d resources stalled at the end", len(seeds), writes, stalled)
	if *simulationSeed == 0 && (stalled == 0 || stalled > len(seeds)) {
		t.Errorf("%d resources were stalled in %d runs: the world is not what it was meant to be", stalled, len(seeds))
	}
}
