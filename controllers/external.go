package controllers

import (
	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
)

// external is a cluster that the operator does not run, as the source of a Backup: whether it can be reached, only the Job finds out.
func external(spec v1alpha1.BackupSpec) (*plan.Source, *plan.Access) {
	access := &plan.Access{Streams: len(spec.External.Endpoints)}
	flag := "--member="
	if spec.Cluster.Kind == v1alpha1.KindRedisCluster {
		flag = "--external="
	}
	for _, endpoint := range spec.External.Endpoints {
		access.Args = append(access.Args, flag+endpoint)
	}
	if c := spec.External.Credentials; c != nil {
		access.TLSSecret, access.AuthSecret = c.Name, c.Name
	}
	return &plan.Source{Noun: "the external cluster " + spec.Cluster.Name}, access
}
