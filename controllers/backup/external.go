package backup

import (
	"context"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
)

// external is a cluster that the operator does not run, as what one Backup is taken of. One of ours that is called the same has nothing to do
// with it.
type external struct {
	SourceKind
	spec v1alpha1.BackupSpec
}

// Source says how a Job gets at it: whether it does, only the Job finds out.
func (e external) Source(context.Context, string, string) (*planner.Source, *job.Access, error) {
	access := &job.Access{Streams: len(e.spec.External.Endpoints)}
	flag := "--member="
	if e.spec.Cluster.Kind == v1alpha1.KindRedisCluster {
		flag = "--external="
	}
	for _, endpoint := range e.spec.External.Endpoints {
		access.Args = append(access.Args, flag+endpoint)
	}
	if c := e.spec.External.Credentials; c != nil {
		access.TLSSecret, access.AuthSecret = c.Name, c.Name
	}
	return &planner.Source{Noun: "the external cluster " + e.spec.Cluster.Name}, access, nil
}

// ServerImage is that of the version which wrote the data.
func (e external) ServerImage(ctx context.Context, namespace, _ string, of job.Stored) (string, error) {
	return e.SourceKind.ServerImage(ctx, namespace, "", of)
}

// Replaced says nothing: what becomes of others nobody here knows.
func (e external) Replaced(context.Context, *v1alpha1.Backup) (string, error) { return "", nil }
