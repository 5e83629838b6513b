// Package dbuser reconciles EtcdUsers and RedisUsers: it brings users of a data store and the
// Secrets for their clients into place. Which step a user needs is decided in
// internal/cluster/etcd/users and internal/cluster/redis/users. It must not change a user that the
// operator did not create.
package dbuser
