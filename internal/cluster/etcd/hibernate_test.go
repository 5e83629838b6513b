package etcd_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// sleeping is a cluster of n members that hibernates. Tests change what they are about.
func sleeping(n int, change func(*etcd.State)) etcd.State {
	return of(n, func(s *etcd.State) {
		s.Want.Hibernated, s.Record.Hibernated, s.Record.MinAvailable, s.Set.Replicas = true, true, etcd.Quorum(n), 0
		s.Pods, s.Members, s.Auth = nil, nil, nil
		if change != nil {
			change(s)
		}
	})
}

// waking is one whose pods have not been made yet.
func waking(n int, change func(*etcd.State)) etcd.State {
	return sleeping(n, func(s *etcd.State) {
		s.Want.Hibernated, s.Record.Hibernated = false, false
		if change != nil {
			change(s)
		}
	})
}

// sprouting are pods that were made a moment ago.
func sprouting(n int) func(*etcd.State) {
	return func(s *etcd.State) {
		for i := range n {
			name := fmt.Sprint("orders-", i)
			s.Pods = append(s.Pods, etcd.Pod{Name: name, UID: "new-" + name, Ordinal: i, Version: v36, TemplateHash: "now", Age: time.Second})
		}
	}
}

func TestHibernation(t *testing.T) {
	asleepRow := func(s etcd.State) planRow {
		return planRow{state: s, reason: cluster.ReasonHibernated, says: "spec.hibernated is true: no member runs"}
	}
	for name, tc := range map[string]planRow{
		"a cluster falls asleep": {
			state: settled(func(s *etcd.State) { s.Want.Hibernated = true }), step: etcd.Hibernate{},
		},
		"whatever state it is in": {
			state: settled(func(s *etcd.State) { quorumless(s); s.Want.Hibernated = true }), step: etcd.Hibernate{},
		},
		"after a defragmentation that goes on": {
			state: settled(func(s *etcd.State) {
				s.Want.Hibernated = true
				s.Pods[0].Defragmentation = &etcd.Defragmentation{Begin: simNow}
			}),
			reason: etcd.ReasonDefragmenting,
		},
		"not where its data would end with its pods": {
			state:  settled(func(s *etcd.State) { s.Want.Hibernated, s.Want.Persistent = true, false }),
			reason: etcd.ReasonRollout, stalled: true, says: "without spec.storage the data would end with the pods",
		},
		"its pods are waited for": {
			state:  settled(func(s *etcd.State) { s.Want.Hibernated, s.Record.Hibernated = true, true }),
			reason: etcd.ReasonHibernating, says: "3 pods are ending",
		},
		"asleep nothing is done": asleepRow(sleeping(3, nil)),
		"not even for another size, version, template, storage or password": asleepRow(sleeping(3, func(s *etcd.State) {
			s.Want.Size, s.Want.Version, s.Want.TemplateHash, s.Want.StorageChanged, s.Want.NewPassword = 5, v37, "next", true, true
		})),
		"nor for a lost volume":                  asleepRow(sleeping(3, func(s *etcd.State) { s.Claims[1].Lost = "its node is gone" })),
		"nor for a claim that was to be deleted": asleepRow(sleeping(5, func(s *etcd.State) { s.Record.Members = s.Record.Members[:3] })),
		"a cluster may be made asleep":           asleepRow(fresh(func(s *etcd.State) { s.Want.Hibernated = true })),
		"a record that is lost is not missed":    asleepRow(sleeping(3, func(s *etcd.State) { s.Record = nil })),
		"but by a cluster that runs, which needs it to fall asleep": {
			state: settled(func(s *etcd.State) { s.Want.Hibernated, s.Record = true, nil }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRecovered, Size: 3, Version: v36},
		},
		"it is woken": {
			state: sleeping(3, func(s *etcd.State) { s.Want.Hibernated = false }), step: etcd.Wake{},
		},
		"woken without its record it is not founded again, and has all its members": {
			state: waking(5, func(s *etcd.State) { s.Record, s.Want.Size = nil, 3 }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRecovered, Size: 5, Version: v36},
		},
		"pods that are still to be made are no fault": {
			state: waking(3, nil), reason: etcd.ReasonStarting, says: "the members are starting",
		},
		"nor do they call a member back that was leaving": {
			state:  waking(5, func(s *etcd.State) { s.Record.Members = s.Record.Members[:4] }),
			reason: etcd.ReasonStarting,
		},
		"nor are pods that have just been made": {
			state: waking(5, func(s *etcd.State) {
				s.Record.Members = s.Record.Members[:4]
				sprouting(4)(s)
			}),
			reason: etcd.ReasonStarting,
		},
		"another template meanwhile is no reason to restart them": {
			state:  waking(3, func(s *etcd.State) { s.Want.TemplateHash = "next"; sprouting(3)(s) }),
			reason: etcd.ReasonStarting,
		},
		"a member that was leaving is called back where the others stay away": {
			state: waking(5, func(s *etcd.State) {
				s.Record.Members = s.Record.Members[:4]
				sprouting(4)(s)
				for i := range s.Pods {
					s.Pods[i].Age = time.Hour
				}
			}),
			step: etcd.Resize{From: 4, To: 5},
		},
	} {
		t.Run(name, tc.check)
	}
}

func TestConditionsOfAClusterThatHibernates(t *testing.T) {
	for name, state := range map[string]etcd.State{
		"asleep":      sleeping(3, nil),
		"made asleep": fresh(func(s *etcd.State) { s.Want.Hibernated = true }),
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{
				"Ready": "False Hibernated", "Available": "False Hibernated", "QuorumHealthy": "False Hibernated",
				"Reconciling": "False Hibernated", "SpaceHealthy": "Unknown Hibernated", "Stalled": "False NotStalled",
				"PerformanceHealthy": "Unknown Hibernated",
			}
			wantConditions(t, want, etcd.Conditions(state, etcd.Next(state), nil))
			wantConditions(t, want, etcd.Conditions(state, cluster.Pause(etcd.Next(state)), nil))
		})
	}
	var st v1alpha1.EtcdClusterStatus
	etcd.Status(&st, sleeping(3, nil))
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
