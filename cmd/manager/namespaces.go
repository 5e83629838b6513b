package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/goroutine"
)

const (
	// namespacesPoll is how often namespaces that may not be read are asked for again.
	namespacesPoll = 10 * time.Second
	// namespacesTimeout bounds one look at all of them.
	namespacesTimeout = 5 * time.Second
)

// lister asks the API server for the clusters in a namespace.
type lister func(ctx context.Context, namespace string) error

// barred is a namespace that may not be read, and the answer that said so.
type barred struct {
	namespace string
	answer    error
}

// admitted returns the namespaces to work in: those of the options that may be read, and none where it is all. One that is gone, or has no Role any more,
// would keep the cache from ever being complete, and the manager from working in the others. It ends, and begins anew, when it may read one that it left out.
func admitted(ctx context.Context, cfg *rest.Config, o options, stop context.CancelCauseFunc) ([]string, error) {
	watched := o.watched()
	if len(watched) == 0 {
		return nil, nil
	}
	list, err := clusterLister(cfg)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	again := time.Tick(namespacesPoll)
	open, shut := choose(ctx, watched, list)
	for _, b := range shut {
		ctrl.Log.Error(b.answer, "a namespace is left out, because the manager may not list the clusters in it: make the Role and the RoleBinding there, "+
			"or take it out of the namespaces to work in (--watch-namespaces, with Helm watchNamespaces)", "namespace", b.namespace)
	}
	if len(open) == 0 {
		ctrl.Log.Info("waiting for a namespace that may be read: there is none")
		if open, shut, err = wait(ctx, o.healthAddr, watched, list, again); err != nil {
			return nil, err
		}
	}
	if len(shut) > 0 {
		goroutine.Go(func() error { return reopen(ctx, shut, list, again) }, func(err error) { stop(err) })
	}
	return open, nil
}

// choose tells the namespaces that may be read from those that may not. One that did not say stays: the cache asks again.
func choose(ctx context.Context, watched []string, list lister) (open []string, shut []barred) {
	soon, cancel := context.WithTimeout(ctx, namespacesTimeout)
	defer cancel()
	for _, n := range watched {
		if err := list(soon, n); apierrors.IsForbidden(err) {
			shut = append(shut, barred{n, err})
			continue
		}
		open = append(open, n)
	}
	return open, shut
}

// wait waits until one of the namespaces may be read, and answers for the manager meanwhile. Without an error it never returns none, which would mean all.
func wait(ctx context.Context, healthAddr string, watched []string, list lister, again <-chan time.Time) ([]string, []barred, error) {
	hush, err := alive(ctx, healthAddr)
	if err != nil {
		return nil, nil, err
	}
	defer hush()
	for {
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-again:
		}
		if open, shut := choose(ctx, watched, list); len(open) > 0 {
			return open, shut, nil
		}
	}
}

// reopen returns the error that ends the manager when one of the namespaces that it left out may be
// read, nil when ctx ends first. A failed call changes nothing.
func reopen(ctx context.Context, shut []barred, list lister, again <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		}
		for _, b := range shut {
			soon, cancel := context.WithTimeout(ctx, namespacesTimeout)
			err := list(soon, b.namespace)
			cancel()
			if err == nil {
				return fmt.Errorf("namespace %s, which was left out, may be read now: this manager begins anew to work in it as well", b.namespace)
			}
		}
	}
}

// clusterLister lists EtcdClusters, as the cache will.
func clusterLister(cfg *rest.Config) (lister, error) {
	c, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	clusters := c.Resource(v1alpha1.GroupVersion.WithResource("etcdclusters"))
	return func(ctx context.Context, namespace string) error {
		_, err := clusters.Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	}, nil
}

// alive says at the address of the probes that the manager lives and is not ready: to restart it would not help. The manager takes the place when it ends.
func alive(ctx context.Context, addr string) (hush func(), err error) {
	if addr == "" || addr == "0" {
		return func() {}, nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("answer probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: namespacesTimeout}
	goroutine.Go(func() error { return server.Serve(listener) }, func(error) {}) // It always ends with an error: it was closed.
	return func() { _ = server.Close() }, nil
}
