package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"
)

// Keys encrypt and decrypt. The zero value does neither.
type Keys struct {
	// Recipients are whom parts are encrypted to. None: parts are not encrypted.
	Recipients []age.Recipient
	// Identities are the secret keys that parts are opened with. With one, data that is not encrypted is rejected.
	Identities []age.Identity
	// Authentication are the keys of HMACs that distinguish genuine backups from those that others write to the store. The first one
	// authenticates, all of them verify. None: nothing is authenticated, and the store is trusted.
	Authentication [][]byte
	// AcceptUnauthenticated skips the verification: the store is trusted.
	AcceptUnauthenticated bool
}

// maxKeyFile is what a file of a Secret may have, in bytes: the limit of Kubernetes for a whole Secret.
const maxKeyFile = 1 << 20

// ReadKeys reads the files "identity" (secret keys of age, one on a line) and "recipients" (public ones) of a mounted Secret. One of them is
// enough: with recipients alone nothing can be read back, which is what a cluster that only takes backups should be given; with an
// identity alone parts are encrypted to it. The file "authentication" has keys of HMACs, one on a line; the line "none" accepts backups
// without a valid HMAC. Each identity is such a key as well. An empty dir gives no keys.
func ReadKeys(dir string) (Keys, error) {
	if dir == "" {
		return Keys{}, nil
	}
	var k Keys
	identities, err := readSecret(dir, "identity")
	if err != nil {
		return Keys{}, err
	}
	if identities != nil {
		if k.Identities, err = age.ParseIdentities(bytes.NewReader(identities)); err != nil {
			return Keys{}, fmt.Errorf("read the key \"identity\" of the Secret, which is to hold AGE-SECRET-KEY-.. as age-keygen prints it: %w", err)
		}
	}
	recipients, err := readSecret(dir, "recipients")
	if err != nil {
		return Keys{}, err
	}
	if recipients != nil {
		if k.Recipients, err = age.ParseRecipients(bytes.NewReader(recipients)); err != nil {
			return Keys{}, fmt.Errorf("read the key \"recipients\" of the Secret, which is to hold age1.. as age-keygen prints it: %w", err)
		}
	}
	if recipients == nil && identities == nil {
		return Keys{}, fmt.Errorf("the Secret for encryption has neither the key \"recipients\" nor the key \"identity\": write what age-keygen prints into them")
	}
	authentication, err := readSecret(dir, "authentication")
	if err != nil {
		return Keys{}, err
	}
	if err := k.addAuthentication(authentication); err != nil {
		return Keys{}, err
	}
	if len(k.Recipients) == 0 {
		return k, k.addOwn()
	}
	return k, nil
}

// addOwn makes the identities recipients.
func (k *Keys) addOwn() error {
	for _, identity := range k.Identities {
		switch identity := identity.(type) {
		case *age.X25519Identity:
			k.Recipients = append(k.Recipients, identity.Recipient())
		case *age.HybridIdentity:
			k.Recipients = append(k.Recipients, identity.Recipient())
		default:
			return fmt.Errorf("the public key of a %T is not known: write it into the key \"recipients\" of the Secret", identity)
		}
	}
	return nil
}

// readSecret returns nil if the Secret has no such key.
func readSecret(dir, key string) (content []byte, err error) {
	f, err := os.Open(filepath.Join(dir, key)) //nolint:gosec // The directory is where the pod has its Secret mounted.
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("look for the Secret: %w", err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the key %q of the Secret: %w", key, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	content, err = io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the key %q of the Secret: %w", key, err)
	}
	if len(content) > maxKeyFile {
		return nil, fmt.Errorf("the key %q of the Secret is larger than %d bytes", key, maxKeyFile)
	}
	return content, nil
}
