// Package config renders the configuration files of etcd members from spec.config, and refuses
// parameters that the operator owns or that the version does not know.
//
// It returns text and errors that name the key. It reads no state of a cluster.
package config
