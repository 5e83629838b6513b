package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Versions of manifests. Any change of what a manifest holds or of how parts are stored is a higher one.
const (
	Format = 1
	// FormatAuthenticated has an HMAC. It is written where there is a key for that.
	FormatAuthenticated = 2
)

// maxManifest is what a manifest may have in bytes. One of 500 shards with keys in all slots has about 300 KiB.
const maxManifest = 16 << 20

// Kinds of clusters, as in Kubernetes.
const (
	KindEtcd  = "EtcdCluster"
	KindRedis = "RedisCluster"
)

// Manifest describes a backup, and makes it one: it is written when everything else is there.
type Manifest struct {
	// Format is set by Encode.
	Format int `json:"format"`
	// HMAC in hexadecimal digits is set by Encode, see verifyManifest. Format and HMAC stay the first fields.
	HMAC string `json:"hmac,omitempty"`
	// ID names the backup for users and logs.
	ID string `json:"id"`
	// Kind is KindEtcd or KindRedis.
	Kind string `json:"kind"`
	// Namespace, Cluster and ClusterUID are those of the cluster that was backed up.
	Namespace  string `json:"namespace"`
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"clusterUID"`
	// Engine is etcd, redis or valkey, EngineVersion its version, such as 3.6.16.
	Engine        string `json:"engine"`
	EngineVersion string `json:"engineVersion"`
	// Started and Finished are by the clock of whoever took the backup.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// Encrypted says that all parts are.
	Encrypted bool   `json:"encrypted"`
	Parts     []Part `json:"parts"`
	// Etcd or Redis, by Kind.
	Etcd  *EtcdContent  `json:"etcd,omitempty"`
	Redis *RedisContent `json:"redis,omitempty"`
}

// EtcdContent is what a backup of an etcd cluster holds.
type EtcdContent struct {
	// Timeline tells histories apart: the id of the cluster in hexadecimal digits, and what tells histories of one id apart. Revisions
	// compare within one timeline only.
	Timeline string `json:"timeline"`
	// Revision that is in it at least.
	Revision int64 `json:"revision"`
	// Member that it was taken from.
	Member string `json:"member"`
	// Newest is the newest revision that can be in it, and Taken when that was asked for: nothing in it is later.
	Newest int64     `json:"newest"`
	Taken  time.Time `json:"taken"`
}

// RedisContent is what a backup of a Redis or Valkey cluster holds.
type RedisContent struct {
	// Replicated says that there is one shard with all keys and no slots (cluster mode is off).
	Replicated bool `json:"replicated"`
	// Skew is how far apart the shards were frozen.
	Skew   time.Duration `json:"skewNanoseconds"`
	Shards []RedisShard  `json:"shards"`
	// Users are the lines of ACL LIST about users that clients connect as, but for the default one. No password and no hash of one is there.
	Users []string `json:"users,omitempty"`
	// RDBVersion is the highest version of the format among the parts.
	RDBVersion int `json:"rdbVersion"`
}

// RedisShard is what a backup holds of one shard.
type RedisShard struct {
	Index int `json:"index"`
	// Part is the name of its RDB.
	Part string `json:"part"`
	// Node that it was taken from, by its id.
	Node string `json:"node"`
	// Slots that the shard served, such as 0-5460,7000.
	Slots string `json:"slots"`
	Epoch int64  `json:"epoch"`
	// ReplicationID and Offset say where in the history of the shard the RDB is, PrimaryOffset where the primary was then.
	ReplicationID string `json:"replicationID"`
	Offset        int64  `json:"offset"`
	PrimaryOffset int64  `json:"primaryOffset"`
	// Keys in the RDB, and those of them that expire.
	Keys    int64 `json:"keys"`
	Expires int64 `json:"expires"`
	// KeysPerSlot by slot from 0.
	KeysPerSlot SlotCounts `json:"keysPerSlot,omitempty"`
	// Began and Ended enclose the transfer.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
}

// The stored form is an envelope of exactly these bytes, so that any that changes is found: the hash is that of the manifest between them.
const (
	envelopeHead = `{"sha256":"`
	envelopeMid  = `","manifest":`
	envelopeTail = "}\n"
)

// Encode returns the stored form of the manifest of dir, authenticated if there is a key for that. A manifest that could not be read back
// is refused.
func (m Manifest) Encode(dir string, k Keys) ([]byte, error) {
	m.Format, m.HMAC = Format, ""
	mac := k.signer(purposeManifest, boundName(dir))
	if mac != nil {
		m.Format, m.HMAC = FormatAuthenticated, noHMAC
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	content, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	if mac != nil {
		sign(content, mac)
	}
	sum := sha256.Sum256(content)
	stored := bytes.Join([][]byte{[]byte(envelopeHead), []byte(hex.EncodeToString(sum[:])), []byte(envelopeMid), content, []byte(envelopeTail)}, nil)
	if len(stored) > maxManifest {
		return nil, fmt.Errorf("encode the manifest: it has %d bytes, and may have %d", len(stored), maxManifest)
	}
	return stored, nil
}

// DecodeManifest reads the stored form of the manifest of dir: ErrDamaged if it is not what was written, ErrTooNew if a later version wrote
// it, ErrNotAuthentic or ErrNotEncrypted if the keys demand more than it has.
func DecodeManifest(stored []byte, dir string, k Keys) (Manifest, error) {
	content, err := openEnvelope(stored)
	if err != nil {
		return Manifest{}, err
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(content, &version); err != nil {
		return Manifest{}, fmt.Errorf("%w: the manifest is none: %w", ErrDamaged, err)
	}
	if version.Format > FormatAuthenticated {
		return Manifest{}, fmt.Errorf("%w: the manifest has format %d, and up to %d is known: use the version of Quorate that wrote it, or a later one", ErrTooNew, version.Format, FormatAuthenticated)
	}
	if k.proves() {
		if err := verifyManifest(content, dir, k); err != nil {
			return Manifest{}, err
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var m Manifest
	if err := decoder.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("%w: the manifest cannot be read: %w", ErrDamaged, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Manifest{}, fmt.Errorf("%w: something follows the manifest", ErrDamaged)
	}
	if err := m.check(); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if len(k.Identities) > 0 && !m.Encrypted {
		return Manifest{}, ErrNotEncrypted
	}
	return m, nil
}

func openEnvelope(stored []byte) (content []byte, err error) {
	if len(stored) > maxManifest {
		return nil, fmt.Errorf("%w: the manifest is larger than %d bytes", ErrDamaged, maxManifest)
	}
	rest, head := bytes.CutPrefix(stored, []byte(envelopeHead))
	if !head || len(rest) < sha256.Size*2 {
		return nil, fmt.Errorf("%w: the manifest does not begin as manifests do", ErrDamaged)
	}
	want := string(rest[:sha256.Size*2])
	rest, middle := bytes.CutPrefix(rest[sha256.Size*2:], []byte(envelopeMid))
	content, tail := bytes.CutSuffix(rest, []byte(envelopeTail))
	if !middle || !tail {
		return nil, fmt.Errorf("%w: the manifest is cut off or changed", ErrDamaged)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
		return nil, fmt.Errorf("%w: the manifest has the SHA-256 %x, and had %.64q", ErrDamaged, sum, want)
	}
	return content, nil
}

// check tells what a manifest must not be. It is asked before one is written, and after one was read, whoever wrote it.
func (m Manifest) check() error {
	switch {
	case m.Format != Format && m.Format != FormatAuthenticated:
		return fmt.Errorf("the manifest has format %d instead of %d or %d", m.Format, Format, FormatAuthenticated)
	case (m.HMAC != "") != (m.Format == FormatAuthenticated):
		return fmt.Errorf("a manifest of format %d has the HMAC %.70q", m.Format, m.HMAC)
	}
	parts := make(map[string]bool, len(m.Parts))
	for _, p := range m.Parts {
		if err := checkPart(p.Name); err != nil {
			return fmt.Errorf("a part: %w", err)
		}
		if parts[p.Name] {
			return fmt.Errorf("part %s is there twice", p.Name)
		}
		parts[p.Name] = true
		if err := p.check(); err != nil {
			return fmt.Errorf("part %s: %w", p.Name, err)
		}
	}
	switch {
	case m.Kind == KindEtcd && m.Etcd != nil && m.Redis == nil:
		return nil
	case m.Kind == KindRedis && m.Redis != nil && m.Etcd == nil:
		return m.Redis.check(parts)
	}
	return fmt.Errorf("the kind is %q, and the content is that of another", m.Kind)
}

func (c RedisContent) check(parts map[string]bool) error {
	var served [Slots]bool
	for _, s := range c.Shards {
		if !parts[s.Part] {
			return fmt.Errorf("shard %d is in part %q, which is not there", s.Index, s.Part)
		}
		slots, err := ParseSlots(s.Slots)
		if err != nil {
			return fmt.Errorf("shard %d: %w", s.Index, err)
		}
		for _, r := range slots {
			for slot := r.First; slot <= r.Last; slot++ {
				if served[slot] {
					return fmt.Errorf("slot %d is in two shards, or twice in one", slot)
				}
				served[slot] = true
			}
		}
	}
	return nil
}
