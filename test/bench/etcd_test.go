package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

// BenchmarkReadyEtcd compares an EtcdCluster of three members, from apply to Ready, with a bare Parallel StatefulSet of
// three members, from apply to all pods ready. The floor has neither TLS nor passwords.
func BenchmarkReadyEtcd(b *testing.B) {
	v := version(b, "ETCD_3_6")
	var p probes
	ours := side{"quorate", func(ctx context.Context, ns string) error {
		err := ready(ctx, &v1alpha1.EtcdCluster{
			ObjectMeta: meta(ns, "etcd"),
			Spec:       v1alpha1.EtcdClusterSpec{Size: 3, Version: v, Storage: storage()},
		})
		if err != nil || p.readiness != nil {
			return err
		}
		p, err = probesOf(ctx, ns, "etcd", "etcd") // In the warm-up only.
		return err
	}}
	floor := side{"floor", func(ctx context.Context, ns string) error {
		return apply(ctx, headless(ns, "etcd", 2380), bareSet(ns, "etcd", 3, bareEtcd(ns, v), p))
	}}
	compare(b, "EtcdCluster of three members, from apply to Ready", floor, ours)
}

func bareEtcd(ns, version string) corev1.Container {
	host := func(pod string) string { return fmt.Sprintf("http://%s.etcd.%s.svc.cluster.local", pod, ns) }
	var initial []string
	for i := range 3 {
		pod := fmt.Sprintf("etcd-%d", i)
		initial = append(initial, pod+"="+host(pod)+":2380")
	}
	return corev1.Container{
		Name: "etcd", Image: "quay.io/coreos/etcd:v" + version, Command: []string{"etcd"},
		Args: []string{
			"--name=$(POD_NAME)", "--data-dir=/data/etcd", "--initial-cluster-token=" + ns, "--initial-cluster-state=new",
			"--initial-cluster=" + strings.Join(initial, ","), "--initial-advertise-peer-urls=" + host("$(POD_NAME)") + ":2380",
			"--advertise-client-urls=" + host("$(POD_NAME)") + ":2379", "--listen-peer-urls=http://0.0.0.0:2380",
			"--listen-client-urls=http://0.0.0.0:2379", "--listen-metrics-urls=http://0.0.0.0:2381",
		},
	}
}
