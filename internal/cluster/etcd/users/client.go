// Package users decides what has to happen to one user of an etcd cluster and to the role that carries its permissions.
// It takes values and returns values: reading the world and changing it is left to package controllers and to the
// adapter in etcdclient.
//
// A user comes to life in this order, each arrow being one step that can be repeated after a crash:
//
//	finalizer -> role -> permissions -> user with its password -> role granted -> connection Secret
//
// The role is made only while etcd has no user of that name, and bears a name that nobody gives by hand. So it is the mark
// by which a user of the operator's own making is told from one that somebody else made, which is never touched.
//
// Every write to users or roles makes the tokens of all clients of the cluster outdated: they authenticate anew, and the
// official client does so by itself. Nothing that is right is ever written again.
package users

import "context"

// Store says in which state the users and roles of a cluster are.
type Store struct {
	ClusterID uint64
	// Revision counts the changes to users and roles: as long as it stays, so do they.
	Revision uint64
	// Enabled says that clients must authenticate.
	Enabled bool
}

// Password is what is known about the password of a user in etcd.
type Password int

const (
	// PasswordUnknown says that it was not tried.
	PasswordUnknown Password = iota
	// PasswordRight says that the wanted password opens the user.
	PasswordRight
	// PasswordWrong says that the user has another one.
	PasswordWrong
	// PasswordNone says that the user has none and can never get one: only a certificate opens it.
	PasswordNone
)

// User is a user in etcd.
type User struct {
	Roles    []string
	Password Password
}

// Role is a role in etcd.
type Role struct{ Permissions []Permission }

// Client talks to one member about users and roles, as root. Every call is bound by the time limit of its context, and
// costs the cluster an entry in its log, reads included. What is already so is no error.
type Client interface {
	// Store tells whether anything may have changed.
	Store(ctx context.Context) (Store, error)
	// User returns the roles of a user, found is false when there is no such user.
	User(ctx context.Context, user string) (roles []string, found bool, err error)
	// Role returns the permissions of a role, found is false when there is no such role.
	Role(ctx context.Context, role string) (permissions []Permission, found bool, err error)
	// CheckPassword tries a password. etcd hashes it for that, which takes it some fifty milliseconds.
	CheckPassword(ctx context.Context, user, password string) (Password, error)

	// AddRole adds a role without permissions.
	AddRole(ctx context.Context, role string) error
	// DeleteRole deletes a role and takes it from whoever has it.
	DeleteRole(ctx context.Context, role string) error
	// Grant gives a role a permission.
	Grant(ctx context.Context, role string, p Permission) error
	// Revoke takes every permission for the very same keys from a role, whatever the access.
	Revoke(ctx context.Context, role string, p Permission) error
	// AddUser adds a user without roles. One that exists is left as it is.
	AddUser(ctx context.Context, user, password string) error
	// DeleteUser deletes a user.
	DeleteUser(ctx context.Context, user string) error
	// SetPassword changes the password of a user.
	SetPassword(ctx context.Context, user, password string) error
	// GrantRole gives a user a role.
	GrantRole(ctx context.Context, user, role string) error
	// RevokeRole takes a role from a user.
	RevokeRole(ctx context.Context, user, role string) error
}
