package etcdclient

import (
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// maxAnswer bounds one answer of a member in bytes, after decompression. The largest are the lists
	// of users and roles.
	maxAnswer = 4 << 20
	// MaxWatchAnswer bounds one answer of a watch that asks for fragments. It holds at least one whole
	// value, and etcd is not meant for values above 10 MiB.
	MaxWatchAnswer = 64 << 20
)

// NewBounded returns a client of etcd that refuses larger answers than MaxCallRecvMsgSize of its
// configuration, by default 4 MiB. The client's own default is 2 GiB, to which a small compressed
// answer expands. The linter allows no other way to make a client.
func NewBounded(cfg clientv3.Config) (*clientv3.Client, error) {
	if cfg.MaxCallRecvMsgSize == 0 {
		cfg.MaxCallRecvMsgSize = maxAnswer
	}
	return clientv3.New(cfg)
}
