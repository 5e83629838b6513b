package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// clusterView is what there is to see of a cluster. It is the output of -o json.
type clusterView struct {
	Kind      v1alpha1.ClusterKind `json:"kind"`
	Namespace string               `json:"namespace"`
	Name      string               `json:"name"`
	// Engine is etcd, redis or valkey. Version is the lowest that runs, Target the one that is asked for, absent where they are the same.
	Engine  string `json:"engine"`
	Version string `json:"version,omitempty"`
	Target  string `json:"target,omitempty"`
	// State sums the conditions up: Ready, Reconciling, Stalled, Paused, Hibernated, NotReady or Unknown.
	State string `json:"state"`
	// Ready is how many servers are ready out of how many are wanted, Slots how many have an owner.
	Ready    string `json:"ready,omitempty"`
	Slots    string `json:"slots,omitempty"`
	Activity string `json:"activity,omitempty"`
	// Outdated says that the operator has not looked at the specification since it was changed.
	Outdated bool `json:"outdated,omitempty"`
	// Problems are the conditions that are not as they should be.
	Problems []problemView `json:"problems,omitempty"`
	// Shards of the cluster; etcd has one, without a name.
	Shards []shardView `json:"shards,omitempty"`
}

// problemView is a condition that is not as it should be.
type problemView struct {
	Condition string `json:"condition"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

// shardView is a shard. Slots are ranges such as "0-5460 10923".
type shardView struct {
	Name    string       `json:"name,omitempty"`
	Slots   string       `json:"slots,omitempty"`
	Servers []serverView `json:"servers,omitempty"`
}

// serverView is a member of etcd or a server of Redis.
type serverView struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Ready   bool   `json:"ready"`
	Version string `json:"version,omitempty"`
	// Size of the database of etcd, rounded. Lag is how far it is behind the leader or the primary, in words, where it was asked for.
	Size    string `json:"size,omitempty"`
	Lag     string `json:"lag,omitempty"`
	Message string `json:"message,omitempty"`
}

// viewOf is what the status of a cluster says. lags are by pod, nil where nobody asked.
func viewOf(o clusterObject, lags map[string]string) clusterView {
	v := clusterView{Kind: kindOf(o), Namespace: o.GetNamespace(), Name: o.GetName()}
	switch c := o.(type) {
	case *v1alpha1.EtcdCluster:
		v.ofEtcd(c, lags)
	case *v1alpha1.RedisCluster:
		v.ofRedis(c, lags)
	}
	if v.Target == v.Version {
		v.Target = ""
	}
	v.State, v.Problems = stateOf(o), problemsOf(o.GetConditions())
	return v
}

func (v *clusterView) ofEtcd(c *v1alpha1.EtcdCluster, lags map[string]string) {
	v.Engine, v.Version, v.Target = "etcd", c.Status.CurrentVersion, c.Spec.Version
	v.Ready, v.Activity, v.Outdated = c.Status.Ready, c.Status.Activity, c.Status.ObservedGeneration < c.Generation
	var all shardView
	for _, m := range c.Status.Members {
		all.Servers = append(all.Servers, serverView{
			Name: m.Name, Role: string(m.Role), Ready: m.Ready, Version: m.Version, Size: m.DBSize, Lag: lags[m.Name], Message: m.Message,
		})
	}
	if len(all.Servers) > 0 {
		v.Shards = []shardView{all}
	}
}

func (v *clusterView) ofRedis(c *v1alpha1.RedisCluster, lags map[string]string) {
	v.Engine, v.Version, v.Target = string(c.Spec.ServerEngine()), c.Status.CurrentVersion, c.Spec.Version
	v.Ready, v.Slots, v.Activity, v.Outdated = c.Status.Ready, c.Status.Slots, c.Status.Activity, c.Status.ObservedGeneration < c.Generation
	for _, s := range c.Status.Shards {
		shard := shardView{Name: s.Name, Slots: s.Slots}
		for _, n := range s.Nodes {
			shard.Servers = append(shard.Servers, serverView{
				Name: n.Name, Role: string(n.Role), Ready: n.Ready, Version: n.Version, Lag: lags[n.Name], Message: n.Message,
			})
		}
		v.Shards = append(v.Shards, shard)
	}
}

// stateOf sums the conditions of a cluster up in one word.
func stateOf(o clusterObject) string {
	conditions := o.GetConditions()
	reconciling := meta.FindStatusCondition(conditions, v1alpha1.ConditionReconciling)
	switch {
	case len(conditions) == 0 || reconciling == nil:
		return "Unknown"
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled):
		return "Stalled"
	case reconciling.Reason == cluster.ReasonHibernated:
		return "Hibernated"
	case o.IsPaused():
		return "Paused"
	case reconciling.Status == metav1.ConditionTrue:
		return "Reconciling"
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady):
		return "Ready"
	}
	return "NotReady"
}

// bad are the conditions whose problem is that they are True. What Ready and Reconciling have to say is the activity.
var bad = []string{v1alpha1.ConditionStalled}

// problemsOf are the conditions that are not as they should be.
func problemsOf(conditions []metav1.Condition) []problemView {
	var out []problemView
	for _, c := range conditions {
		wrong := c.Status != metav1.ConditionTrue
		switch {
		case c.Type == v1alpha1.ConditionReady || c.Type == v1alpha1.ConditionReconciling:
			continue
		case slices.Contains(bad, c.Type):
			wrong = c.Status == metav1.ConditionTrue
		case c.Reason == v1alpha1.ReasonDisabled || c.Reason == v1alpha1.ReasonHibernated:
			wrong = false // It is what the specification asks for.
		}
		if wrong {
			out = append(out, problemView{Condition: c.Type, Reason: c.Reason, Message: c.Message})
		}
	}
	return out
}

// title is the first line about a cluster.
func (v clusterView) title() string {
	words := []string{string(v.Kind), v.Name, " " + v.Engine}
	version := v.Version
	if v.Target != "" {
		version = strings.TrimPrefix(version+" → "+v.Target, " ")
	}
	words = append(words, version)
	if v.Ready != "" {
		words = append(words, " "+v.Ready+" ready")
	}
	if v.Slots != "" {
		words = append(words, " slots "+v.Slots)
	}
	return strings.Join(words, " ")
}

// sizeWords is an amount of bytes for people.
func sizeWords(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < 4 {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[prefix])
}
