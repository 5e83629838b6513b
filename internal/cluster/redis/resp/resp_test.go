package resp

import (
	"errors"
	"net"
	"strings"
	"testing"
)

var valid = map[string]string{
	"all types of RESP3": "%2\r\n+a\r\n:1\r\n$3\r\nb\nc\r\n~2\r\n#t\r\n,1.5\r\n>2\r\n+x\r\n_\r\n|1\r\n+k\r\n+v\r\n=7\r\ntxt:abc\r\n(123\r\n!3\r\nERR\r\n-ERR no\r\n",
	"nulls of RESP2":     "*3\r\n$-1\r\n*-1\r\n$0\r\n\r\n*0\r\n",
}

var refused = map[string]string{
	"the length that overflows":        "%1\r\n$9223372036854775806\r\n",
	"a map of ten million entries":     "%10000000\r\n",
	"an array of 2^62 inside a map":    "%1\r\n+a\r\n*4611686018427387904\r\n",
	"a map whose count overflows":      "%9223372036854775807\r\n",
	"many arrays that exceed together": strings.Repeat("*100000\r\n", 6),
	"deep nesting":                     strings.Repeat("*1\r\n", 33),
	"a line without end":               strings.Repeat("+", maxLine+1),
	"a negative length":                "$-2\r\n",
	"a null map":                       "%-1\r\n",
	"a streamed string":                "$?\r\n",
	"another protocol":                 "HTTP/1.1 400 Bad Request\r\n",
	"a bare line feed":                 "+OK\n",
	"a length that is no number":       "$1a\r\n",
	"pushes without end":               strings.Repeat(">1\r\n+xxxxxxxx\r\n", 1200000),
}

func TestValidRepliesPassHoweverTheyAreSplit(t *testing.T) {
	for name, reply := range valid {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, len(reply)} {
				p := parser{limits: Manager()}
				for i := 0; i < len(reply); i += size {
					if err := p.feed([]byte(reply[i:min(i+size, len(reply))])); err != nil {
						t.Fatalf("pieces of %d: %v", size, err)
					}
				}
				if p.skip != 0 || len(p.line) != 0 || len(p.open) != 0 {
					t.Errorf("pieces of %d: the parser is at %+v after the last reply", size, p)
				}
			}
		})
	}
}

func TestRepliesBeyondTheLimitsAreRefused(t *testing.T) {
	for name, reply := range refused {
		t.Run(name, func(t *testing.T) {
			p := parser{limits: Manager()}
			if err := p.feed([]byte(reply)); !errors.Is(err, ErrRefused) {
				t.Errorf("error %v, want a refusal", err)
			}
		})
	}
}

// sends is a connection whose server sends the same text with each Read.
type sends struct {
	net.Conn
	text   string
	closed bool
}

func (s *sends) Read(p []byte) (int, error)  { return copy(p, s.text), nil }
func (s *sends) Write(p []byte) (int, error) { return len(p), nil }
func (s *sends) Close() error                { s.closed = true; return nil }

func TestALimitIsThatOfTheRepliesToOneWrite(t *testing.T) {
	server := &sends{text: strings.Repeat("*1\r\n+xxxxxx\r\n", 64)} // 64 times 13 bytes.
	for name, tc := range map[string]struct {
		limits  Limits
		refused bool
		writes  bool
	}{
		"within the limits":          {Limits{Bytes: 9 << 10, Elements: 640, Depth: 2}, false, false},
		"bytes without a write":      {Limits{Bytes: 8 << 10, Elements: 1 << 20, Depth: 2}, true, false},
		"elements without a write":   {Limits{Bytes: 1 << 20, Elements: 639, Depth: 2}, true, false},
		"a write before each answer": {Limits{Bytes: 1 << 10, Elements: 64, Depth: 2}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			server.closed = false
			conn := Bound(server, tc.limits)
			var err error
			for range 10 {
				if tc.writes {
					_, _ = conn.Write([]byte("*1\r\n$4\r\nPING\r\n"))
				}
				if _, err = conn.Read(make([]byte, 4<<10)); err != nil {
					break
				}
			}
			if errors.Is(err, ErrRefused) != tc.refused || server.closed != tc.refused {
				t.Errorf("error %v, closed %v", err, server.closed)
			}
		})
	}
}

func TestABudgetIsSharedByAllConnections(t *testing.T) {
	for name, reply := range map[string]string{
		"a string that is announced": "$600\r\n",
		"a string that arrives":      "+" + strings.Repeat("a", 600) + "\r\n",
		"elements":                   "*40\r\n", // Of 16 bytes each.
	} {
		limits := Manager()
		limits.Budget = NewBudget(700)
		one, other := parser{limits: limits}, parser{limits: limits}
		if err := one.feed([]byte(reply)); err != nil {
			t.Errorf("%s: the first connection: %v", name, err)
		}
		if err := other.feed([]byte(reply)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: the second connection: error %v, want a refusal", name, err)
		}
		limits.Budget.Add(10 << 10)
		more := parser{limits: limits}
		if err := more.feed([]byte(reply)); err != nil {
			t.Errorf("%s: a connection that was added to the budget: %v", name, err)
		}
	}
}

func FuzzReplies(f *testing.F) {
	for _, replies := range []map[string]string{valid, refused} {
		for _, reply := range replies {
			if len(reply) < 1<<10 {
				f.Add([]byte(reply), 3)
			}
		}
	}
	f.Fuzz(func(t *testing.T, reply []byte, size int) {
		size = max(1, size)
		whole, pieces := parser{limits: Manager()}, parser{limits: Manager()}
		want := whole.feed(reply)
		for i := 0; i < len(reply); {
			end := i + min(size, len(reply)-i)
			_ = pieces.feed(reply[i:end]) // It is kept.
			i = end
		}
		if (want == nil) != (pieces.err == nil) {
			t.Errorf("error %v of the whole, %v of pieces of %d", want, pieces.err, size)
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	reply := []byte("$65536\r\n" + strings.Repeat("x", 65536) + "\r\n" + strings.Repeat("*2\r\n+a\r\n:12\r\n", 100))
	b.SetBytes(int64(len(reply)))
	for b.Loop() {
		p := parser{limits: Manager()}
		if err := p.feed(reply); err != nil {
			b.Fatal(err)
		}
	}
}
