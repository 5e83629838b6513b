package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/quorate/quorate/internal/connection"
)

// readAgain is how often a Secret is read until its files belong together: the kubelet may be replacing them.
const readAgain = 3

// follow makes a connection read its Secret anew at each handshake. A client that outlives its certificate, or the
// authority of its servers, has to.
func follow(dir string, conn *connection.Connection) {
	if conn.TLS == nil {
		return
	}
	now := func() (*tls.Config, error) {
		var errs []error
		for range readAgain {
			c, err := connection.Read(dir)
			if err == nil && c.TLS != nil {
				return c.TLS, nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(append(errs, errors.New("the connection Secret cannot be read"))...)
	}
	conn.TLS.Certificates, conn.TLS.RootCAs = nil, nil
	conn.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cfg, err := now()
		if err != nil {
			return nil, err
		}
		if len(cfg.Certificates) == 0 {
			return &tls.Certificate{}, nil // As if there were no such function.
		}
		return &cfg.Certificates[0], nil
	}
	conn.TLS.InsecureSkipVerify = true // Only the part that would go by the roots of the start.
	conn.TLS.VerifyConnection = func(s tls.ConnectionState) error {
		cfg, err := now()
		if err != nil {
			return err
		}
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: s.ServerName, Roots: cfg.RootCAs, Intermediates: between})
		return err
	}
}

// login reads the user and the password for a new connection out of the Secret, and goes by those of the start where it cannot
// be read.
func login(dir string, start connection.Connection) (username, password string) {
	for range readAgain {
		if c, err := connection.Read(dir); err == nil {
			return c.Username, c.Password
		}
	}
	return start.Username, start.Password
}
