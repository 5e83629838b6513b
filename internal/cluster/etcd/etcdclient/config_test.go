package etcdclient_test

import (
	"context"
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
)

// odd are texts that YAML has other meanings for, and that the CRD lets in.
var odd = []string{
	"yes", "~", "0x1F", "1_000", "1e3", "- a", "a: b", "*a", "@a", "%a", "  a  ", "=", "-", "1:30", "2001-01-01", "a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b",
}

// FuzzConfig of internal/cluster/etcd holds the file against what was asked for; that etcd itself starts with it is left to show.
func TestEtcdStartsWithTextThatYAMLHasOtherMeaningsFor(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		prefix := ""
		if version < "3.6" {
			prefix = "experimental-"
		}
		for i := 0; i < len(odd); i += 5 {
			at := func(n int) v1alpha1.ConfigValue { return v1alpha1.ConfigValue(odd[(i+n)%len(odd)]) }
			c := newTestCluster(t, version, binary, 1, v1alpha1.TLSDisabled, &v1alpha1.EtcdConfig{Extra: map[string]v1alpha1.ConfigValue{
				prefix + "distributed-tracing-address": at(0), prefix + "distributed-tracing-service-name": at(2), prefix + "distributed-tracing-instance-id": at(4),
			}})
			c.start(asNew, c.members...)
			eventually(t, "etcd to answer", func(ctx context.Context) error {
				_, err := c.as("operator", "secret", c.members[0]).Status(ctx)
				return err
			})
			c.kill(c.members[0])
		}
	}
}
