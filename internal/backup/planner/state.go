package planner

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
)

// State is what was observed of a backup.
type State struct {
	Now time.Time
	// Name of the resource, Cluster that it is of.
	Name string
	// Deleting says that the resource is being deleted, Protected that it stays until its finalizer is gone, and Deletes that the
	// stored data goes with it.
	Deleting, Protected, Deletes bool
	// Verifies says that the backup is to be checked as soon as it is complete.
	Verifies bool
	// Vanishing says that the claim which holds the stored data is gone or going. It is asked for while the resource is being deleted.
	Vanishing bool
	// Source is the cluster, nil when there is none of that name.
	Source *Source
	// Stored is the complete backup, nil while there is none.
	Stored *job.Stored
	// Checked is what the last successful check found out, nil when there was none.
	Checked *job.Checked
	// Unverified says why the last check did not pass, nil when it did or there was none. The Job of that check may be gone.
	Unverified *job.Problem
	// Failed says why there never will be one, nil when there may.
	Failed *job.Problem
	// Readers are the clusters that are being restored from it.
	Readers []string
	// Take, Check and Remove are the Jobs, nil where there is none.
	Take, Check, Remove *Job
}

// Source is the cluster that is backed up.
type Source struct {
	// Noun is its kind and name for people.
	Noun string
	// Leaving says that it is being deleted.
	Leaving bool
	// Missing says what keeps it from being backed up, empty when nothing does.
	Missing string
	// Asleep says that it is hibernated: nobody changes its data, and nothing is due of it.
	Asleep bool
	// History tells apart what its data goes back to, where that can change.
	History string
}

// Job is what Kubernetes says of a Job.
type Job struct {
	Name, Namespace, UID string
	// For tells apart what Jobs of the name were made for.
	For string
	// Leaving says that it is being deleted.
	Leaving bool
	// Suspended says that it does nothing before somebody lets it.
	Suspended bool
	// Ended says that it will not do any more, Failed that it did not succeed.
	Ended, Failed bool
	// Held says that only its agent has ended: another container keeps its pod running. Kubernetes would fail such a Job when its time is up. Again
	// says that it failed, and would have been tried again if the pod had ended.
	Held, Again bool
	// Since is when it ended, or began.
	Since time.Time
	// Report is what its last attempt said at its end, nil when it said nothing.
	Report *job.Report
	// Starved says that its last attempt was killed because it needed more memory than its limit.
	Starved bool
	// Trouble is what keeps its pod from running, or what the attempt before said.
	Trouble string
	// Unpulled is the image that its pod lacks, empty when it does not lack any, and Waiting since when the pod waits.
	Unpulled string
	Waiting  time.Time
	// Podless says that it never had a pod.
	Podless bool
	// Flow is how far it is, nil when that is not known.
	Flow *job.Flow
}

// Reasons of conditions and events.
const (
	ReasonClusterMissing = "ClusterMissing"
	ReasonWaiting        = "WaitingForCluster"
	ReasonTaking         = "TakingBackup"
	ReasonComplete       = "BackupComplete"
	ReasonVerifying      = "VerifyingBackup"
	ReasonVerified       = "BackupVerified"
	ReasonNotVerified    = "NotVerified"
	ReasonVerifyFailed   = "VerificationFailed"
	ReasonDeleting       = "DeletingBackup"
	ReasonNotDeleted     = "BackupNotDeleted"
	ReasonInUse          = "BackupInUse"
	ReasonStopping       = "StoppingJob"
	ReasonImage          = "ImageNotPulled"
)

// Take makes the Job that takes the backup. It is suspended, see Resume.
type Take struct{}

// Resume lets that Job run, if the data of the cluster is not being replaced. Who replaces that data writes so down first and looks for such
// Jobs then, and here it is the other way round: one of the two sees the other, whatever they do at the same time.
type Resume struct{ Name, UID string }

// Check starts the Job that checks it.
type Check struct{ Stored job.Stored }

// Remove starts the Job that deletes the stored data.
type Remove struct{}

// DropJob deletes a Job together with its pods.
type DropJob struct{ Name, UID string }

// Protect adds the finalizer, so that the resource stays until its data is deleted.
type Protect struct{}

// Release removes the finalizer, and with it the resource.
type Release struct{}

func (Take) String() string      { return "start the Job that takes the backup" }
func (s Resume) String() string  { return fmt.Sprintf("let Job %s run", s.Name) }
func (Check) String() string     { return "start the Job that checks the backup" }
func (Remove) String() string    { return "start the Job that deletes the stored data" }
func (s DropJob) String() string { return fmt.Sprintf("delete Job %s", s.Name) }
func (Protect) String() string   { return "add the finalizer" }
func (Release) String() string   { return "remove the finalizer" }

var _ = []cluster.Step{Take{}, Resume{}, Check{}, Remove{}, DropJob{}, Protect{}, Release{}}
