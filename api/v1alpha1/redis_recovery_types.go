package v1alpha1

// LostShardPolicy says what becomes of the slots of a shard of which no copy is left.
// +kubebuilder:validation:Enum=Hold;AssignEmpty
type LostShardPolicy string

// Policies for lost shards.
const (
	LostShardHold        LostShardPolicy = "Hold"
	LostShardAssignEmpty LostShardPolicy = "AssignEmpty"
)

// DeadPrimaryPolicy says what becomes of a primary whose process has ended, as far as that is about to be started again.
// +kubebuilder:validation:Enum=Wait;Replace
type DeadPrimaryPolicy string

// Policies for dead primaries.
const (
	DeadPrimaryWait    DeadPrimaryPolicy = "Wait"
	DeadPrimaryReplace DeadPrimaryPolicy = "Replace"
)

// RedisRecoverySpec says what may be done by itself about data that is lost, or may be.
type RedisRecoverySpec struct {
	// lostShard is what happens when the last copy of a shard is gone. Hold: its
	// slots are out of service, and the others serve on, until a volume is back or
	// the cluster is annotated with quorate.dev/recover and the name of the
	// incident. AssignEmpty: its slots are served empty at once, which is what a
	// cache wants. Default: Hold.
	// +optional
	LostShard *LostShardPolicy `json:"lostShard,omitempty"`
	// deadPrimary is what happens with mode Sharded when the process of a primary
	// has ended and Kubernetes is about to start it again in its pod. Wait: it
	// comes back with all that it has acknowledged, and takes writes again two
	// seconds after its start, unless the others have elected a replica by then
	// (see config.nodeTimeout). Replace: a replica is elected at once, and what
	// the primary had acknowledged and not yet sent to it is lost: mostly less
	// than a millisecond of writes, and nothing that its replicas had confirmed
	// (WAIT). One that does not come back in a moment is replaced at once in either
	// case, and with mode Replicated always. Default: Wait.
	// +optional
	DeadPrimary *DeadPrimaryPolicy `json:"deadPrimary,omitempty"`
}
