package users_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

var (
	simulationSeed = flag.Uint64("simulation.seed", 0, "replay this one seed and say what happens")
	simulationRuns = flag.Int("simulation.runs", 3000, "number of seeds to run")
)

var errCrash = errors.New("the operator crashed")

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
