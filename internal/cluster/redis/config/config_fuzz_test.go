package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/redistest"
)

// fuzzSoftware is what servers run.
var fuzzSoftware = []struct {
	engine  v1alpha1.RedisEngine
	version string
}{
	{v1alpha1.EngineRedis, "7.0.15"}, {v1alpha1.EngineRedis, "8.0.2"}, {v1alpha1.EngineValkey, "8.1.1"}, {v1alpha1.EngineValkey, "9.1.2"},
}

// FuzzConfig holds the file that a server reads against what was asked for: that parameter and no other, with those words, and what belongs
// to the operator as it is without it. The password and the host name are not the user's, and must not become anything else either.
func FuzzConfig(f *testing.F) {
	for i, value := range redistest.Nasty {
		f.Add("client-output-buffer-limit", value, "secret", "host", uint8(i))
		f.Add("notify-keyspace-events", value, value, "host", uint8(i))
		f.Add("latency-tracking-info-percentiles", value, "secret", value, uint8(i+1))
		f.Add("hz", value, value, value, uint8(i+1))
		f.Add("hz", "10", value, "host", uint8(i)) // A password that nothing else refuses.
		f.Add(strings.Repeat("h", i%2)+"z", value+"10", "secret"+value, "h", uint8(i%4))
	}
	for _, key := range []string{
		"port", "Port", "PORT", " port", "port ", "port\t", "include", "user", "user default", "hz 10\nport", "\"port\"", "p\\x6frt", "aclfile", "tls-port", "Tls-Port", "#", "",
		"rename-command", "loadmodule", "maxmemory", "min-replicas-to-write", "replica-announce-ip", "slave-announce-ip", "masterauth", "masteruser",
	} {
		for i := range fuzzSoftware {
			f.Add(key, "1", "secret", "host", uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, key, value, password, host string, software uint8) {
		s := fuzzSoftware[int(software)%len(fuzzSoftware)]
		c := redistest.Cluster(s.engine, s.version)
		before, err := lines(t, c, "secret", "host")
		if err != nil {
			t.Fatal(err)
		}
		c.Spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{key: v1alpha1.ConfigValue(value)}}
		if _, err := Config(&c.Spec); err != nil {
			var refusal cluster.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != v1alpha1.ReasonInvalidSpec {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		after, err := lines(t, c, password, host)
		if err != nil {
			if !strings.ContainsAny(password+host, "\n\r\x00") {
				t.Fatalf("the password %q or the host %q is refused: %v", password, host, err)
			}
			return
		}
		if again, err := lines(t, c, password, host); err != nil || !cmp.Equal(after, again) {
			t.Errorf("another time it is another file, %v", err)
		}
		want := withFacts(before, password, host)
		if key == model.WriteGuard { // It was taken before it had a field, and counts as that.
			want, after = withoutGuards(want), withoutGuards(after)
		} else {
			want = append(want, append([]string{key}, wordsOf(value)...))
		}
		if diff := cmp.Diff(sorted(want), sorted(after)); diff != "" {
			t.Errorf("%q: %q (-want +got):\n%s", key, value, diff)
		}
	})
}

// withFacts are directives with another password and host.
func withFacts(before [][]string, password, host string) [][]string {
	out := slices.Clone(before)
	for i, line := range before {
		switch {
		case line[0] == "masterauth":
			out[i] = []string{line[0], password}
		case slices.Contains(line[1:], "host"):
			out[i] = []string{line[0], host}
		}
	}
	return out
}

func wordsOf(value string) []string {
	if words := strings.Fields(value); len(words) > 0 {
		return words
	}
	return []string{""}
}

func withoutGuards(lines [][]string) [][]string {
	return slices.DeleteFunc(lines, func(words []string) bool { return strings.HasPrefix(words[0], "min-replicas-") })
}

func sorted(lines [][]string) [][]string {
	return slices.SortedFunc(slices.Values(lines), slices.Compare)
}

// lines are the directives that the server of a pod reads, as it does.
func lines(t *testing.T, c *v1alpha1.RedisCluster, password, host string) ([][]string, error) {
	t.Helper()
	common, err := Config(&c.Spec)
	if err != nil {
		return nil, err
	}
	text, err := PodConfig(common, PodFacts{
		Name: "carts-0-0", IP: "10.0.0.1", Host: host, Engine: string(c.Spec.ServerEngine()), Version: c.Spec.Version, ReplicationPassword: password,
	})
	if err != nil {
		return nil, err
	}
	var out [][]string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		words, ok := splitWords(line)
		if !ok || len(words) == 0 {
			t.Fatalf("a server would not start with the line %q", line)
		}
		words[0] = strings.ToLower(words[0])
		out = append(out, words)
	}
	return out, nil
}

// splitWords reads a line as sdssplitargs of the servers does: words between spaces, with quotes in two ways. A closing quote has to be
// followed by a space.
func splitWords(line string) (words []string, ok bool) {
	for {
		line = strings.TrimLeft(line, " \t\n\v\f\r\x00")
		if line == "" {
			return words, true
		}
		word, rest, ok := firstWord(line)
		if !ok {
			return nil, false
		}
		words, line = append(words, word), rest
	}
}

func firstWord(line string) (word, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case strings.IndexByte(" \n\r\t\x00", c) >= 0:
			return b.String(), line[i:], true
		case c == '"' || c == '\'':
			n, ok := quoted(line[i+1:], c, &b)
			if !ok {
				return "", "", false
			}
			return b.String(), line[i+1+n:], true
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", true
}

// quoted reads up to the closing quote, and returns how many bytes that were.
func quoted(text string, quote byte, b *strings.Builder) (n int, ok bool) {
	const hex = "0123456789abcdef"
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote:
			return i + 1, i+1 == len(text) || strings.IndexByte(" \t\n\v\f\r", text[i+1]) >= 0
		case c == '\\' && quote == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
			b.WriteByte('\'')
		case c == '\\' && quote == '"' && i+3 < len(text) && text[i+1] == 'x' && isHex(text[i+2]) && isHex(text[i+3]):
			high, low := strings.IndexByte(hex, text[i+2]|0x20), strings.IndexByte(hex, text[i+3]|0x20)
			b.WriteByte(byte(max(high, 0)<<4 | max(low, 0)))
			i += 3
		case c == '\\' && quote == '"' && i+1 < len(text):
			i++
			b.WriteByte(unescaped(text[i]))
		default:
			b.WriteByte(c)
		}
	}
	return 0, false
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

func unescaped(c byte) byte {
	if i := strings.IndexByte("nrtba", c); i >= 0 {
		return "\n\r\t\b\a"[i]
	}
	return c
}
