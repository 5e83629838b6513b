package scale

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// endpoint is where the server of one pod is reached.
type endpoint struct {
	tls *tls.Config
	// serve is called for each connection of a protocol that is not HTTP, which ends with its return.
	serve func(net.Conn)
	// handle answers requests of HTTP and gRPC.
	handle http.Handler
}

// host serves all pods: each has an address of its own, and says by the certificate of its cluster who it is.
type host struct {
	mu        sync.Mutex
	last      uint32
	endpoints map[string]*endpoint
	open      map[string]map[net.Conn]bool
	web       *http.Server
}

func newHost() *host {
	h := &host{endpoints: map[string]*endpoint{}, open: map[string]map[net.Conn]bool{}}
	h.web = &http.Server{ // Its only client is the manager.
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			h.at(local).handle.ServeHTTP(w, r)
		}),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return h.at(hello.Conn.LocalAddr()).tls, nil
		}},
		ConnState: func(c net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				h.note(c, true)
			case http.StateClosed, http.StateHijacked:
				h.note(c, false)
			case http.StateActive, http.StateIdle:
			}
		},
	}
	return h
}

func (h *host) at(a net.Addr) *endpoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.endpoints[a.String()]; e != nil {
		return e
	}
	return &endpoint{handle: http.NotFoundHandler(), tls: &tls.Config{MinVersion: tls.VersionTLS12}}
}

// note keeps account of connections, so that they end with their pod.
func (h *host) note(c net.Conn, open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := c.LocalAddr().String()
	if h.open[at] == nil {
		h.open[at] = map[net.Conn]bool{}
	}
	if open {
		h.open[at][c] = true
	} else {
		delete(h.open[at], c)
	}
}

// address returns one that no pod had before.
func (h *host) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	n := h.last + 1<<16
	return fmt.Sprintf("127.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// listen serves an endpoint until stop is called, which also ends its connections.
func (h *host) listen(ctx context.Context, ip string, port int, e *endpoint) (stop func(), err error) {
	at := net.JoinHostPort(ip, strconv.Itoa(port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.endpoints[at] = e
	h.mu.Unlock()
	if e.handle != nil {
		go func() { _ = h.web.ServeTLS(l, "", "") }() // It ends with its listener.
	} else {
		go h.accept(tls.NewListener(l, e.tls), e)
	}
	return func() {
		_ = l.Close()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.endpoints, at)
		for c := range h.open[at] {
			_ = c.Close()
		}
		delete(h.open, at)
	}, nil
}

func (h *host) accept(l net.Listener, e *endpoint) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		h.note(c, true)
		go func() {
			e.serve(c)
			h.note(c, false)
			_ = c.Close()
		}()
	}
}

// identity is what a server makes of the Secret that its pod mounts.
func identity(s *corev1.Secret, clients tls.ClientAuthType) (*tls.Config, error) {
	cert, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("certificate in Secret %s: %w", s.Name, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.Data["ca.crt"]) {
		return nil, errors.New("no authority in Secret " + s.Name)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientCAs: roots, ClientAuth: clients,
		NextProtos: []string{"h2", "http/1.1"},
	}, nil
}
