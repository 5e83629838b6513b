// Package login limits how often a password is sent in clear text to a server that refused it.
// Neither RESP nor etcd's Authenticate has a challenge: each attempt hands the password to whatever
// process answers at the address. Without TLS that process is not authenticated.
package login

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// firstWait is how long a refused password is held back after the first refusal. Each further
	// refusal doubles it up to maxWait, which bounds how late a password that was set back by hand
	// is tried.
	firstWait = 30 * time.Second
	maxWait   = 15 * time.Minute
)

// Refusals holds the logins that servers refused. The zero value is empty and ready for use by
// several goroutines.
type Refusals struct {
	mu   sync.Mutex
	held map[attempt]hold
}

type attempt struct {
	server string
	login  [sha256.Size]byte
}

type hold struct {
	until time.Time
	wait  time.Duration
}

// Server is one server process of Refusals. The zero value holds nothing back: use it for servers
// that prove their identity with a certificate first.
type Server struct {
	*Refusals
	// Process identifies the process that answers. A new process is sent every password again.
	Process string
	// Now is the clock.
	Now func() time.Time
}

func (s Server) attempt(user, password string) attempt {
	return attempt{s.Process, sha256.Sum256([]byte(user + "\x00" + password))}
}

// Held reports whether the server refused this login lately, so that it must not be sent.
func (s Server) Held(user, password string) bool {
	if s.Refusals == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Now().Before(s.held[s.attempt(user, password)].until)
}

// Refuse records that the server refused this login.
func (s Server) Refuse(user, password string) {
	if s.Refusals == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, a := s.Now(), s.attempt(user, password)
	if s.held == nil {
		s.held = map[attempt]hold{}
	}
	for other, h := range s.held { // Processes end and passwords change: what is stale goes.
		if now.Sub(h.until) > maxWait {
			delete(s.held, other)
		}
	}
	wait := min(max(firstWait, 2*s.held[a].wait), maxWait)
	s.held[a] = hold{now.Add(wait), wait}
}

// Accept records that the server accepted a login. It forgets what the server refused before: while
// passwords are replaced a server refuses the new one until it has been given it.
func (s Server) Accept() {
	if s.Refusals == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.held {
		if a.server == s.Process {
			delete(s.held, a)
		}
	}
}
