// Package dbuser reconciles EtcdUsers and RedisUsers: it brings users of a data store and the
// Secrets for their clients into place.
package dbuser
