package redisdump_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/backup/redisdump"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// copyOf takes the data of a server through a Counter.
func copyOf(t *testing.T, s redisdump.Source) ([]byte, redisdump.Transfer, redisdump.Summary) {
	t.Helper()
	var rdb bytes.Buffer
	c := redisdump.NewCounter(&rdb)
	transfer, err := s.Copy(t.Context(), c)
	summary, counted := c.Finish()
	if err := errors.Join(err, counted); err != nil {
		t.Fatal(err)
	}
	if transfer.Bytes != int64(rdb.Len()) || summary.Bytes != transfer.Bytes || transfer.Ended.Before(transfer.Began) {
		t.Errorf("%d bytes were written, %+v was transferred, %d read", rdb.Len(), transfer, summary.Bytes)
	}
	return rdb.Bytes(), transfer, summary
}

func TestCopyTakesWhatAReplicaHasGotWhileItIsWritten(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		for name, args := range map[string][]string{"diskless": {"--repl-diskless-sync", "yes"}, "from disk": {"--repl-diskless-sync", "no"}} {
			t.Run(name, func(t *testing.T) {
				primary, replica := start(t, engine, nil), start(t, engine, nil, args...)
				primary.fill(t)
				replica.follow(t, primary)
				acknowledged, stop := counting(t, primary)
				defer stop()
				eventually(t, "writes have begun", func() error {
					if acknowledged.Load() < 200 {
						return errors.New("few are acknowledged")
					}
					return nil
				})
				before, offset := acknowledged.Load(), offsetOf(t, replica)
				rdb, transfer, summary := copyOf(t, replica.source())
				after, end := acknowledged.Load(), offsetOf(t, replica)
				stop()
				if transfer.Offset < offset || transfer.Offset > end || transfer.ReplicationID != field(t, replica, "master_replid") {
					t.Errorf("transferred %s, of a replica between %d and %d", transfer, offset, end)
				}
				if summary.Functions != 2 || !summary.Checked || summary.Version == 0 {
					t.Errorf("%+v", counts(summary))
				}
				// The server itself reads it back.
				restored := start(t, engine, rdb)
				last, err := restored.Get(t.Context(), "counter").Int64()
				if err != nil || last < before || last > after+1 {
					t.Errorf("the counter is %d (%v), it was between %d and %d", last, err, before, after)
				}
				for i := range last {
					if err := restored.Get(t.Context(), "count:"+strconv.FormatInt(i, 10)).Err(); err != nil {
						t.Fatalf("write %d of %d is missing: %v", i, last, err)
					}
				}
				if n, err := restored.DBSize(t.Context()).Result(); err != nil || n != summary.Keys {
					t.Errorf("of %d keys the server finds %d (%v)", summary.Keys, n, err)
				}
			})
		}
	})
}

// counting writes keys count:0, count:1, ... and after each the number of them, waits until the replica has each, and tells how many it has.
func counting(t *testing.T, primary *process) (acknowledged *atomic.Int64, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	acknowledged = &atomic.Int64{}
	go func() {
		defer close(done)
		for i := int64(0); ctx.Err() == nil; i++ {
			var replicas *goredis.Cmd
			_, err := primary.Pipelined(ctx, func(p goredis.Pipeliner) error {
				p.Set(ctx, "count:"+strconv.FormatInt(i, 10), strings.Repeat("v", int(i%100)), 0)
				p.Set(ctx, "counter", i+1, 0)
				replicas = p.Do(ctx, "WAIT", 1, 1000)
				return nil
			})
			if err != nil {
				continue
			}
			if n, err := replicas.Int(); err == nil && n >= 1 {
				acknowledged.Store(i + 1)
			}
		}
	}()
	return acknowledged, func() { cancel(); <-done }
}

func field(t *testing.T, p *process, name string) string {
	t.Helper()
	info, err := p.Info(t.Context(), "replication").Result()
	_, rest, found := strings.Cut(info, name+":")
	if err != nil || !found {
		t.Fatalf("INFO has no %s (%v)", name, err)
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

func offsetOf(t *testing.T, p *process) int64 {
	t.Helper()
	n, err := strconv.ParseInt(field(t, p, "master_repl_offset"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCopyOfAPrimaryIsTheSame(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		p := start(t, engine, nil)
		p.fill(t)
		want := digest(t, p.Client)
		rdb, transfer, _ := copyOf(t, p.source())
		if transfer.ReplicationID != field(t, p, "master_replid") {
			t.Errorf("%s", transfer)
		}
		if got := digest(t, start(t, engine, rdb).Client); got != want {
			t.Errorf("the digest is %s, want %s", got, want)
		}
		if n := field(t, p, "connected_slaves"); n != "0" {
			t.Errorf("%s replicas are left behind", n)
		}
	})
}

func TestTheReplicationUserMayCopyOverTLS(t *testing.T) {
	ca, err := clustertls.NewCA("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := clustertls.Issue(ca, clustertls.Leaf{CommonName: "server", DNSNames: []string{"server"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, raw := range map[string][]byte{"ca.crt": ca.Cert, "tls.crt": leaf.Cert, "tls.key": leaf.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	conf := &tls.Config{RootCAs: pool, ServerName: "server", MinVersion: tls.VersionTLS12}
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		p := start(t, engine, nil, "--tls-port", "6380", "--tls-cert-file", dir+"/tls.crt", "--tls-key-file", dir+"/tls.key",
			"--tls-ca-cert-file", dir+"/ca.crt", "--tls-auth-clients", "no")
		p.must(t, "SET", "large", strings.Repeat("x", 3<<20))
		p.must(t, "ACL", "SETUSER", "copier", "on", ">se cret\"", "-@all", "+psync", "+replconf", "+ping")
		p.must(t, "ACL", "SETUSER", "other", "on", ">secret", "+@all", "-psync")
		s := redisdump.Source{
			Username: "copier", Password: `se cret"`,
			Dial: func(ctx context.Context) (net.Conn, error) {
				return (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", p.ip+":6380")
			},
		}
		if _, _, summary := copyOf(t, s); summary.Keys != 1 {
			t.Errorf("%+v", counts(summary))
		}
		s.Password = "wrong"
		if _, err := s.Copy(t.Context(), io.Discard); !errors.Is(err, redisdump.ErrWrongPassword) || strings.Contains(err.Error(), "wrong\"") {
			t.Errorf("with a wrong password: %v", err)
		}
		s.Username, s.Password = "other", "secret"
		if _, err := s.Copy(t.Context(), io.Discard); !errors.Is(err, redisdump.ErrNoPermission) {
			t.Errorf("without permission: %v", err)
		}
		p.must(t, "ACL", "SETUSER", "default", "resetpass", ">needed")
		if _, err := p.source().Copy(t.Context(), io.Discard); !errors.Is(err, redisdump.ErrWrongPassword) {
			t.Errorf("without a password: %v", err)
		}
	})
}

func TestCopyTellsWhyItFailed(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		primary, replica := start(t, engine, nil), start(t, engine, nil)
		random := bytes.Repeat([]byte("incompressible?"), 100_000)
		for i := range 20 {
			primary.must(t, "SET", i, random)
		}
		replica.must(t, "CONFIG", "SET", "rdbcompression", "no")
		replica.follow(t, primary)

		t.Run("cancelled", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			reason := errors.New("the job is evicted")
			_, err := replica.source().Copy(ctx, writerFunc(func(p []byte) (int, error) { cancel(reason); return len(p), nil }))
			if !errors.Is(err, reason) {
				t.Error(err)
			}
		})
		t.Run("writer", func(t *testing.T) {
			full := errors.New("the bucket is full")
			_, err := replica.source().Copy(t.Context(), writerFunc(func([]byte) (int, error) { return 0, full }))
			if !errors.Is(err, full) || errors.Is(err, redisdump.ErrInterrupted) {
				t.Error(err)
			}
		})
		t.Run("stalled", func(t *testing.T) {
			s := replica.source()
			s.Stall = 300 * time.Millisecond
			stopped := false
			_, err := s.Copy(t.Context(), writerFunc(func(p []byte) (int, error) {
				if !stopped {
					stopped = true
					children(t, replica, syscall.SIGSTOP)
					replica.signal(t, syscall.SIGSTOP)
				}
				return len(p), nil
			}))
			replica.signal(t, syscall.SIGCONT)
			children(t, replica, syscall.SIGCONT)
			if !errors.Is(err, redisdump.ErrStalled) {
				t.Error(err)
			}
		})
		t.Run("slow writer is no stall", func(t *testing.T) {
			s := replica.source()
			s.Stall = 1500 * time.Millisecond
			first := true
			_, err := s.Copy(t.Context(), writerFunc(func(p []byte) (int, error) {
				if first {
					first = false
					time.Sleep(s.Stall + s.Stall/2)
				}
				return len(p), nil
			}))
			if err != nil {
				t.Error(err)
			}
		})
		t.Run("killed", func(t *testing.T) {
			c := redisdump.NewCounter(writerFunc(func(p []byte) (int, error) {
				if replica.cmd != nil {
					children(t, replica, syscall.SIGKILL)
					replica.kill()
				}
				return len(p), nil
			}))
			_, err := replica.source().Copy(t.Context(), c)
			if !errors.Is(err, redisdump.ErrInterrupted) {
				t.Error(err)
			}
			if _, err := c.Finish(); !errors.Is(err, redisdump.ErrDamaged) {
				t.Errorf("what was copied so far: %v", err)
			}
			if _, err := replica.source().Copy(t.Context(), io.Discard); err == nil || errors.Is(err, redisdump.ErrInterrupted) {
				t.Errorf("nobody listens: %v", err)
			}
			replica.run(t)
		})
		t.Run("no link", func(t *testing.T) {
			replica.follow(t, primary)
			primary.kill()
			eventually(t, "the replica sees that its primary is gone", func() error {
				_, err := replica.source().Copy(t.Context(), io.Discard)
				if !errors.Is(err, redisdump.ErrNoPrimaryLink) {
					return fmt.Errorf("it tells %w", err)
				}
				return nil
			})
		})
	})
}

func TestALoadingServerIsToldFromOthers(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		p := start(t, engine, nil, "--loading-process-events-interval-bytes", "1024")
		for i := range 1000 {
			p.must(t, "SET", i, i)
		}
		p.save(t)
		p.kill()
		p.args = append(p.args, "--key-load-delay", "10000") // Microseconds for each key.
		p.runUnready(t)
		eventually(t, "it loads", func() error {
			_, err := p.source().Copy(t.Context(), io.Discard)
			if errors.Is(err, redisdump.ErrLoading) {
				return nil
			}
			return fmt.Errorf("it tells %w", err)
		})
	})
}

// scripted is a server that says what it is told to, whatever it is asked.
func scripted(t *testing.T, answers string) redisdump.Source {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		server, err := l.AcceptTCP()
		if err != nil {
			return
		}
		_, _ = io.WriteString(server, answers)
		_ = server.CloseWrite()
		_, _ = io.Copy(io.Discard, server)
		_ = server.Close()
	}()
	return redisdump.Source{Stall: time.Second, Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}}
}

func TestCopyUnderstandsWhatIsRare(t *testing.T) {
	const greeting, full = "+PONG\r\n+OK\r\n+OK\r\n+OK\r\n-ERR Unrecognized REPLCONF option: version\r\n", "\n\n+FULLRESYNC 0123456789012345678901234567890123456789 42\r\n"
	mark := strings.Repeat("m", 39) + "M"
	for name, test := range map[string]struct {
		answers, want string
		is            error
	}{
		"length":           {answers: greeting + full + "\n\n$5\r\nREDISjunk", want: "REDIS"},
		"mark":             {answers: greeting + full + "\n$EOF:" + mark + "\r\nREDIS" + mark, want: "REDIS"},
		"nothing":          {answers: greeting + full + "$EOF:" + mark + "\r\n" + mark},
		"no mark":          {answers: greeting + full + "$EOF:" + mark + "\r\nREDIS" + mark[:39], is: redisdump.ErrInterrupted},
		"too short":        {answers: greeting + full + "$6\r\nREDIS", is: redisdump.ErrInterrupted},
		"bgsave fails":     {answers: greeting + full + "-ERR BGSAVE failed, replication can't continue\r\n", is: redisdump.ErrRefused},
		"no size":          {answers: greeting + full + "$-1\r\n", is: redisdump.ErrRefused},
		"no announcement":  {answers: greeting + full + "hello\r\n", is: redisdump.ErrRefused},
		"busy":             {answers: "-BUSY Redis is busy running a script.\r\n", is: redisdump.ErrBusy},
		"no clients":       {answers: "-ERR max number of clients reached\r\n", is: redisdump.ErrBusy},
		"partial":          {answers: greeting + "+CONTINUE\r\n", is: redisdump.ErrRefused},
		"endless line":     {answers: "+" + strings.Repeat("x", 100_000), is: redisdump.ErrRefused},
		"closed at once":   {is: redisdump.ErrInterrupted},
		"something else":   {answers: "HTTP/1.1 400 Bad Request\r\n", is: redisdump.ErrRefused},
		"offset no number": {answers: greeting + "+FULLRESYNC x y\r\n", is: redisdump.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			transfer, err := scripted(t, test.answers).Copy(t.Context(), &got)
			if !errors.Is(err, test.is) {
				t.Errorf("%v, want %v", err, test.is)
			}
			if test.is == nil && (got.String() != test.want || transfer.Offset != 42 || transfer.Bytes != int64(len(test.want))) {
				t.Errorf("%q %+v", got.String(), transfer)
			}
		})
	}
}

func TestCopyFindsTheMarkWhereverPiecesAreCut(t *testing.T) {
	mark := strings.Repeat("0123456789", 4)
	data := strings.Repeat("x", 100) + mark[:39] + "y" + mark[1:] + "z"
	answers := "+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+FULLRESYNC id 1\r\n$EOF:" + mark + "\r\n"
	for piece := 1; piece < 60; piece++ {
		client, server := net.Pipe()
		s := redisdump.Source{Dial: func(context.Context) (net.Conn, error) { return client, nil }}
		go func() {
			go func() { _, _ = io.Copy(io.Discard, server) }()
			_, _ = io.WriteString(server, answers)
			for rest := data + mark; rest != ""; {
				n := min(piece, len(rest))
				_, _ = io.WriteString(server, rest[:n])
				rest = rest[n:]
			}
			_ = server.Close()
		}()
		var got bytes.Buffer
		if _, err := s.Copy(t.Context(), &got); err != nil || got.String() != data {
			t.Errorf("in pieces of %d: %v %s", piece, err, cmp.Diff(data, got.String()))
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
