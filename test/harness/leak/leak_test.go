package leak

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster"
)

const password = "pa/ss+w0rd=of many&signs%"

func secretOf(data map[string]string) []corev1.Secret {
	s := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "orders-auth", Labels: map[string]string{cluster.LabelManagedBy: cluster.ManagedBy}}, Data: map[string][]byte{},
	}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return []corev1.Secret{s}
}

// planted are ways in which a text may hold a value.
var planted = map[string]func(value string) string{
	"as it is":     func(v string) string { return "-a" + v + "x" },
	"in a Secret":  func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) },
	"in a header":  func(v string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte("root:"+v)) },
	"one further":  func(v string) string { return base64.StdEncoding.EncodeToString([]byte("user1:" + v + "\n")) },
	"and another":  func(v string) string { return base64.StdEncoding.EncodeToString([]byte("user12:" + v + "\n\n")) },
	"in a token":   func(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) },
	"in an object": func(v string) string { raw, _ := json.Marshal(map[string]string{"a": v}); return string(raw) },
}

func TestAPlantedSecretIsFound(t *testing.T) {
	secrets, err := Secrets(secretOf(map[string]string{"password": password, "host": "orders-client.shop.svc"}))
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("&", "x").Replace(password) // JSON writes the sign in another way, and no generated password has it.
	simple, err := Secrets(secretOf(map[string]string{"password": plain}))
	if err != nil {
		t.Fatal(err)
	}
	for name, plant := range planted {
		if got := Texts(simple, "before "+plant(plain)+" behind"); !slices.Equal(got, []string{"orders-auth, key password"}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, text := range map[string]string{
		"in a query": "https://h/?p=pa%2Fss%2Bw0rd%3Dof+many%26signs%25", "in a path": "redis://u:pa%2Fss+w0rd=of%20many&signs%25@h",
	} {
		if got := Texts(secrets, text); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := Texts(secrets, "orders-client.shop.svc pa/ss+w0rd"); len(got) > 0 {
		t.Errorf("what is public, or half of a secret, is taken for one: %v", got)
	}
}

func TestOfAKeyOnlyThePrivatePartIsSecret(t *testing.T) {
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	product, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return encode("PRIVATE KEY", der, err)
	}
	sec1, err := x509.MarshalECPrivateKey(elliptical)
	publicKey := func(key any) string {
		der, err := x509.MarshalPKIXPublicKey(key)
		return encode("PUBLIC KEY", der, err)
	}
	for name, tc := range map[string]struct{ private, public string }{
		"P-256 in PKCS 8": {pkcs8(elliptical), publicKey(elliptical.Public())},
		"P-256 in SEC 1":  {encode("EC PRIVATE KEY", sec1, err), publicKey(elliptical.Public())},
		"Ed25519":         {pkcs8(edwards), publicKey(edwards.Public())},
		"RSA in PKCS 8":   {pkcs8(product), publicKey(product.Public())},
		"RSA in PKCS 1":   {encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(product), nil), publicKey(product.Public())},
	} {
		secrets, err := Secrets(secretOf(map[string]string{"tls.key": tc.private, "tls.crt": tc.public}))
		if err != nil || len(secrets) != 1 {
			t.Fatalf("%s: %d secrets, %v", name, len(secrets), err)
		}
		for form, plant := range planted {
			if got := Texts(secrets, plant(tc.private)); !slices.Equal(got, []string{"orders-auth, key tls.key"}) {
				t.Errorf("%s, %s: %v", name, form, got)
			}
			if got := Texts(secrets, plant(tc.public)); len(got) > 0 {
				t.Errorf("%s, %s: the public key is taken for a secret", name, form)
			}
		}
	}
}

func TestOnlyTheOperatorsSecretsAreLookedFor(t *testing.T) {
	foreign := secretOf(map[string]string{"password": password})
	foreign[0].Labels = nil
	if got, err := Secrets(foreign); err != nil || len(got) > 0 {
		t.Errorf("%d of somebody else, %v", len(got), err)
	}
	if got, err := Secrets(secretOf(map[string]string{"password": "short"})); err != nil || len(got) > 0 {
		t.Errorf("%d that are too short, %v", len(got), err)
	}
	twice := append(secretOf(map[string]string{"password": password}), secretOf(map[string]string{"former-password": password})...)
	if got, err := Secrets(twice); err != nil || len(got) != 1 {
		t.Errorf("%d of one value, %v", len(got), err)
	}
	broken := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes.Repeat([]byte("x"), 64)})
	if _, err := Secrets(secretOf(map[string]string{"tls.key": string(broken)})); err == nil || strings.Contains(err.Error(), "eHh4") {
		t.Errorf("a key that cannot be read: %v", err)
	}
}
