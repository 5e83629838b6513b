// Package config renders the configuration of Redis and Valkey servers from spec.config, says which
// parameters take effect without a restart, and refuses those that the operator owns or the version
// does not know.
//
// It returns text and errors that name the parameter. It reads no state of a cluster.
package config
