package backup

import (
	"bufio"
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
)

const (
	// minSecret is the least length of an authentication key, in characters: 128 bits as hexadecimal digits.
	minSecret = 32
	// acceptUnauthenticated in the place of an authentication key switches the check off for reading.
	acceptUnauthenticated = "none"
	// derivedInfo separates the authentication key that is derived from an age identity from other uses of the identity (RFC 5869).
	derivedInfo = "quorate backup authentication"
	// Purposes separate the HMACs of manifests from those of objects, which are computed with the same key.
	purposeManifest, purposeObject = "quorate/manifest", "quorate/object"
)

// addAuthentication parses the key "authentication" of the Secret, and derives one key from each identity. The derived keys come last, so
// the Secret decides which key authenticates new backups.
func (k *Keys) addAuthentication(content []byte) error {
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == acceptUnauthenticated:
			k.AcceptUnauthenticated = true
		case len(line) < minSecret:
			return fmt.Errorf("read the key \"authentication\" of the Secret: a line has %d characters, at least %d are required: "+
				"write the output of openssl rand -hex 32", len(line), minSecret)
		default:
			k.Authentication = append(k.Authentication, []byte(line))
		}
	}
	for _, identity := range k.Identities {
		text, ok := identity.(fmt.Stringer)
		if !ok {
			return fmt.Errorf("the secret key of a %T is not known", identity)
		}
		derived, err := hkdf.Key(sha256.New, []byte(text.String()), nil, derivedInfo, sha256.Size)
		if err != nil {
			return fmt.Errorf("derive the authentication key: %w", err)
		}
		k.Authentication = append(k.Authentication, derived)
	}
	return nil
}

// proves reports whether reading requires a valid HMAC.
func (k Keys) proves() bool { return len(k.Authentication) > 0 && !k.AcceptUnauthenticated }

// signer returns the HMAC that authenticates an object of that name, nil without a key.
func (k Keys) signer(purpose, name string) hash.Hash {
	if len(k.Authentication) == 0 {
		return nil
	}
	return newMAC(k.Authentication[0], purpose, name)
}

// verifiers returns one HMAC for each key that may have authenticated an object of that name.
func (k Keys) verifiers(purpose, name string) []hash.Hash {
	var out []hash.Hash
	for _, key := range k.Authentication {
		out = append(out, newMAC(key, purpose, name))
	}
	return out
}

// newMAC binds the name, so that a genuine object is not accepted in the place of another one. Names contain no NUL (see checkPath).
func newMAC(key []byte, purpose, name string) hash.Hash {
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, purpose+"\x00"+name+"\x00") // A hash never fails.
	return mac
}

// matches reports whether sum is the value of one of the HMACs.
func matches(macs []hash.Hash, sum []byte) bool {
	return slices.ContainsFunc(macs, func(mac hash.Hash) bool { return hmac.Equal(mac.Sum(nil), sum) })
}

// An authenticated manifest begins with these bytes, followed by 64 hexadecimal digits. The HMAC is that of the manifest with zeros in
// their place, so that every byte of it is authenticated.
var (
	provenHead = fmt.Appendf(nil, `{"format":%d,"hmac":"`, FormatAuthenticated)
	noHMAC     = strings.Repeat("0", 2*sha256.Size)
)

// boundName returns the last name of the directory: a manifest is rejected in another directory, and a whole store can be copied to
// another prefix.
func boundName(dir string) string { return path.Base(dir) }

// sign replaces the zeros in the encoded manifest by its HMAC.
func sign(content []byte, mac hash.Hash) {
	mac.Write(content)
	hex.Encode(content[len(provenHead):], mac.Sum(nil))
}

// verifyManifest returns ErrNotAuthentic unless one of the keys has authenticated the manifest for this directory.
func verifyManifest(content []byte, dir string, k Keys) error {
	rest, ok := bytes.CutPrefix(content, provenHead)
	if !ok || len(rest) < len(noHMAC) {
		return fmt.Errorf("%w: its manifest has no HMAC", ErrNotAuthentic)
	}
	sum, err := hex.DecodeString(string(rest[:len(noHMAC)]))
	if err != nil {
		return fmt.Errorf("%w: the HMAC of its manifest is none", ErrNotAuthentic)
	}
	macs := k.verifiers(purposeManifest, boundName(dir))
	for _, mac := range macs {
		mac.Write(provenHead)
		_, _ = io.WriteString(mac, noHMAC) // A hash never fails.
		mac.Write(rest[len(noHMAC):])
	}
	if !matches(macs, sum) {
		return fmt.Errorf("%w: the HMAC of its manifest is not that of this content in %s", ErrNotAuthentic, boundName(dir))
	}
	return nil
}

// The HMAC of an object that no manifest lists is the last frame of its compressed content: a skippable one, which every decoder of zstd
// passes over (RFC 8878, 3.1.2).
var proofHead = append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x184D2A5A), uint32(len(proofIntro)+sha256.Size)), proofIntro...)

const (
	proofIntro = "quorate-hmac-1\n\x00"
	proofSize  = 4 + 4 + len(proofIntro) + sha256.Size
)

// provenWriter authenticates the compressed content that it passes on. A nil HMAC adds nothing.
type provenWriter struct {
	to  io.Writer
	mac hash.Hash
}

func (w *provenWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if w.mac != nil {
		w.mac.Write(p[:n])
	}
	return n, err
}

// finish appends the frame with the HMAC.
func (w *provenWriter) finish() error {
	if w.mac == nil {
		return nil
	}
	_, err := w.to.Write(append(bytes.Clone(proofHead), w.mac.Sum(nil)...))
	return err
}

// provenReader passes on the compressed content before the frame with the HMAC, and returns io.EOF only if that is valid.
type provenReader struct {
	from *bufio.Reader
	macs []hash.Hash
}

func newProvenReader(from io.Reader, macs []hash.Hash) *provenReader {
	return &provenReader{from: bufio.NewReaderSize(from, aheadSize), macs: macs}
}

func (r *provenReader) Read(p []byte) (int, error) {
	ahead, err := r.from.Peek(proofSize + 1)
	switch {
	case errors.Is(err, io.EOF):
		sum, ok := bytes.CutPrefix(ahead, proofHead)
		if !ok || !matches(r.macs, sum) {
			return 0, fmt.Errorf("%w: the HMAC is missing, or not that of this content", ErrNotAuthentic)
		}
		return 0, io.EOF
	case err != nil:
		return 0, err
	}
	n, err := r.from.Read(p[:min(len(p), r.from.Buffered()-proofSize)])
	for _, mac := range r.macs {
		mac.Write(p[:n])
	}
	return n, err
}
