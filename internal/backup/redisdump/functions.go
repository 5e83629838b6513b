package redisdump

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// library loads functions into every server. Every shard has all of them, so that each comes as often as there are RDBs.
func (p *part) library(code []byte) error {
	l := p.loader
	sum := sha256.Sum256(code)
	l.mu.Lock()
	known := l.libraries[sum]
	l.libraries[sum] = true
	l.mu.Unlock()
	if known {
		return nil
	}
	var fresh atomic.Bool
	err := l.to.primaries(l.ctx, func(ctx context.Context, c *goredis.Client) error {
		added, err := l.loadLibrary(ctx, c, string(code))
		if added {
			fresh.Store(true)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("load a library of functions: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if fresh.Load() {
		l.summary.Functions++
	} else {
		l.summary.FunctionsPresent++
	}
	return nil
}

// loadLibrary loads functions into one server, unless it has a library of that name.
func (l *loader) loadLibrary(ctx context.Context, c *goredis.Client, code string) (added bool, err error) {
	begun := l.options.Now()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		answer := c.FunctionLoad(ctx, code).Err()
		if answer != nil && strings.Contains(answer.Error(), "already exists") {
			return false, nil
		}
		v, why := judge(answer)
		switch {
		case v == taken:
			return true, nil
		case v != retry:
			return false, why
		case l.options.Now().Sub(begun) > l.options.Patience:
			return false, fmt.Errorf("%w: the last answer was %w", ErrNoProgress, answer)
		}
		if err := pause(ctx, wait); err != nil {
			return false, err
		}
	}
}

// SoftwareOf asks a server what it runs.
func SoftwareOf(ctx context.Context, c goredis.Cmdable) (Software, error) {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return Software{}, fmt.Errorf("ask a server for its version: %w", err)
	}
	s := Software{Engine: EngineRedis}
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		key, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		switch {
		case key == "redis_version" && s.Engine == EngineRedis: // Valkey tells one, too, which it is compatible with.
			s.Version = value
		case key == "valkey_version":
			s = Software{Engine: EngineValkey, Version: value}
		}
	}
	return s, nil
}
