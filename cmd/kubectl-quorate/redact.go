package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/connection"
)

// redacted stands in a report for what must not be in it.
const redacted = "REDACTED"

// public are the keys of Secrets whose values are none: where a cluster is, and certificates.
var public = []string{
	"type", "provider", connection.KeyHost, connection.KeyPort, connection.KeyUsername, connection.KeyCA, connection.KeyCert,
	"nodes", "external-nodes", "AWS_REGION", "AZURE_STORAGE_ACCOUNT", "recipients", corev1.ServiceAccountNamespaceKey,
}

// shortest is how long a value must be to be taken for a secret. Shorter ones are words that stand in many places.
const shortest = 6

// patterns are what secrets look like that are not known.
var patterns = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`), redacted},
	{regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Za-z]+`), redacted},
	{regexp.MustCompile(`(://[^/\s:@"']*):[^@\s/"']+@`), "$1:" + redacted + "@"},
	{regexp.MustCompile(`(?i)\b((?:bearer|basic) )[0-9a-z._~+/=-]{8,}`), "${1}" + redacted},
	// Of Redis: the hash of a password, and passwords in configurations and in rules of users.
	{regexp.MustCompile(`#[0-9a-f]{64}\b`), "#" + redacted},
	{regexp.MustCompile(`(?im)\b((?:requirepass|masterauth|primaryauth) +)\S+`), "${1}" + redacted},
	{regexp.MustCompile(`(?im)(\buser \S+ [^\n]*?[ "])[>]\S+`), "${1}>" + redacted},
	{regexp.MustCompile(`(?i)((?:\b|_)(?:password|passwd|passphrase|token|api[_-]?key|secret[_-]?(?:access[_-]?)?key|sas[_-]?token|account[_-]?key)\\?["']?\s*[:=]\s*\\?["']?)[^\s"',;}&\\]+`), "${1}" + redacted},
}

// redactor takes secrets out of text: those that it knows, in the forms in which they are written, and what looks like one.
type redactor struct {
	known map[string]bool
	// replacer replaces all that is known in one pass; nil: it is yet to be made.
	replacer *strings.Replacer
}

// learn takes the values of a Secret to be secret.
func (r *redactor) learn(s *corev1.Secret) {
	for key, value := range s.Data {
		if slices.Contains(public, key) {
			continue
		}
		for _, form := range forms(string(value)) {
			r.add(form)
		}
		for line := range strings.Lines(string(value)) { // Of a key or a file, one line may be quoted alone.
			r.add(strings.TrimSpace(line))
		}
	}
}

func (r *redactor) add(value string) {
	if len(value) < shortest || strings.HasPrefix(value, "-----") {
		return
	}
	if r.known == nil {
		r.known = map[string]bool{}
	}
	r.known[value], r.replacer = true, nil
}

// forms are the ways in which a value is written.
func forms(value string) []string {
	sum := sha256.Sum256([]byte(value)) // How Redis shows a password.
	quoted, err := json.Marshal(value)
	if err != nil {
		quoted = nil // A string can always be encoded.
	}
	return []string{
		value, string(bytes.Trim(quoted, `"`)), url.QueryEscape(value), url.PathEscape(value), strings.TrimPrefix(url.UserPassword("", value).String(), ":"),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)), "="), hex.EncodeToString(sum[:]),
	}
}

// text is the text without secrets.
func (r *redactor) text(text string) string {
	if r.replacer == nil {
		// The longest first: what is a part of another one would break it.
		all := slices.SortedFunc(maps.Keys(r.known), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		var pairs []string
		for _, value := range all {
			pairs = append(pairs, value, redacted)
		}
		r.replacer = strings.NewReplacer(pairs...)
	}
	text = r.replacer.Replace(text)
	for _, p := range patterns {
		text = p.find.ReplaceAllString(text, p.with)
	}
	return text
}

// object takes out of an object what is of no use to others, and the values of environment variables: people put passwords there.
func (r *redactor) object(o map[string]any) {
	if meta, ok := o["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			delete(annotations, corev1.LastAppliedConfigAnnotation)
		}
	}
	hideEnv(o)
}

func hideEnv(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			if key == "env" {
				hideValues(below)
			}
			hideEnv(below)
		}
	case []any:
		for _, below := range v {
			hideEnv(below)
		}
	}
}

func hideValues(env any) {
	list, ok := env.([]any)
	if !ok {
		return
	}
	for _, e := range list {
		if variable, ok := e.(map[string]any); ok && variable["value"] != nil {
			variable["value"] = redacted
		}
	}
}
