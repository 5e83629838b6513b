package etcdfake

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/users"
)

// Errors of calls about users and roles.
var (
	ErrNoUser  = errors.New("user name not found")
	ErrNoRole  = errors.New("role name not found")
	ErrAuthOff = errors.New("authentication is not enabled")
	ErrRange   = errors.New("invalid auth management")
)

// Account is a user.
type Account struct {
	// Password is empty for a user without one, who can never get one.
	Password string
	Roles    []string
}

// Users are the users and roles of a cluster, by the rules of etcd (server/auth/store.go).
type Users struct {
	State    users.Store
	Accounts map[string]*Account
	Roles    map[string][]users.Permission
	// Down is what every call ends with while no member answers.
	Down error
	// Written is asked after each write; what it returns is the answer to the caller, who may have crashed.
	Written func(what string) error
	// Reads counts the questions, Hashes the passwords that were tried.
	Reads, Hashes int
}

var _ users.Client = (*Users)(nil)

// NewUsers returns a cluster with authentication on, and its root.
func NewUsers(cluster uint64, password string) *Users {
	return &Users{
		State:    users.Store{ClusterID: cluster, Revision: 4, Enabled: true},
		Accounts: map[string]*Account{"root": {Password: password, Roles: []string{"root"}}},
		Roles:    map[string][]users.Permission{"root": nil},
	}
}

// Clone returns a copy that shares nothing with the original.
func (u *Users) Clone() *Users {
	out := *u
	out.Accounts, out.Roles = map[string]*Account{}, map[string][]users.Permission{}
	for name, a := range u.Accounts {
		out.Accounts[name] = &Account{a.Password, slices.Clone(a.Roles)}
	}
	for name, p := range u.Roles {
		out.Roles[name] = slices.Clone(p)
	}
	return &out
}

// May reports whether a user with a password may read or write a key.
func (u *Users) May(user, password, key string, access v1alpha1.EtcdAccess) bool {
	a := u.Accounts[user]
	if a == nil || a.Password == "" || a.Password != password {
		return false
	}
	for _, role := range a.Roles {
		for _, p := range u.Roles[role] {
			in := key == p.From || (p.End != "" && key >= p.From && (key < p.End || p.End == "\x00"))
			if in && (p.Access == access || p.Access == v1alpha1.EtcdReadWrite) {
				return true
			}
		}
	}
	return slices.Contains(a.Roles, "root")
}

// Store answers like AuthStatus.
func (u *Users) Store(context.Context) (users.Store, error) {
	u.Reads++
	return u.State, u.Down
}

// User returns the roles of a user.
func (u *Users) User(_ context.Context, user string) ([]string, bool, error) {
	a := u.Accounts[user]
	if a == nil || u.Down != nil {
		return nil, false, u.Down
	}
	u.Reads++
	return slices.Clone(a.Roles), true, nil
}

// Role returns the permissions of a role.
func (u *Users) Role(_ context.Context, role string) ([]users.Permission, bool, error) {
	if u.Down != nil {
		return nil, false, u.Down
	}
	u.Reads++
	p, ok := u.Roles[role]
	return slices.Clone(p), ok, nil
}

// CheckPassword knows passwords only while authentication is on.
func (u *Users) CheckPassword(_ context.Context, user, password string) (users.Password, error) {
	a := u.Accounts[user]
	switch {
	case u.Down != nil:
		return users.PasswordUnknown, u.Down
	case !u.State.Enabled:
		return users.PasswordUnknown, ErrAuthOff
	case a != nil && a.Password == "":
		return users.PasswordNone, nil
	}
	u.Hashes++
	if a == nil || a.Password != password {
		return users.PasswordWrong, nil
	}
	return users.PasswordRight, nil
}

// AddRole adds a role.
func (u *Users) AddRole(_ context.Context, role string) error {
	if _, ok := u.Roles[role]; ok || u.Down != nil {
		return u.Down
	}
	u.Roles[role] = nil
	return u.write("add role " + role)
}

// DeleteRole takes the role from all users.
func (u *Users) DeleteRole(_ context.Context, role string) error {
	if _, ok := u.Roles[role]; !ok || u.Down != nil {
		return u.Down
	}
	delete(u.Roles, role)
	for _, a := range u.Accounts {
		a.Roles = slices.DeleteFunc(a.Roles, func(r string) bool { return r == role })
	}
	return u.write("delete role " + role)
}

// Grant replaces a permission for the same keys only where the search by the first key alone happens to find it.
func (u *Users) Grant(_ context.Context, role string, p users.Permission) error {
	have, ok := u.Roles[role]
	switch {
	case u.Down != nil:
		return u.Down
	case p.From == "" || (p.End != "" && p.End != "\x00" && p.End <= p.From):
		return ErrRange
	case !ok:
		return ErrNoRole
	}
	have = slices.Clone(have)
	i := sort.Search(len(have), func(i int) bool { return have[i].From >= p.From })
	if i < len(have) && have[i].Keys == p.Keys {
		have[i].Access = p.Access
	} else {
		have = append(have, p)
		slices.SortStableFunc(have, func(a, b users.Permission) int { return strings.Compare(a.From, b.From) })
	}
	u.Roles[role] = have
	return u.write("grant " + p.String() + " to " + role)
}

// Revoke takes all permissions for the same keys.
func (u *Users) Revoke(_ context.Context, role string, p users.Permission) error {
	have, ok := u.Roles[role]
	switch {
	case u.Down != nil:
		return u.Down
	case !ok:
		return ErrNoRole
	}
	left := slices.DeleteFunc(slices.Clone(have), func(q users.Permission) bool { return q.Keys == p.Keys })
	if len(left) == len(have) {
		return nil
	}
	u.Roles[role] = left
	return u.write("revoke " + p.String() + " from " + role)
}

// AddUser adds a user with a password.
func (u *Users) AddUser(_ context.Context, user, password string) error {
	if u.Accounts[user] != nil || u.Down != nil {
		return u.Down
	}
	u.Accounts[user] = &Account{Password: password}
	return u.write("add user " + user)
}

// DeleteUser deletes a user.
func (u *Users) DeleteUser(_ context.Context, user string) error {
	if u.Accounts[user] == nil || u.Down != nil {
		return u.Down
	}
	delete(u.Accounts, user)
	return u.write("delete user " + user)
}

// SetPassword leaves a user without password as it is.
func (u *Users) SetPassword(_ context.Context, user, password string) error {
	a := u.Accounts[user]
	switch {
	case u.Down != nil:
		return u.Down
	case a == nil:
		return ErrNoUser
	case a.Password != "":
		a.Password = password
	}
	return u.write("set the password of " + user)
}

// GrantRole needs both to exist.
func (u *Users) GrantRole(_ context.Context, user, role string) error {
	a := u.Accounts[user]
	switch _, ok := u.Roles[role]; {
	case u.Down != nil:
		return u.Down
	case a == nil:
		return ErrNoUser
	case !ok:
		return ErrNoRole
	case slices.Contains(a.Roles, role):
		return nil
	}
	a.Roles = append(a.Roles, role)
	slices.Sort(a.Roles)
	return u.write("grant " + role + " to " + user)
}

// RevokeRole takes a role from a user.
func (u *Users) RevokeRole(_ context.Context, user, role string) error {
	a := u.Accounts[user]
	switch {
	case u.Down != nil:
		return u.Down
	case a == nil:
		return ErrNoUser
	case !slices.Contains(a.Roles, role):
		return nil
	}
	a.Roles = slices.DeleteFunc(slices.Clone(a.Roles), func(r string) bool { return r == role })
	return u.write("revoke " + role + " from " + user)
}

func (u *Users) write(what string) error {
	u.State.Revision++
	if u.Written == nil {
		return nil
	}
	return u.Written(what)
}

// Names returns all users and roles, sorted.
func (u *Users) Names() (accounts, roles []string) {
	return slices.Sorted(maps.Keys(u.Accounts)), slices.Sorted(maps.Keys(u.Roles))
}
