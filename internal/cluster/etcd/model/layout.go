package model

import (
	"fmt"
	"strings"
)

// Ports of a member. Peers have another port for plain text, see Transport. The metrics port serves the probes too: plain HTTP, and nothing but metrics and health.
const (
	ClientPort    = 2379
	PeerPort      = 2380
	MetricsPort   = 2381
	PlainPeerPort = 2382
)

// Common names that etcd takes as identities.
const (
	// RootUser is the user that etcd grants everything. A client certificate with this common name needs no password.
	RootUser = "root"
	// PeerCommonName is what a certificate must carry to act as a member, so that a client's certificate of the same
	// authority cannot.
	PeerCommonName = "quorate-peer"
	// ClientCommonName is the certificate handed out to users. No etcd user has this name: it says nothing about who
	// they are, which their password does.
	ClientCommonName = "client"
	// ServerCommonName is the certificate that members show to clients.
	ServerCommonName = "quorate-server"
)

// InitialCluster writes members the way etcd's initial-cluster wants them.
func InitialCluster(members []Peer) string {
	parts := make([]string, len(members))
	for i, p := range members {
		parts[i] = p.Name + "=" + p.URL
	}
	return strings.Join(parts, ",")
}

// ClientURL is the URL of the client port of a host.
func ClientURL(scheme, host string) string {
	return fmt.Sprintf("%s://%s:%d", scheme, host, ClientPort)
}
