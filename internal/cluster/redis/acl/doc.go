// Package acl is about the users of Redis and Valkey: which internal users a server has and what they
// may do, the accounts of RedisUser resources, passwords and their rotation, and users.acl.
//
// It compares and renders. It sends no command, and never writes a password in the clear anywhere but
// into the Secrets that are made for it.
package acl
