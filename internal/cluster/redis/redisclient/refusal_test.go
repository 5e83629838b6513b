package redisclient_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/login"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
)

// collector refuses every login but one, and keeps what it is sent.
type collector struct {
	mu     sync.Mutex
	takes  string
	logins []string
}

func (c *collector) dial(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer func() { _ = far.Close() }()
		request := make([]byte, 64<<10)
		for {
			n, err := far.Read(request)
			if err != nil {
				return
			}
			if _, err := far.Write([]byte(c.answer(strings.Fields(string(request[:n]))))); err != nil {
				return
			}
		}
	}()
	return near, nil
}

// answer to a command in RESP: HELLO 3 AUTH user password, or AUTH user password.
func (c *collector) answer(words []string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range words {
		if !strings.EqualFold(w, "auth") || len(words) < i+5 {
			continue
		}
		c.logins = append(c.logins, words[i+4])
		if words[i+4] != c.takes {
			return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		}
		return "%1\r\n+proto\r\n:3\r\n"
	}
	return strings.Repeat("-ERR not here\r\n", 40)
}

// read has the operator observe the server once, and returns what passwords it sent.
func (c *collector) read(t *testing.T, server login.Server, passwords ...string) (sent []string) {
	t.Helper()
	var logins []redisclient.Login
	for _, p := range passwords {
		logins = append(logins, redisclient.Login{Username: "quorate", Password: p})
	}
	client := redisclient.New(redisclient.Options{Dial: c.dial, Logins: logins, Refusals: server})
	defer func() { _ = client.Close() }()
	_, err := client.Read(t.Context())
	if err == nil {
		t.Error("the server is read")
	}
	if refused := !strings.Contains(strings.Join(passwords, " "), c.takes); refused != errors.Is(err, redisclient.ErrPassword) {
		t.Errorf("error %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	sent, c.logins = c.logins, nil
	return sent
}

func TestAClearPasswordIsNotSentAgainToAServerThatRefusedIt(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	server := login.Server{Refusals: &login.Refusals{}, Process: "pod 1", Now: func() time.Time { return now }}
	c := &collector{takes: "unknown"}
	expect := func(what string, sent []string, want string) {
		t.Helper()
		if got := strings.Join(sent, " "); got != want {
			t.Errorf("%s: sent %q, want %q", what, got, want)
		}
	}
	expect("first observation", c.read(t, server, "next", "former"), "next former")
	expect("second observation", c.read(t, server, "next", "former"), "")
	expect("the Secret changed", c.read(t, server, "other", "next"), "other")
	server.Process = "pod 1, restarted"
	expect("the container restarted", c.read(t, server, "other", "next"), "other next")
	now = now.Add(time.Minute)
	expect("the wait is over", c.read(t, server, "other", "next"), "other next")
}

func TestAServerThatTakesTheFormerPasswordIsSentTheNewOneAgain(t *testing.T) {
	server := login.Server{Refusals: &login.Refusals{}, Process: "pod 1", Now: time.Now}
	c := &collector{takes: "former"}
	for range 2 {
		if got := strings.Join(c.read(t, server, "next", "former"), " "); got != "next former" {
			t.Errorf("sent %q, want the new and the former password", got)
		}
	}
	c.takes = "next"
	if got := strings.Join(c.read(t, server, "next", "former"), " "); got != "next" {
		t.Errorf("sent %q, want the new password", got)
	}
}
