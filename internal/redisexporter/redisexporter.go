// Package redisexporter tells what the servers of one Redis or Valkey cluster say of themselves, through
// github.com/oliver006/redis_exporter. It goes by a connection Secret, which names the servers and says how to reach them, and reads it
// anew at every scrape: what changes there needs no restart.
package redisexporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oliver006/redis_exporter/exporter"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// timeout bounds what is asked of one server. All are asked at the same time.
const timeout = 5 * time.Second

// server is one server of the cluster.
type server struct{ namespace, pod, addr string }

// connection is how to reach the servers.
type connection struct {
	username, password string
	// ca is the file with the authority of their certificates, empty without TLS.
	ca      string
	servers []server
}

// Handler answers scrapes with the metrics of all servers that the connection Secret in a directory names, each with the labels
// namespace and pod. Why a server could not be read is logged.
func Handler(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reg, err := registry(dir)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		promhttp.HandlerFor(bounded(r.Context(), reg), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
	})
}

// registry asks the servers when it gathers.
func registry(dir string) (*prometheus.Registry, error) {
	c, err := read(dir)
	if err != nil {
		return nil, err
	}
	scheme := "redis://"
	if c.ca != "" {
		scheme = "rediss://"
	}
	reg := prometheus.NewRegistry()
	for _, s := range c.servers {
		e, err := exporter.NewRedisExporter(scheme+s.addr, exporter.Options{
			Namespace: "redis", User: c.username, Password: c.password, CaCertFile: c.ca, ConnectionTimeouts: timeout,
			ConfigCommandName:              "-", // The configuration holds passwords, and the user may not read it.
			ExcludeLatencyHistogramMetrics: true, RedisMetricsOnly: true,
		})
		if err != nil {
			return nil, fmt.Errorf("read metrics of %s: %w", s.pod, err)
		}
		labels := prometheus.Labels{"namespace": s.namespace, "pod": s.pod}
		if err := prometheus.WrapRegistererWith(labels, reg).Register(told{e}); err != nil {
			return nil, fmt.Errorf("read metrics of %s: %w", s.pod, err)
		}
	}
	return reg, nil
}

// errorMetric has the text of the last error as a label.
const errorMetric = "redis_exporter_last_scrape_error"

// bounded leaves the text of errors out of the metrics and logs it: it has the port of each connection, and would be a new series every
// time. That a server could not be read is told by redis_up.
func bounded(ctx context.Context, from prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := from.Gather()
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
			if f.GetName() != errorMetric {
				return false
			}
			for _, m := range f.GetMetric() {
				if m.GetGauge().GetValue() != 0 {
					var attrs []slog.Attr
					for _, l := range m.GetLabel() {
						attrs = append(attrs, slog.String(l.GetName(), l.GetValue()))
					}
					slog.LogAttrs(ctx, slog.LevelWarn, "a server could not be read", attrs...)
				}
			}
			return true
		}), err
	})
}

// told is an exporter whose metrics are told as they come: which there are depends on the version of the server.
type told struct{ prometheus.Collector }

// Describe tells nothing.
func (told) Describe(chan<- *prometheus.Desc) {}

// read reads a connection Secret.
func read(dir string) (connection, error) {
	var c connection
	values := map[string]string{}
	for _, key := range []string{"username", "password", "nodes", "ca.crt"} {
		raw, err := os.ReadFile(filepath.Join(dir, key)) //nolint:gosec // Whoever starts the program says where the Secret is.
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return c, fmt.Errorf("read the connection Secret: %w", err)
		}
		values[key] = string(raw)
	}
	c.username, c.password = values["username"], values["password"]
	if values["ca.crt"] != "" {
		c.ca = filepath.Join(dir, "ca.crt")
	}
	for _, addr := range strings.FieldsFunc(values["nodes"], func(r rune) bool { return r == ',' }) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return c, fmt.Errorf("read the connection Secret: nodes: %w", err)
		}
		// pod.service.namespace.svc
		parts := append(strings.Split(host, "."), "", "")
		c.servers = append(c.servers, server{pod: parts[0], namespace: parts[2], addr: addr})
	}
	if len(c.servers) == 0 {
		return c, fmt.Errorf("read the connection Secret: %s has no key nodes, which names the servers: mount the Secret of a RedisUser there", dir)
	}
	return c, nil
}
