package backup

import (
	"errors"
	"time"
)

// Manifest describes a backup, and makes it one.
type Manifest struct {
	Format        int           `json:"format"`
	ID            string        `json:"id"`
	Kind          string        `json:"kind"`
	Namespace     string        `json:"namespace"`
	Cluster       string        `json:"cluster"`
	ClusterUID    string        `json:"clusterUID"`
	Engine        string        `json:"engine"`
	EngineVersion string        `json:"engineVersion"`
	Started       time.Time     `json:"started"`
	Finished      time.Time     `json:"finished"`
	Encrypted     bool          `json:"encrypted"`
	Parts         []Part        `json:"parts"`
	Etcd          *EtcdContent  `json:"etcd,omitempty"`
	Redis         *RedisContent `json:"redis,omitempty"`
}

// EtcdContent is what a backup of an etcd cluster holds.
type EtcdContent struct {
	Timeline string `json:"timeline"`
	Revision int64  `json:"revision"`
	Member   string `json:"member"`
}

// RedisContent is what a backup of a Redis or Valkey cluster holds.
type RedisContent struct {
	Replicated bool          `json:"replicated"`
	Skew       time.Duration `json:"skewNanoseconds"`
	Shards     []RedisShard  `json:"shards"`
	Users      []string      `json:"users,omitempty"`
	RDBVersion int           `json:"rdbVersion"`
}

// RedisShard is the part of one shard.
type RedisShard struct {
	Index         int        `json:"index"`
	Part          string     `json:"part"`
	Node          string     `json:"node"`
	Slots         string     `json:"slots"`
	Epoch         int64      `json:"epoch"`
	ReplicationID string     `json:"replicationID"`
	Offset        int64      `json:"offset"`
	PrimaryOffset int64      `json:"primaryOffset"`
	Keys          int64      `json:"keys"`
	Expires       int64      `json:"expires"`
	KeysPerSlot   SlotCounts `json:"keysPerSlot,omitempty"`
	Began         time.Time  `json:"began"`
	Ended         time.Time  `json:"ended"`
}

// SlotCounts are numbers of keys by slot from 0, trailing zeros cut. A []uint32 is assigned to it as it is.
type SlotCounts []uint32

// Encode gives the stored form.
func (m Manifest) Encode() ([]byte, error) { return nil, errors.ErrUnsupported }

// DecodeManifest reads the stored form.
func DecodeManifest(content []byte) (Manifest, error) { return Manifest{}, errors.ErrUnsupported }
