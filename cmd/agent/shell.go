package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/quorate/quorate/internal/connection"
)

// shellOptions say which client is started, and for what.
type shellOptions struct {
	// client is etcdctl, redis-cli or valkey-cli.
	client string
	// dir has the connection Secret. host takes the place of the one that it names.
	dir, host string
	// sharded says that the client is to follow redirections.
	sharded bool
}

// runShell starts the data store's own client with what a connection Secret says. Credentials reach it as files and in its environment, never
// as arguments: those are for all to see. Without arguments, etcdctl is started again for each line of the input, because it has no prompt.
func runShell(_ context.Context, args []string) error {
	var o shellOptions
	fs := flag.NewFlagSet("shell", flag.ContinueOnError)
	fs.StringVar(&o.client, "client", "", "etcdctl, redis-cli or valkey-cli")
	fs.StringVar(&o.dir, "secret-dir", "/connection", "directory that the connection Secret is mounted at")
	fs.StringVar(&o.host, "host", "", "server to connect to; default: the one that the Secret names")
	fs.BoolVar(&o.sharded, "sharded", false, "follow redirections to other shards")
	if err := fs.Parse(args); err != nil {
		return err
	}
	conn, err := connection.Read(o.dir)
	if err != nil {
		return err
	}
	if o.host != "" {
		conn.Host = o.host
	}
	switch o.client {
	case "etcdctl":
		env := append(os.Environ(), etcdEnv(conn, o.dir)...)
		if fs.NArg() > 0 {
			return become(o.client, fs.Args(), env)
		}
		prompt := ""
		if term.IsTerminal(int(os.Stdin.Fd())) {
			prompt = "etcdctl> "
		}
		return eachLine(os.Stdin, os.Stdout, prompt, func(args []string) error {
			cmd := exec.Command(o.client, args...) //nolint:gosec,noctx // The person types it. A signal is for the client, and not for its end.
			cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
			return cmd.Run()
		})
	case "redis-cli", "valkey-cli":
		env := os.Environ()
		if conn.Password != "" {
			env = append(env, "REDISCLI_AUTH="+conn.Password)
		}
		return become(o.client, append(redisArgs(conn, o), fs.Args()...), env)
	}
	return fmt.Errorf("--client=%s: use etcdctl, redis-cli or valkey-cli", o.client)
}

// become runs a program in the place of this one, which is not needed any more.
func become(name string, args, env []string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("the image has no %s: use one of the data store's own, or one that is made from it: %w", name, err)
	}
	if err := syscall.Exec(path, append([]string{name}, args...), env); err != nil { //nolint:gosec // The person types it.
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

// etcdEnv is what etcdctl reads instead of arguments.
// https://etcd.io/docs/v3.6/op-guide/authentication/rbac/#using-etcdctl-to-authenticate
func etcdEnv(c connection.Connection, dir string) []string {
	env := []string{"ETCDCTL_ENDPOINTS=" + c.Scheme("https") + "://" + c.Addr()}
	if c.Username != "" {
		env = append(env, "ETCDCTL_USER="+c.Username, "ETCDCTL_PASSWORD="+c.Password)
	}
	if c.TLS != nil {
		env = append(env, "ETCDCTL_CACERT="+filepath.Join(dir, connection.KeyCA))
		if len(c.TLS.Certificates) > 0 {
			env = append(env, "ETCDCTL_CERT="+filepath.Join(dir, connection.KeyCert), "ETCDCTL_KEY="+filepath.Join(dir, connection.KeyKey))
		}
	}
	return env
}

// redisArgs are the arguments of redis-cli. The password is not among them.
func redisArgs(c connection.Connection, o shellOptions) []string {
	args := []string{"-h", c.Host, "-p", c.Port}
	if o.sharded {
		args = append(args, "-c")
	}
	if c.Username != "" && c.Username != "default" {
		args = append(args, "--user", c.Username)
	}
	if c.TLS != nil {
		args = append(args, "--tls", "--cacert", filepath.Join(o.dir, connection.KeyCA))
		if len(c.TLS.Certificates) > 0 {
			args = append(args, "--cert", filepath.Join(o.dir, connection.KeyCert), "--key", filepath.Join(o.dir, connection.KeyKey))
		}
	}
	return args
}

// eachLine runs a command for every line of the input until its end, or exit.
func eachLine(in io.Reader, out io.Writer, prompt string, run func(args []string) error) error {
	// One byte at a time: what follows the line may be for the command.
	lines := bufio.NewReaderSize(oneByte{in}, 16)
	for {
		if _, err := io.WriteString(out, prompt); err != nil {
			return fmt.Errorf("write the prompt: %w", err)
		}
		line, err := lines.ReadString('\n')
		args, unfinished := splitWords(line)
		switch {
		case unfinished:
			_, _ = fmt.Fprintln(out, "a quotation mark has no other one: close it on the same line")
		case len(args) == 0:
		case args[0] == "exit" || args[0] == "quit":
			return nil
		default:
			if args[0] == "etcdctl" {
				args = args[1:]
			}
			if err := run(args); err != nil && !errors.As(err, new(*exec.ExitError)) { // It has said itself what is wrong.
				return fmt.Errorf("start the client: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a line: %w", err)
		}
	}
}

// oneByte reads no more than what is asked for next.
type oneByte struct{ io.Reader }

func (r oneByte) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return r.Reader.Read(p[:1])
}

// splitWords splits a line at blanks, but not between quotation marks or behind a backslash. unfinished says that one is not closed.
func splitWords(line string) (words []string, unfinished bool) {
	var s splitter
	for _, r := range strings.TrimRight(line, "\r\n") {
		s.read(r)
	}
	s.end()
	return s.words, s.quote != 0 || s.escaped
}

// splitter is a line that is being split.
type splitter struct {
	words []string
	word  strings.Builder
	// begun says that there is a word, which may be empty. quote is the mark that it is in, 0 for none.
	begun, escaped bool
	quote          rune
}

func (s *splitter) read(r rune) {
	switch {
	case s.escaped:
		s.word.WriteRune(r)
		s.escaped = false
	case r == '\\' && s.quote != '\'':
		s.escaped, s.begun = true, true
	case s.quote != 0 && r == s.quote:
		s.quote = 0
	case s.quote == 0 && (r == '"' || r == '\''):
		s.quote, s.begun = r, true
	case s.quote == 0 && (r == ' ' || r == '\t'):
		s.end()
	default:
		s.word.WriteRune(r)
		s.begun = true
	}
}

// end ends a word.
func (s *splitter) end() {
	if s.begun {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.begun = false
}
