// Package connection reads the connection Secret that Quorate makes for every cluster (Service Binding layout): all
// that a client is given, and all that it needs. It opens no connection itself.
package connection

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// Keys of a connection Secret.
const (
	KeyHost     = "host"
	KeyPort     = "port"
	KeyUsername = "username"
	KeyPassword = "password"
	KeyCA       = "ca.crt"
	KeyCert     = "tls.crt"
	KeyKey      = "tls.key"
)

// Connection is what a connection Secret says.
type Connection struct {
	Host, Port         string
	Username, Password string
	// TLS is nil when the cluster serves plain text.
	TLS *tls.Config
}

// Addr is host:port.
func (c Connection) Addr() string { return net.JoinHostPort(c.Host, c.Port) }

// Scheme returns the given scheme, for example https or rediss, without its final s when the cluster serves plain text.
func (c Connection) Scheme(secure string) string {
	if c.TLS == nil {
		return strings.TrimSuffix(secure, "s")
	}
	return secure
}

// Read reads a connection Secret that is mounted as a directory.
func Read(dir string) (Connection, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Connection{}, fmt.Errorf("open connection Secret: %w", err)
	}
	defer func() { _ = root.Close() }()
	data := map[string][]byte{}
	for _, key := range []string{KeyHost, KeyPort, KeyUsername, KeyPassword, KeyCA, KeyCert, KeyKey} {
		raw, err := root.ReadFile(key)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return Connection{}, fmt.Errorf("read connection Secret: %w", err)
		}
		data[key] = raw
	}
	return FromData(data)
}

// FromData reads the data of a connection Secret.
func FromData(data map[string][]byte) (Connection, error) {
	c := Connection{
		Host: string(data[KeyHost]), Port: string(data[KeyPort]),
		Username: string(data[KeyUsername]), Password: string(data[KeyPassword]),
	}
	if c.Host == "" || c.Port == "" {
		return c, errors.New("there is no host and port: is it a connection Secret?")
	}
	if len(data[KeyCA]) == 0 {
		return c, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data[KeyCA]) {
		return c, fmt.Errorf("%s holds no certificate", KeyCA)
	}
	c.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if len(data[KeyCert]) == 0 {
		return c, nil
	}
	pair, err := tls.X509KeyPair(data[KeyCert], data[KeyKey])
	if err != nil {
		return c, fmt.Errorf("read client certificate: %w", err)
	}
	c.TLS.Certificates = []tls.Certificate{pair}
	return c, nil
}
