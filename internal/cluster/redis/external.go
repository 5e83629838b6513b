package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
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

// AnnounceKey is the key of the ConfigMap that holds announcements by the names of pods. A gate passes on what it finds there, and
// a running server is told what has changed since.
const AnnounceKey = "announce.json"

// The parameters that make up what a server announces. All servers take all of them while they run.
const (
	announceIP       = "cluster-announce-ip"
	announcePort     = "cluster-announce-port"
	announceTLSPort  = "cluster-announce-tls-port"
	announceHost     = "cluster-announce-hostname"
	announceEndpoint = "cluster-preferred-endpoint-type"
	// announceName holds the name of the pod. In the mode Sharded the servers make no use of it but to show it in INFO, and it
	// tells who answers when clients are sent to another host.
	announceName = "replica-announce-ip"
)

// Announcements is the content of AnnounceKey.
func Announcements(doors []Door) (string, error) {
	byPod := map[string]Announcement{}
	for _, d := range doors {
		if d.Problem == "" {
			byPod[d.Pod] = d.Announcement
		}
	}
	raw, err := json.Marshal(byPod)
	if err != nil {
		return "", fmt.Errorf("encode announcements: %w", err)
	}
	return string(raw), nil
}

// ReadAnnouncements reads it back.
func ReadAnnouncements(raw []byte) (map[string]Announcement, error) {
	var byPod map[string]Announcement
	if err := json.Unmarshal(raw, &byPod); err != nil {
		return nil, fmt.Errorf("read %s: %w", AnnounceKey, err)
	}
	return byPod, nil
}

// What clients are sent to.
const (
	endpointHost = "hostname"
	endpointIP   = "ip"
)

// externalPoll is how soon to look again for what is missing: most of it is watched.
const externalPoll = 5 * time.Second

// Endpoint is what the servers of a cluster send clients to.
func Endpoint(spec *v1alpha1.RedisClusterSpec, a Announcement) string {
	if a.Host != "" || spec.TLS.TLSMode() != v1alpha1.TLSDisabled {
		return endpointHost
	}
	return endpointIP
}

// EndpointParameter is the one that Endpoint is a value of.
const EndpointParameter = announceEndpoint

// AnnounceParameters are the names that a server is asked for.
var AnnounceParameters = []string{announceIP, announcePort, announceTLSPort, announceHost, announceEndpoint, announceName}

// Parameters are what a server of a pod is to have set. host and ip are those of the pod.
func (a Announcement) Parameters(host, ip string) map[string]string {
	out := map[string]string{
		announceIP: ip, announcePort: strconv.Itoa(a.Port), announceTLSPort: strconv.Itoa(a.TLSPort), announceHost: host, announceName: host,
	}
	if a.IP != "" {
		out[announceIP] = a.IP
	}
	if a.Host != "" {
		out[announceHost], out[announceEndpoint] = a.Host, endpointHost
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

// farewell is how long a Service stays that a server does not announce any more. Clients look for changes now and then, most of them
// every few seconds, or when they fail to connect: one to which all that it knows is gone has to begin anew.
const farewell = time.Minute

// Announced is where a server tells the others to reach it; false when that is not known.
func (n *Node) Announced() (Address, bool) {
	if n == nil || n.Announces[announceIP] == "" {
		return Address{}, false
	}
	a := Address{n.Announces[announceIP], ClientPort}
	for _, name := range []string{announcePort, announceTLSPort} {
		if port, err := strconv.Atoi(n.Announces[name]); err == nil && port > 0 {
			a.Port = port
		}
	}
	return a, true
}

// HostOutside is where a server sends its clients, if that is not its pod; empty: to its pod, or unknown.
func (n *Node) HostOutside() string {
	if host := n.Announces[announceHost]; n.Announces[announceName] != "" && host != n.Announces[announceName] {
		return host
	}
	return ""
}

// podBehind is the pod that a node was the server of, as far as it tells; empty: it does not.
func (v *view) podBehind(p Peer) string {
	if pod := podOfHost(p.Host); v.isPod(pod) && v.foreignHost(p.Host) == "" {
		return pod
	}
	if i := slices.IndexFunc(v.Exposed, func(e Exposure) bool { return e.Inside.IP != "" && e.Inside == p.Addr }); i >= 0 {
		return v.Exposed[i].Pod
	}
	own := func(d Door) bool { return d.NodePort == 0 && d.Host != "" && d.Host == p.Host } // That of a load balancer is for one pod.
	if i := slices.IndexFunc(v.Doors, own); i >= 0 {
		return v.Doors[i].Pod
	}
	return ""
}

func (v *view) isPod(name string) bool {
	_, _, ok := ParsePod(v.Spec.Name, name)
	return ok
}

// Announce tells servers where they are reached.
type Announce struct{ Pods []PodSettings }

// Reasons of external access.
const (
	ReasonAnnounce = "AnnouncingServers"
	ReasonExternal = "WaitingForExternalAccess"
	ReasonWithdraw = "WithdrawingServices"
)

func (s Announce) String() string {
	return "announce " + list(s.Pods, func(p PodSettings) string {
		parts := make([]string, 0, len(p.Values))
		for _, name := range slices.Sorted(maps.Keys(p.Values)) {
			parts = append(parts, name+" "+p.Values[name])
		}
		return fmt.Sprintf("%s (%s)", p.Pod, list(parts, func(s string) string { return s }))
	})
}

// Calls sends CONFIG SET.
func (s Announce) Calls() []Call {
	return calls(s.Pods, func(p PodSettings) Call {
		return Call{p.Pod, func(ctx context.Context, c Client) error { return c.Configure(ctx, p.Values) }}
	})
}

// Withdraw deletes Services that nobody is sent to any more.
type Withdraw struct{ Services []Exposure }

func (s Withdraw) String() string {
	return "delete Services " + list(s.Services, func(e Exposure) string { return e.Name })
}

// Differs are the parameters of what its server announces that it has otherwise than it is to have them.
func (p *Pod) Differs() map[string]string {
	out := map[string]string{}
	for name, want := range p.Announce {
		if have, ok := p.Node.Announces[name]; ok && have != want {
			out[name] = want
		}
	}
	return out
}

// toAnnounce are the parameters that a server has otherwise than it is to have them, and whether others are to look for it
// elsewhere then. The certificate that it shows has to vouch for the host first: clients verify that.
func (v *view) toAnnounce(p *Pod) (values map[string]string, moves bool) {
	values = p.Differs()
	if _, ok := values[announceHost]; ok && p.Node.Certificate != v.Spec.Certificate {
		return nil, false
	}
	for _, name := range []string{announceIP, announcePort, announceTLSPort} {
		if _, ok := values[name]; ok {
			moves = true
		}
	}
	return values, moves
}

// announce corrects at once what servers announce where it breaks no connection: the host that clients are sent to, and the address
// of a server that nobody reaches anyway, because the Service that it announces is gone.
func announce(v *view) (cluster.Plan, bool) {
	var step Announce
	for _, p := range v.read {
		if values, moves := v.toAnnounce(p); len(values) > 0 && (!moves || v.astray(p)) {
			step.Pods = append(step.Pods, PodSettings{p.Name, values})
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "%d servers are reached elsewhere than they say", len(step.Pods))
	plan.After = 2 * soon
	return plan, ok
}

// astray tells whether what a server announces leads nowhere: it is neither the address of its pod nor that of a Service that there
// is. Gossip does not tell: the others hear from a server that calls on them, wherever it says that it is.
func (v *view) astray(p *Pod) bool {
	return p.Addr != p.home && !slices.ContainsFunc(v.Exposed, func(e Exposure) bool { return e.Pod == p.Name && e.Inside == p.Addr })
}

// waitForHosts waits until every server knows where clients are sent to for every other one: it is the others that send them there.
// Gossip takes a moment to tell all of them, and slots that had been moved by then would be looked for in the wrong place. Ports of nodes may
// come later than hosts, which several servers share.
func waitForHosts(v *view) (cluster.Plan, bool) {
	checked := map[*table]bool{}
	for _, p := range v.read {
		if checked[p.Node.report.table] {
			continue
		}
		checked[p.Node.report.table] = true
		for _, other := range v.read {
			host := other.Node.Announces[announceHost]
			if host == "" {
				continue
			}
			peer, ok := p.Node.Peer(other.Node.ID)
			if ok && (peer.Host != host || peer.Addr.Port != other.Addr.Port) {
				return cluster.Wait(ReasonGossip, v.pace(soon, later), "%s has yet to hear that clients are sent to %s, port %d, for %s",
					p.Name, host, other.Addr.Port, other.Name)
			}
		}
	}
	return cluster.Pass()
}

// moveAddress has one server after the other say that it is reached elsewhere, replicas first: the others connect to it anew, and its
// replicas to their primary. What would lead nowhere shows with the first of them, and harms nobody as long as it is a replica.
func moveAddress(v *view) (cluster.Plan, bool) {
	var next *PodSettings
	for _, p := range v.read {
		values, moves := v.toAnnounce(p)
		if moves && (next == nil || (!v.podNamed(next.Pod).Node.Self().Replica && p.Node.Self().Replica)) {
			next = &PodSettings{p.Name, values}
		}
	}
	if next == nil {
		return cluster.Pass()
	}
	for _, p := range v.read {
		for _, other := range v.read {
			if p != other && !canFind(p.Node, other) {
				return cluster.Wait(ReasonGossip, soon*3, "%s does not know yet that %s is at %s", p.Name, other.Name, other.Addr)
			}
		}
	}
	plan, ok := cluster.Do(Announce{[]PodSettings{*next}}, "the others are told where %s is reached", next.Pod)
	plan.After = soon * 5
	return plan, ok
}

// deleteUnannouncedServices deletes the Services that are not asked for any more. All servers announce what they are to announce by now; those of a
// pod that there is stay for a while, and one inside for as long as somebody would look for a server there.
func deleteUnannouncedServices(v *view) (cluster.Plan, bool) {
	var step Withdraw
	for _, e := range v.Exposed {
		used := v.podNamed(e.Pod) != nil && (e.Unused.IsZero() || v.Now.Sub(e.Unused) < farewell)
		if !e.Wanted && !used && !v.leadsTo(e) {
			step.Services = append(step.Services, e)
		}
	}
	if len(step.Services) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "nobody is sent to %d Services any more", len(step.Services))
}

// leadsTo tells whether some server looks for another one at the address of a Service.
func (v *view) leadsTo(e Exposure) bool {
	return e.Inside.IP != "" && slices.ContainsFunc(v.read, func(p *Pod) bool {
		if p.Node.Asks == e.Inside {
			return true
		}
		for peer := range p.Node.All() {
			if peer.Addr == e.Inside {
				return true
			}
		}
		return false
	})
}

// waitForExternal says what is missing for clients outside to reach all servers. It comes last: the cluster works without.
func waitForExternal(v *view) (cluster.Plan, bool) {
	if v.Spec.Unannounced == "" {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonExternal, externalPoll, "%s", v.Spec.Unannounced)
}
