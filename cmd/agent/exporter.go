package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"

	"github.com/quorate/quorate/internal/redisexporter"
)

// runExporter serves the metrics of the servers of a Redis cluster until it is stopped.
func runExporter(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("exporter", flag.ContinueOnError)
	dir := fs.String("connection", "/connection", "directory with the connection Secret of a RedisUser that may use INFO")
	listen := fs.String("listen", ":9121", "address that serves /metrics and /healthz")
	if err := fs.Parse(args); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", redisexporter.Handler(*dir))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
