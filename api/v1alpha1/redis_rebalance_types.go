package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RebalanceBy is what makes slots weigh.
// +kubebuilder:validation:Enum=Slots;Memory;Load
type RebalanceBy string

// Kinds of weights.
const (
	RebalanceBySlots  RebalanceBy = "Slots"
	RebalanceByMemory RebalanceBy = "Memory"
	RebalanceByLoad   RebalanceBy = "Load"
)

// RebalanceMode says who decides that slots move because of their weights.
// +kubebuilder:validation:Enum=Propose;Automatic
type RebalanceMode string

// Modes of rebalancing.
const (
	RebalancePropose   RebalanceMode = "Propose"
	RebalanceAutomatic RebalanceMode = "Automatic"
)

// RedisRebalanceSpec says by what slots are divided among shards, and who decides on it.
type RedisRebalanceSpec struct {
	// by is what makes a slot weigh. Slots: nothing, every shard owns the same
	// number of slots at any time. Memory: the bytes that its keys take, which is
	// estimated where the server does not tell it: the keys of the slot times what
	// a key takes on that server on average. Load: the CPU time that commands for
	// it take, which redis 8.2 and later and valkey tell. With Memory and Load a
	// shard that is new gets a quarter of an even share of the slots at once, and
	// the rest by a proposal. Default: Slots.
	// +optional
	// +default="Slots"
	By *RebalanceBy `json:"by,omitempty"`
	// mode says who decides. Propose: the status says what would move and what
	// that would change, and it happens when the cluster is annotated with
	// quorate.dev/rebalance and the name of the proposal. Automatic: it happens
	// ten minutes after it was proposed. Default: Propose.
	// +optional
	// +default="Propose"
	Mode *RebalanceMode `json:"mode,omitempty"`
	// threshold is by how many percent the heaviest shard may be above the mean of
	// all, from 5 to 400. Default: 20.
	// +optional
	// +default=20
	// +kubebuilder:validation:XValidation:rule=`self >= 5 && self <= 400`,message="spec.rebalance.threshold must be from 5 to 400 percent"
	Threshold *int32 `json:"threshold,omitempty"`
	// coolDown is how long to wait with mode Automatic after the last rebalance, or
	// after the operator has started, from 1m to 720h. Default: 1h.
	// +optional
	// +default="1h"
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]{1,6}(s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('720h')`,message="spec.rebalance.coolDown must be a duration from 1m to 720h, for example 1h"
	CoolDown *metav1.Duration `json:"coolDown,omitempty"`
}

// RedisRebalancingStatus is what would make shards weigh alike. Its figures are those of the time when it was found.
type RedisRebalancingStatus struct {
	// proposal is its name, for the annotation quorate.dev/rebalance. Absent when
	// no move of slots helps.
	// +optional
	Proposal string `json:"proposal,omitempty"`
	// slots that would move.
	// +optional
	Slots int32 `json:"slots,omitempty"`
	// bytes that would move with them, estimated.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// shards and what they weigh, in percent of the mean.
	// +optional
	// +listType=map
	// +listMapKey=name
	Shards []RedisShardWeight `json:"shards,omitempty"`
	// hotSlot is one that alone is too heavy for any shard. Only a change of its
	// keys helps.
	// +optional
	HotSlot *RedisHotSlot `json:"hotSlot,omitempty"`
}

// RedisShardWeight is what one shard weighs.
type RedisShardWeight struct {
	// name of the shard's StatefulSet.
	Name string `json:"name"`
	// now in percent of the mean of all shards.
	Now int32 `json:"now"`
	// after the proposal has been carried out, likewise.
	After int32 `json:"after"`
}

// RedisHotSlot is a slot that outweighs others by far.
type RedisHotSlot struct {
	// slot is its number.
	Slot int32 `json:"slot"`
	// percent of the weight of all slots.
	Percent int32 `json:"percent"`
}
