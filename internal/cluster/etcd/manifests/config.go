package manifests

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// ConfigData returns everything that belongs into the ConfigMap of a cluster: the record, and for every version that there are
// pods of the configuration of every member.
func (b Builder) ConfigData(r model.Record) (map[string]string, error) {
	data := r.Data()
	for _, v := range slices.Concat(b.InUse, []model.Version{r.Version}) {
		common, err := config.Common(b.Cluster.Spec.Config, v, b.Target)
		if err != nil {
			return nil, err
		}
		l := b.Layout()
		l.Members, l.Version = r.Members, v
		for _, p := range r.Members {
			if data[config.MemberKey(p.Name, v)], err = config.MemberConfig(common, l, p); err != nil {
				return nil, err
			}
		}
	}
	return data, nil
}
