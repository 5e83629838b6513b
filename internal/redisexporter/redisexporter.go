// Package redisexporter tells what the servers of one Redis or Valkey cluster say of themselves,
// through github.com/oliver006/redis_exporter. It goes by a connection Secret, which names the
// servers and says how to reach them, and reads it anew at every scrape: what changes there needs
// no restart. It must not write to a server.
package redisexporter

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oliver006/redis_exporter/exporter"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/quorate/quorate/internal/goroutine"
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
// namespace and pod.
func Handler(dir string) http.Handler { return handler(dir, os.Stderr) }

// handler writes to log why a server cannot be read.
func handler(dir string, log io.Writer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reg, err := registry(dir, log)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
	})
}

// registry asks the servers when it gathers.
func registry(dir string, log io.Writer) (*prometheus.Registry, error) {
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
		if err := prometheus.WrapRegistererWith(labels, reg).Register(told{e, s.pod, log}); err != nil {
			return nil, fmt.Errorf("read metrics of %s: %w", s.pod, err)
		}
	}
	return reg, nil
}

// told is an exporter whose metrics are told as they come: which there are depends on the version of the server.
type told struct {
	prometheus.Collector
	pod string
	log io.Writer
}

// Describe tells nothing.
func (told) Describe(chan<- *prometheus.Desc) {}

// unbounded is a metric whose label is the text of the last error, ports and addresses included: there would be a new series for each.
// That there was an error is told by redis_up; its text goes to the log.
const unbounded = `"redis_exporter_last_scrape_error"`

// Collect passes everything on except for what is unbounded, which it logs.
func (t told) Collect(out chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric)
	goroutine.Go(func() error {
		t.Collector.Collect(all)
		return nil
	}, func(err error) {
		if err != nil {
			all <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		}
		close(all)
	})
	for m := range all {
		if !strings.Contains(m.Desc().String(), unbounded) {
			out <- m
			continue
		}
		text := &dto.Metric{}
		if err := m.Write(text); err == nil && text.GetGauge().GetValue() > 0 && len(text.GetLabel()) == 1 {
			_, _ = fmt.Fprintf(t.log, "agent: the metrics of %s cannot be read: %s\n", t.pod, text.GetLabel()[0].GetValue())
		}
	}
}

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
