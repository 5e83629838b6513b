package manifests

import (
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// MemberArgs name the members to the agent.
func (b Builder) MemberArgs() []string {
	var args []string
	for _, p := range b.Record.Members {
		scheme, _, _ := strings.Cut(p.URL, ":")
		args = append(args, "--member="+model.ClientURL(scheme, cluster.PodHost(p.Name, b.Cluster.Name, b.Cluster.Namespace, b.Domain)))
	}
	return args
}

// NeedsPassword reports whether a Job has no certificate that makes it root.
func (b Builder) NeedsPassword() bool {
	return b.SigningSum != "" && (!b.Reach().Secure || !b.Cluster.Spec.TLS.Issued())
}
