package tls

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var (
	now  = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	leaf = Leaf{CommonName: "server", DNSNames: []string{"a.example", "*.b.example"}, IPs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
)

func pairs(t *testing.T) (ca, issued Pair) {
	t.Helper()
	ca, err := NewCA("test", now)
	if err != nil {
		t.Fatal(err)
	}
	issued, err = Issue(ca, leaf, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca, issued
}

func TestIssuedCertificatesPassMutualTLS(t *testing.T) {
	ca, err := NewCA("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issued, err := Issue(ca, leaf, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(issued.Cert, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	near, far := net.Pipe()
	server := tls.Server(far, &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})
	go func() {
		_, _ = io.WriteString(server, "hello") // The client's side fails when this does.
		_ = server.Close()
	}()
	client := tls.Client(near, &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, ServerName: "x.b.example", MinVersion: tls.VersionTLS13,
	})
	got, err := io.ReadAll(client)
	if err != nil || string(got) != "hello" {
		t.Fatalf("read %q, %v", got, err)
	}
}

func TestNeedsIssueNamesTheCause(t *testing.T) {
	ca, issued := pairs(t)
	otherCA, other := pairs(t)
	tests := map[string]struct {
		ca, have Pair
		want     Leaf
		at       time.Time
		cause    string
	}{
		"a fresh certificate is kept":     {ca, issued, leaf, now, ""},
		"two thirds of its life is fine":  {ca, issued, leaf, now.Add(LeafValidity * 60 / 100), ""},
		"a third of its life left":        {ca, issued, leaf, now.Add(LeafValidity * 70 / 100), "expires soon"},
		"nothing there yet":               {ca, Pair{}, leaf, now, "no readable certificate"},
		"garbage":                         {ca, Pair{Cert: []byte("x"), Key: []byte("y")}, leaf, now, "no readable certificate"},
		"another authority":               {otherCA, issued, leaf, now, "another authority"},
		"certificate and key of two":      {ca, Pair{Cert: issued.Cert, Key: other.Key}, leaf, now, "do not belong together"},
		"another common name":             {ca, issued, Leaf{CommonName: "x", DNSNames: leaf.DNSNames, IPs: leaf.IPs}, now, "common name"},
		"one more DNS name":               {ca, issued, Leaf{CommonName: "server", DNSNames: append([]string{"c"}, leaf.DNSNames...), IPs: leaf.IPs}, now, "names changed"},
		"the order of names is no reason": {ca, issued, Leaf{CommonName: "server", DNSNames: []string{"*.b.example", "a.example"}, IPs: leaf.IPs}, now, ""},
		"one address less":                {ca, issued, Leaf{CommonName: "server", DNSNames: leaf.DNSNames}, now, "names changed"},
		"an unreadable authority":         {Pair{}, issued, leaf, now, "authority cannot be read"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := NeedsIssue(tc.ca, tc.have, tc.want, tc.at)
			if (tc.cause == "") != (got == "") || !strings.Contains(got, tc.cause) {
				t.Errorf("NeedsIssue = %q, want something with %q", got, tc.cause)
			}
		})
	}
}
