package planner_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// sleeping is a cluster of n members that hibernates. Tests change what they are about.
func sleeping(n int, change func(*model.State)) model.State {
	return of(n, func(s *model.State) {
		s.Want.Hibernated, s.Record.Hibernated, s.Record.MinAvailable, s.Set.Replicas = true, true, model.Quorum(n), 0
		s.Pods, s.Members, s.Auth = nil, nil, nil
		if change != nil {
			change(s)
		}
	})
}

// waking is one whose pods have not been made yet.
func waking(n int, change func(*model.State)) model.State {
	return sleeping(n, func(s *model.State) {
		s.Want.Hibernated, s.Record.Hibernated = false, false
		if change != nil {
			change(s)
		}
	})
}

// sprouting are pods that were made a moment ago.
func sprouting(n int) func(*model.State) {
	return func(s *model.State) {
		for i := range n {
			name := fmt.Sprint("orders-", i)
			s.Pods = append(s.Pods, model.Pod{Name: name, UID: "new-" + name, Ordinal: i, Version: v36, TemplateHash: "now", Age: time.Second})
		}
	}
}

func TestHibernation(t *testing.T) {
	asleepRow := func(s model.State) planRow {
		return planRow{state: s, reason: cluster.ReasonHibernated, says: "spec.hibernated is true: no member runs"}
	}
	for name, tc := range map[string]planRow{
		"a cluster falls asleep": {
			state: settled(func(s *model.State) { s.Want.Hibernated = true }), step: steps.Hibernate{},
		},
		"whatever state it is in": {
			state: settled(func(s *model.State) { quorumless(s); s.Want.Hibernated = true }), step: steps.Hibernate{},
		},
		"after a defragmentation that goes on": {
			state: settled(func(s *model.State) {
				s.Want.Hibernated = true
				s.Pods[0].Defragmentation = &model.Defragmentation{Begin: simNow}
			}),
			reason: steps.ReasonDefragmenting,
		},
		"not where its data would end with its pods": {
			state:  settled(func(s *model.State) { s.Want.Hibernated, s.Want.Persistent = true, false }),
			reason: planner.ReasonRollout, stalled: true, says: "without spec.storage the data would end with the pods",
		},
		"its pods are waited for": {
			state:  settled(func(s *model.State) { s.Want.Hibernated, s.Record.Hibernated = true, true }),
			reason: steps.ReasonHibernating, says: "3 pods are ending",
		},
		"asleep nothing is done": asleepRow(sleeping(3, nil)),
		"not even for another size, version, template, storage or password": asleepRow(sleeping(3, func(s *model.State) {
			s.Want.Size, s.Want.Version, s.Want.TemplateHash, s.Want.StorageChanged, s.Want.NewPassword = 5, v37, "next", true, true
		})),
		"nor for a lost volume":                  asleepRow(sleeping(3, func(s *model.State) { s.Claims[1].Lost = "its node is gone" })),
		"nor for a claim that was to be deleted": asleepRow(sleeping(5, func(s *model.State) { s.Record.Members = s.Record.Members[:3] })),
		"a cluster may be made asleep":           asleepRow(fresh(func(s *model.State) { s.Want.Hibernated = true })),
		"a record that is lost is not missed":    asleepRow(sleeping(3, func(s *model.State) { s.Record = nil })),
		"but by a cluster that runs, which needs it to fall asleep": {
			state: settled(func(s *model.State) { s.Want.Hibernated, s.Record = true, nil }),
			step:  steps.WriteBootstrap{Bootstrap: model.BootstrapRecovered, Size: 3, Version: v36},
		},
		"it is woken": {
			state: sleeping(3, func(s *model.State) { s.Want.Hibernated = false }), step: steps.Wake{},
		},
		"woken without its record it is not founded again, and has all its members": {
			state: waking(5, func(s *model.State) { s.Record, s.Want.Size = nil, 3 }),
			step:  steps.WriteBootstrap{Bootstrap: model.BootstrapRecovered, Size: 5, Version: v36},
		},
		"pods that are still to be made are no fault": {
			state: waking(3, nil), reason: steps.ReasonStarting, says: "the members are starting",
		},
		"nor do they call a member back that was leaving": {
			state:  waking(5, func(s *model.State) { s.Record.Members = s.Record.Members[:4] }),
			reason: steps.ReasonStarting,
		},
		"nor are pods that have just been made": {
			state: waking(5, func(s *model.State) {
				s.Record.Members = s.Record.Members[:4]
				sprouting(4)(s)
			}),
			reason: steps.ReasonStarting,
		},
		"another template meanwhile is no reason to restart them": {
			state:  waking(3, func(s *model.State) { s.Want.TemplateHash = "next"; sprouting(3)(s) }),
			reason: steps.ReasonStarting,
		},
		"a member that was leaving is called back where the others stay away": {
			state: waking(5, func(s *model.State) {
				s.Record.Members = s.Record.Members[:4]
				sprouting(4)(s)
				for i := range s.Pods {
					s.Pods[i].Age = time.Hour
				}
			}),
			step: steps.Resize{From: 4, To: 5},
		},
	} {
		t.Run(name, tc.Check)
	}
}

func TestConditionsOfAClusterThatHibernates(t *testing.T) {
	for name, state := range map[string]model.State{
		"asleep":      sleeping(3, nil),
		"made asleep": fresh(func(s *model.State) { s.Want.Hibernated = true }),
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{
				"Ready": "False Hibernated", "Available": "False Hibernated", "QuorumHealthy": "False Hibernated",
				"Reconciling": "False Hibernated", "SpaceHealthy": "Unknown Hibernated", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Hibernated",
			}
			wantConditions(t, want, planner.Conditions(state, planner.Next(state), nil))
			wantConditions(t, want, planner.Conditions(state, cluster.Pause(planner.Next(state)), nil))
		})
	}
	var st v1alpha1.EtcdClusterStatus
	planner.Status(&st, sleeping(3, nil))
	if st.Ready != "0/3" || st.Size != 3 || st.Leader != "" || st.ClusterID == "" || len(st.Members) != 3 || st.Members[0].Message != "" {
		t.Errorf("%+v", st)
	}
}

func wantConditions(t *testing.T, want map[string]string, got []metav1.Condition) {
	t.Helper()
	for _, c := range got {
		if is := string(c.Status) + " " + c.Reason; is != want[c.Type] {
			t.Errorf("%s is %s: %s", c.Type, is, c.Message)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d conditions", len(got))
	}
}
