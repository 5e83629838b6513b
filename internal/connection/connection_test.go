package connection

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

func secret(t *testing.T, drop ...string) map[string][]byte {
	t.Helper()
	ca, err := clustertls.NewCA("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := clustertls.Issue(ca, clustertls.Leaf{CommonName: "client"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{
		KeyHost: []byte("db.example"), KeyPort: []byte("2379"), KeyUsername: []byte("root"), KeyPassword: []byte("secret"),
		KeyCA: ca.Cert, KeyCert: leaf.Cert, KeyKey: leaf.Key,
	}
	for _, key := range drop {
		delete(data, key)
	}
	return data
}

func TestAMountedSecretSaysWhatItsDataSay(t *testing.T) {
	dir := t.TempDir()
	for key, value := range secret(t) {
		if err := os.WriteFile(filepath.Join(dir, key), value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.Addr() != "db.example:2379" || c.Username != "root" || c.Password != "secret" || c.Scheme("https") != "https" {
		t.Errorf("read %+v", c)
	}
	if c.TLS == nil || len(c.TLS.Certificates) != 1 || c.TLS.RootCAs == nil {
		t.Errorf("TLS %+v", c.TLS)
	}
}

func TestASecretWithoutAuthorityMeansPlainText(t *testing.T) {
	c, err := FromData(secret(t, KeyCA, KeyCert, KeyKey))
	if err != nil || c.TLS != nil || c.Scheme("rediss") != "redis" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestAnUnusableSecretIsRefusedWithItsCause(t *testing.T) {
	garbage := secret(t)
	garbage[KeyCA] = []byte("x")
	tests := map[string]struct {
		data  map[string][]byte
		cause string
	}{
		"no host":              {secret(t, KeyHost), "no host and port"},
		"no port":              {secret(t, KeyPort), "no host and port"},
		"certificate, no key":  {secret(t, KeyKey), "client certificate"},
		"unreadable authority": {garbage, "ca.crt"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := FromData(tc.data); err == nil || !strings.Contains(err.Error(), tc.cause) {
				t.Errorf("error %v, want one with %q", err, tc.cause)
			}
		})
	}
}
