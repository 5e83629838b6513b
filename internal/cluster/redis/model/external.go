package model

import (
	"cmp"
	"strconv"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
)

// A server of the mode Sharded tells its clients, and the other servers, where it is reached. With spec.externalAccess that is
// not the name and the address of its pod:
//
//	LoadBalancer  clients:  the host of the pod's load balancer, at the server's own port
//	              servers:  the address of the pod
//	NodePort      clients:  a host that leads to the nodes, at the node port of the pod
//	              servers:  the address of a Service inside, at that same port
//
// A server announces one port to all, and replicas ask their primary at it. So with NodePort there is one Service inside for
// each pod that has the number of the node port as its own port: it leads to the server, and beside it to the bus, which no
// port of a node leads to.

// Announcement is where a server says that it is reached, as far as that is not the name, the address and the port of its pod.
type Announcement struct {
	// Host that clients are sent to.
	Host string `json:"host,omitempty"`
	// IP and Port, or with TLS the TLSPort, where other servers reach it. Clients are sent to the same port.
	IP      string `json:"ip,omitempty"`
	Port    int    `json:"port,omitempty"`
	TLSPort int    `json:"tlsPort,omitempty"`
}

// Endpoint is what the servers of a cluster send clients to.
func Endpoint(spec *v1alpha1.RedisClusterSpec, a Announcement) string {
	if a.Host != "" || spec.TLS.TLSMode() != v1alpha1.TLSDisabled {
		return EndpointHost
	}
	return EndpointIP
}

// EndpointParameter is the one that Endpoint is a value of.
const EndpointParameter = AnnounceEndpoint

// AnnounceParameters are the names that a server is asked for.
var AnnounceParameters = []string{AnnounceIP, AnnouncePort, AnnounceTLSPort, AnnounceHost, AnnounceEndpoint, announceName}

// Parameters are what a server of a pod is to have set. host and ip are those of the pod.
func (a Announcement) Parameters(host, ip string) map[string]string {
	out := map[string]string{
		AnnounceIP: ip, AnnouncePort: strconv.Itoa(a.Port), AnnounceTLSPort: strconv.Itoa(a.TLSPort), AnnounceHost: host, announceName: host,
	}
	if a.IP != "" {
		out[AnnounceIP] = a.IP
	}
	if a.Host != "" {
		out[AnnounceHost], out[AnnounceEndpoint] = a.Host, EndpointHost
	}
	return out
}

// Door is where the server of a pod is reached from outside.
type Door struct {
	// Pod that it leads to; with the mode Replicated, the Service.
	Pod string
	Announcement
	// NodePort of the Service; 0: it has a host of its own, and the port of the servers.
	NodePort int
	// Problem says in words why clients are not sent there yet; empty: they are.
	Problem string
}

// Said is what a server announces of it.
func (d Door) Said() Announcement {
	if d.Problem != "" {
		return Announcement{}
	}
	return d.Announcement
}

// Endpoint is host:port for clients; empty while they are not sent there.
func (d Door) Endpoint() string {
	if d.Problem != "" {
		return ""
	}
	return Address{d.Host, cmp.Or(d.NodePort, ClientPort)}.String()
}

// Exposure is a Service that was made for external access.
type Exposure struct {
	Name, UID string
	// Pod that it leads to.
	Pod string
	// Inside is the address that servers announce when it is the Service inside, see Announcement.
	Inside Address
	// Wanted says that the specification asks for it.
	Wanted bool
	// Unused is since when its server was not seen to announce it; zero: unknown, or it does.
	Unused time.Time
}

// Announced is where a server tells the others to reach it; false when that is not known.
func (n *Node) Announced() (Address, bool) {
	if n == nil || n.Announces[AnnounceIP] == "" {
		return Address{}, false
	}
	a := Address{n.Announces[AnnounceIP], ClientPort}
	for _, name := range []string{AnnouncePort, AnnounceTLSPort} {
		if port, err := strconv.Atoi(n.Announces[name]); err == nil && port > 0 {
			a.Port = port
		}
	}
	return a, true
}

// HostOutside is where a server sends its clients, if that is not its pod; empty: to its pod, or unknown.
func (n *Node) HostOutside() string {
	if host := n.Announces[AnnounceHost]; n.Announces[announceName] != "" && host != n.Announces[announceName] {
		return host
	}
	return ""
}
