package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Dump returns what a person would look at first when a test in a namespace failed.
func (c *Cluster) Dump(ctx context.Context, ns string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var b strings.Builder
	for _, args := range [][]string{
		{"get", "etcdclusters,etcdusers,redisclusters,redisusers,backups,backupschedules,restores,autoscalers", "-n", ns, "-o", "yaml"},
		{"get", "pods,statefulsets,pvc,services,pdb,secrets,configmaps", "-n", ns, "-o", "wide"},
		{"get", "events", "-n", ns, "--sort-by=.metadata.creationTimestamp"},
		{"get", "pods", "-n", SystemNamespace, "-o", "wide"},
		{"logs", "-n", SystemNamespace, "deployment/" + Manager, "--tail=150"},
	} {
		section(&b, "kubectl "+strings.Join(args, " "))
		out, err := c.Run(ctx, args...)
		writeOr(&b, out, err)
	}
	c.dumpLogs(ctx, &b, ns)
	return b.String()
}

// dumpLogs adds the end of every container's log, start gates included.
func (c *Cluster) dumpLogs(ctx context.Context, b *strings.Builder, ns string) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(ns)); err != nil {
		writeOr(b, "", err)
		return
	}
	for _, p := range pods.Items {
		for _, container := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			section(b, fmt.Sprintf("log of %s, container %s", p.Name, container.Name))
			out, err := c.Logs(ctx, ns, p.Name, container.Name, 25)
			writeOr(b, out, err)
		}
	}
}

func section(b *strings.Builder, title string) { fmt.Fprintf(b, "\n--- %s\n", title) }

func writeOr(b *strings.Builder, out string, err error) {
	if err != nil {
		out = "(" + err.Error() + ")"
	}
	b.WriteString(out + "\n")
}
