// Command manager is the operator: it runs the controllers of all kinds of resources. It only
// wires: it must not decide anything about a resource.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quorate/quorate/controllers/kubecache"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers"
	"github.com/quorate/quorate/internal/goroutine"
	"github.com/quorate/quorate/internal/heap"
)

// version is set by the linker.
var version = "dev"

// lease is held by the one manager that works.
const lease = "manager.quorate.dev"

// patience passes before a manager says that it waits: one that is alone leads within moments.
const patience = 3 * time.Second

func main() {
	heap.Spare()
	err := run(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.version {
		fmt.Println(version)
		return nil
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.zap)))
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find a Kubernetes cluster: %w", err)
	}
	cfg.QPS = -1 // The API server shares out what it can bear, see its priority and fairness.
	ctx, stop := context.WithCancelCause(ctrl.SetupSignalHandler())
	now := follow(cfg, o.maxClockSkew, stop)
	if err := agree(ctx, cfg, now, o.maxClockSkew); err != nil {
		return err
	}
	dial, err := o.dialFunc(cfg)
	if err != nil {
		return err
	}
	namespaces, err := admitted(ctx, cfg, o, stop)
	if err != nil {
		return err
	}
	mgr, err := newManager(cfg, o, namespaces)
	if err != nil {
		return err
	}
	err = controllers.SetupAll(mgr, controllers.Options{
		Domain: o.domain, AgentImage: o.agentImage, Registry: o.registry, Concurrency: o.concurrency, Dial: dial, Clock: now,
		WatchNodes: len(o.watched()) == 0, // Nodes belong to no namespace.
		Version:    version, Registerer: o.registerer(),
	})
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version, "namespaces", namespaces, "domain", o.domain, "agentImage", o.agentImage)
	if o.leaderElect {
		late := time.After(patience)
		goroutine.Go(func() error {
			sayWaiting(ctrl.Log.Info, mgr.Elected(), late)
			return nil
		}, func(error) {})
	}
	if err := mgr.Start(ctx); err != nil {
		return err
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// sayWaiting tells why nothing happens while another manager works: this one does nothing until the lease is free.
func sayWaiting(say func(string, ...any), elected <-chan struct{}, late <-chan time.Time) {
	select {
	case <-elected:
	case <-late:
		say("waiting for another manager to stop: only the one that holds the lease works", "lease", lease)
	}
}

// newManager returns a manager with health checks and without controllers, which is not started yet.
func newManager(cfg *rest.Config, o options, namespaces []string) (manager.Manager, error) {
	mgrOptions, err := managerOptions(o, namespaces)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, mgrOptions)
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return nil, fmt.Errorf("set up health checks: %w", err)
	}
	return mgr, nil
}

// managerOptions sets up a manager that works in the given namespaces, none for all.
func managerOptions(o options, namespaces []string) (manager.Options, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return manager.Options{}, fmt.Errorf("build scheme: %w", err)
	}
	serve := metricsserver.Options{BindAddress: o.metricsAddr, SecureServing: true}
	if o.authorize {
		serve.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return manager.Options{
		Scheme:                        scheme,
		Cache:                         kubecache.Options(namespaces),
		Client:                        kubecache.ClientOptions(),
		Metrics:                       serve,
		HealthProbeBindAddress:        o.healthAddr,
		PprofBindAddress:              o.pprofAddr,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       o.leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
	}, nil
}
