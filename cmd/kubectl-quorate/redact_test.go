package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestKnownSecretsAreTakenOutInEveryForm(t *testing.T) {
	const password, key = `p&ss"wörd/+7Qx`, "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBxPzVr0\nqYb1x8Z1Yw==\n-----END EC PRIVATE KEY-----\n"
	var r redactor
	r.learn(&corev1.Secret{Data: map[string][]byte{
		"host": []byte("orders-client.shop.svc"), "port": []byte("2379"), "username": []byte("admin-of-orders"), "password": []byte(password), "tls.key": []byte(key),
		"ca.crt": []byte("-----BEGIN CERTIFICATE-----"), "pin": []byte("1234"),
	}})
	quoted, err := json.Marshal(password)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"raw": password, "JSON": string(quoted), "base64": base64.StdEncoding.EncodeToString([]byte(password)),
		"of a URL": url.UserPassword("root", password).String(), "in a query": url.QueryEscape(password), "a line of a key": "it says MHcCAQEEIBxPzVr0",
	} {
		got := r.text("before " + text + " after")
		if strings.Contains(got, text) || !strings.Contains(got, redacted) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: %s", name, got)
		}
	}
	const harmless = "orders-client.shop.svc:2379 admin-of-orders 1234 -----BEGIN CERTIFICATE-----"
	if got := r.text(harmless); got != harmless {
		t.Errorf("what is public has become %s", got)
	}
}

func TestWhatLooksLikeASecretIsTakenOut(t *testing.T) {
	var r redactor
	for text, kept := range map[string]string{
		"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----": "",
		"-----BEGIN PRIVATE KEY-----\nMIIEow and no end":                         "",
		"AGE-SECRET-KEY-1QQPQYRSZ":                                               "",
		"dial rediss://default:hunter22@carts:6379/0":                            "rediss://default:",
		"Authorization: Bearer eyJhbGciOi.eyJzdWIi.c2ln":                         "Bearer ",
		"requirepass hunter22":                                                   "requirepass ",
		"masterauth hunter22":                                                    "masterauth ",
		"user default on ~* >hunter22 +@all":                                     "+@all",
		`{"password":"hunter22"}`:                                                `"password":"`,
		"AWS_SECRET_ACCESS_KEY=hunter22":                                         "AWS_SECRET_ACCESS_KEY=",
		"token: hunter22":                                                        "token: ",
		"user app on #5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 +@read": "+@read",
	} {
		got := r.text(text)
		for _, secret := range []string{"hunter22", "MIIEow", "QQPQYRSZ", "eyJhbGciOi", "5e884898"} {
			if strings.Contains(got, secret) {
				t.Errorf("%q has become %q", text, got)
			}
		}
		if !strings.Contains(got, redacted) || !strings.Contains(got, kept) {
			t.Errorf("%q has become %q, want %q kept", text, got, kept)
		}
	}
	const harmless = "auth: {mode: Password, secretName: orders-admin}\nconnectionSecret: orders-connection\nurl: https://quay.io:443/x\nreplicas > 3 @all"
	if got := r.text(harmless); got != harmless {
		t.Errorf("what is no secret has become:\n%s", got)
	}
}

func TestObjectsLoseWhatPeoplePutSecretsInto(t *testing.T) {
	o := map[string]any{
		"metadata": map[string]any{"managedFields": []any{}, "annotations": map[string]any{corev1.LastAppliedConfigAnnotation: "{}", "a": "b"}},
		"spec": map[string]any{"template": map[string]any{"env": []any{
			map[string]any{"name": "LICENSE", "value": "hunter22"}, map[string]any{"name": "FROM", "valueFrom": map[string]any{}},
		}}},
	}
	new(redactor).object(o)
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"hunter22", "managedFields", corev1.LastAppliedConfigAnnotation} {
		if strings.Contains(string(raw), gone) {
			t.Errorf("%s is left in %s", gone, raw)
		}
	}
	for _, kept := range []string{`"a":"b"`, "LICENSE", "valueFrom"} {
		if !strings.Contains(string(raw), kept) {
			t.Errorf("%s is gone from %s", kept, raw)
		}
	}
}

// unpack reads a report: the files by their names without the directory.
func unpack(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(zip); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(head.Name, "/")
		files[name] = string(text)
	}
}

func TestAnArchiveHoldsItsFilesInOneDirectory(t *testing.T) {
	var out bytes.Buffer
	a := newArchive(&out, "some/dir/report-1", time.Unix(1_700_000_000, 0))
	a.add("a/b.txt", "hello")
	a.add("c.txt", "")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	if files := unpack(t, out.Bytes()); len(files) != 2 || files["a/b.txt"] != "hello" {
		t.Errorf("files %v", files)
	}
}
