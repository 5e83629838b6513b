package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// options are the flags of the manager.
type options struct {
	namespaces     string
	metricsAddr    string
	healthAddr     string
	leaderElect    bool
	leaseNamespace string
	concurrency    int
	domain         string
	agentImage     string
	registry       string
	authorize      bool
	version        bool
	dial           string
	pprofAddr      string
	maxClockSkew   time.Duration
	zap            zap.Options
}

// parse reads the flags. WATCH_NAMESPACE, AGENT_IMAGE, IMAGE_REGISTRY and CLUSTER_DOMAIN set defaults where a flag is awkward.
func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("manager", flag.ContinueOnError)
	fs.StringVar(&o.namespaces, "watch-namespaces", os.Getenv("WATCH_NAMESPACE"),
		"comma-separated namespaces to work in; empty: all (environment: WATCH_NAMESPACE)")
	fs.StringVar(&o.metricsAddr, "metrics-bind-address", ":8443",
		"address that serves metrics over HTTPS to authorized clients; 0: none")
	fs.StringVar(&o.healthAddr, "health-probe-bind-address", ":8081", "address that serves /healthz and /readyz")
	fs.BoolVar(&o.leaderElect, "leader-elect", true, "let only one of several managers work at a time")
	fs.StringVar(&o.leaseNamespace, "leader-election-namespace", "",
		"namespace of the lease that the working manager holds; empty: the one that the manager's pod runs in")
	fs.IntVar(&o.concurrency, "max-concurrent-reconciles", reconcile.DefaultConcurrency, "resources of a kind worked on at the same time")
	fs.StringVar(&o.domain, "cluster-domain", os.Getenv("CLUSTER_DOMAIN"),
		"DNS domain of the cluster; empty: read from /etc/resolv.conf, else cluster.local (environment: CLUSTER_DOMAIN)")
	fs.StringVar(&o.agentImage, "agent-image", os.Getenv("AGENT_IMAGE"),
		"this operator's own image, which start gates run from (environment: AGENT_IMAGE)")
	fs.StringVar(&o.registry, "image-registry", os.Getenv("IMAGE_REGISTRY"),
		"registry, with a path or without, that holds copies of the data stores' images; empty: the public ones (environment: IMAGE_REGISTRY)")
	fs.BoolVar(&o.authorize, "metrics-authorization", true,
		"serve metrics only to those that the API server lets read them, which takes cluster-wide rights; false: to whoever reaches the port")
	fs.BoolVar(&o.version, "version", false, "print the version and stop")
	fs.StringVar(&o.dial, "dial", "direct",
		"how to reach pods: direct, or port-forward through the API server when the manager runs outside of the cluster")
	fs.StringVar(&o.pprofAddr, "pprof-bind-address", "0",
		"address that serves profiles of the manager to whoever reaches it, which is best 127.0.0.1:<port>; 0: none")
	fs.DurationVar(&o.maxClockSkew, "max-clock-skew", time.Minute,
		"how far the clocks of this machine and of the API server may be apart when the manager starts, and while it runs its own from both; 0: as far as they like")
	o.zap.BindFlags(fs)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.version {
		return o, nil
	}
	if o.agentImage == "" {
		return o, fmt.Errorf("--agent-image is empty: set it, or AGENT_IMAGE, to the image that this manager runs from")
	}
	if o.maxClockSkew < 0 {
		return o, fmt.Errorf("--max-clock-skew=%s: choose 0 or more", o.maxClockSkew)
	}
	if o.domain == "" {
		o.domain = clusterDomain("/etc/resolv.conf")
	}
	return o, nil
}

// watched returns the namespaces to work in, none for all.
func (o options) watched() []string {
	return strings.FieldsFunc(o.namespaces, func(r rune) bool { return r == ',' || r == ' ' })
}

func (o options) dialFunc(cfg *rest.Config) (owned.DialFunc, error) {
	switch o.dial {
	case "direct":
		return owned.DialDirect, nil
	case "port-forward":
		return owned.DialThroughAPI(cfg)
	}
	return nil, fmt.Errorf("--dial=%s: choose direct or port-forward", o.dial)
}

// clusterDomain finds the cluster's DNS domain in the search list that kubelet writes: <namespace>.svc.<domain>.
func clusterDomain(resolvConf string) string {
	const fallback = "cluster.local"
	f, err := os.Open(resolvConf) //nolint:gosec // The path is a constant outside of tests.
	if err != nil {
		return fallback
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, name := range fields[1:] {
			if domain, ok := strings.CutPrefix(name, "svc."); ok {
				return domain
			}
		}
	}
	return fallback
}

// registerer is where metrics go to, nil when none are served.
func (o options) registerer() prometheus.Registerer {
	if o.metricsAddr == "0" {
		return nil
	}
	return ctrlmetrics.Registry
}
