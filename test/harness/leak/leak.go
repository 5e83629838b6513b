// Package leak looks for the contents of Secrets where they must not be. It never prints one.
package leak

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/connection"
)

// shortest is the length from which a value is taken for a secret. Whatever Quorate generates is longer, and what is shorter may be in a
// text by chance.
const shortest = 12

// public are the keys of Quorate's Secrets that everybody may see. What is under any other key is secret, so that a new key is looked for
// until it is named here.
var public = []string{
	connection.KeyHost, connection.KeyPort, connection.KeyUsername, "type", "provider", "nodes", "external-nodes",
	"uri", "external-uri", // The password in them has a key of its own.
	"handed-out", // A time.
}

// Secret is one value that is to stay where it is.
type Secret struct {
	// Name says where it belongs: the name of the Secret and the key.
	Name string
	// forms are what it may look like elsewhere.
	forms []string
}

// Secrets are the secret values of those Secrets that Quorate has made, and of certificates that somebody issued for it, each once.
func Secrets(from []corev1.Secret) ([]Secret, error) {
	var out []Secret
	seen := map[string]bool{}
	for i := range from {
		s := &from[i]
		if s.Labels[cluster.LabelManagedBy] != cluster.ManagedBy && s.Type != corev1.SecretTypeTLS {
			continue
		}
		for key, value := range s.Data {
			core, err := secretPart(value)
			if err != nil {
				return nil, fmt.Errorf("key %s of Secret %s: %w", key, s.Name, err)
			}
			if !slices.Contains(public, key) && len(core) >= shortest && !seen[core] {
				seen[core] = true
				out = append(out, Secret{s.Name + ", key " + key, forms(core)})
			}
		}
	}
	return out, nil
}

// Texts names the secrets that are in a text.
func Texts(secrets []Secret, text string) []string {
	var out []string
	for _, s := range secrets {
		if slices.ContainsFunc(s.forms, func(form string) bool { return strings.Contains(text, form) }) {
			out = append(out, s.Name)
		}
	}
	return out
}

// secretPart is the part of a value that nobody may see: nothing of a certificate, of a private key what is in no certificate, and of
// anything else the whole.
func secretPart(value []byte) (string, error) {
	block, _ := pem.Decode(value)
	for rest := value; block != nil && !strings.Contains(block.Type, "PRIVATE KEY"); {
		block, rest = pem.Decode(rest)
	}
	switch {
	case block != nil:
		return keyPart(block.Bytes)
	case bytes.Contains(value, []byte("-----BEGIN ")):
		return "", nil
	}
	return strings.TrimSpace(string(value)), nil
}

// keyPart is the longest piece of a line of the PEM text that consists of nothing but the private number.
func keyPart(der []byte) (string, error) {
	secret, err := privateNumber(der)
	if err != nil {
		return "", err
	}
	at := bytes.Index(der, secret)
	if at < 0 {
		return "", errors.New("the private number is not in its own encoding")
	}
	const line, bits = 64, 6 // Of PEM, and of a character of base64.
	text := base64.StdEncoding.EncodeToString(der)
	from, to := (at*8+bits-1)/bits, (at+len(secret))*8/bits
	longest := ""
	for from < to {
		end := min(to, (from/line+1)*line)
		if end-from > len(longest) {
			longest = text[from:end]
		}
		from = end
	}
	return longest, nil
}

func privateNumber(der []byte) ([]byte, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		if key, err = x509.ParseECPrivateKey(der); err != nil {
			if key, err = x509.ParsePKCS1PrivateKey(der); err != nil {
				return nil, errors.New("a private key of an unknown kind")
			}
		}
	}
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		return k.Bytes()
	case *rsa.PrivateKey:
		return k.D.Bytes(), nil
	case ed25519.PrivateKey:
		return k.Seed(), nil
	}
	return nil, errors.New("a private key of an unknown kind")
}

// forms are a value as it is, as part of a URL, and in base64, alone and behind other text.
func forms(value string) []string {
	out := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for shift := range 3 {
		encoded := inBase64(value, shift)
		out = append(out, encoded, strings.NewReplacer("+", "-", "/", "_").Replace(encoded))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// inBase64 are the characters that stand for the value alone where so many bytes are before it.
func inBase64(value string, before int) string {
	const bits = 6
	text := base64.StdEncoding.EncodeToString(append(make([]byte, before), value...))
	return text[(before*8+bits-1)/bits : (before+len(value))*8/bits]
}
