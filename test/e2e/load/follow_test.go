package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/internal/connection"
)

// handshake connects a client that follows a Secret with a server of an authority, which asks for a certificate of the
// same authority.
func handshake(t *testing.T, client *tls.Config, ca clustertls.Pair) error {
	t.Helper()
	leaf, err := clustertls.Issue(ca, clustertls.Leaf{CommonName: "server", DNSNames: []string{"db.example"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	near, far := net.Pipe()
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	done := make(chan error, 1)
	go func() {
		err := server.HandshakeContext(t.Context())
		_ = far.Close()
		done <- err
	}()
	cfg := client.Clone()
	cfg.ServerName = "db.example"
	err = tls.Client(near, cfg).HandshakeContext(t.Context())
	_ = near.Close()
	if serverErr := <-done; err == nil {
		return serverErr
	}
	return err
}

func TestAClientFollowsItsSecret(t *testing.T) {
	dir := t.TempDir()
	hand := func(ca clustertls.Pair) {
		t.Helper()
		leaf, err := clustertls.Issue(ca, clustertls.Leaf{CommonName: "client"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string][]byte{
			connection.KeyHost: []byte("db.example"), connection.KeyPort: []byte("2379"),
			connection.KeyCA: ca.Cert, connection.KeyCert: leaf.Cert, connection.KeyKey: leaf.Key,
		} {
			if err := os.WriteFile(filepath.Join(dir, key), value, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	var authorities []clustertls.Pair
	for range 2 {
		ca, err := clustertls.NewCA("test", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		authorities = append(authorities, ca)
	}
	hand(authorities[0])
	conn, err := connection.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	follow(dir, &conn)
	for i, ca := range authorities {
		hand(ca)
		if err := handshake(t, conn.TLS, ca); err != nil {
			t.Errorf("authority %d: %v", i, err)
		}
		if err := handshake(t, conn.TLS, authorities[1-i]); err == nil {
			t.Errorf("authority %d: a server of another one is trusted", i)
		}
	}
}
