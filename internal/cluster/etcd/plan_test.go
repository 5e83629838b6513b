package etcd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

const clusterID = 0xc1

var (
	v35 = etcd.Version{Major: 3, Minor: 5, Patch: 35}
	v36 = etcd.Version{Major: 3, Minor: 6, Patch: 16}
	v37 = etcd.Version{Major: 3, Minor: 7, Patch: 3}
)

// settled is a cluster of three members as specified; orders-1 leads. Tests change what they are about.
func settled(change func(*etcd.State)) etcd.State {
	s := fresh(nil)
	s.Record = &etcd.Record{
		Bootstrap: etcd.BootstrapNew, ClusterID: clusterID, Members: s.Want.Peers[:3], Version: s.Want.Version, Proven: s.Want.Settings,
	}
	s.Set, s.Open = &etcd.Set{Replicas: 3, KeepsClaims: true}, true
	s.Auth = &etcd.Auth{Enabled: true, PasswordWorks: true}
	for i, m := range s.Want.Peers[:3] {
		id := uint64(i + 1)
		s.Claims = append(s.Claims, etcd.Claim{Name: cluster.Claim("orders", i), UID: fmt.Sprint("claim-", i), Ordinal: i, Age: time.Hour})
		s.Members = append(s.Members, etcd.Member{ID: id, Name: m.Name, PeerURL: m.URL, Published: true})
		s.Pods = append(s.Pods, etcd.Pod{
			Version: v36, Name: m.Name, UID: "uid-" + m.Name, ResourceVersion: "7", Ordinal: i, Ready: true, TLS: true, TemplateHash: "now", EverRan: true, Age: time.Hour,
			View: &etcd.View{MemberID: id, ClusterID: clusterID, Leader: 2, Version: "3.6.16", DBSize: 20000, Applied: 9},
		})
	}
	if change != nil {
		change(&s)
	}
	if s.Record != nil && s.Record.MinAvailable == 0 {
		s.Record.MinAvailable = budget(s)
	}
	return s
}

// budget is what the disruption budget of a cluster at rest keeps.
func budget(s etcd.State) int {
	voters, learners := 0, 0
	for i, m := range s.Members {
		switch {
		case !m.Learner:
			voters++
		case i < len(s.Pods) && s.Pods[i].View != nil && s.Pods[i].View.Leader != 0:
			learners++
		}
	}
	return etcd.Quorum(voters) + learners
}

// fresh is a resource that was just created.
func fresh(change func(*etcd.State)) etcd.State {
	s := etcd.State{Now: simNow, Want: etcd.Want{
		Name: "orders", Size: 3, Peers: etcd.Peers("orders", "default", "cluster.local", etcd.MaxSize, true), TLS: true, Hold: time.Minute, TemplateHash: "now",
		Version: etcd.Version{Major: 3, Minor: 6, Patch: 16}, Settings: "settings", Asked: "asked",
		Auth: true, PasswordSecret: "orders-auth", CertificateIsRoot: true, Persistent: true,
		Maintenance: etcd.Policy{Defragment: true, MinFree: 200 << 20, Quota: 2 << 30},
	}}
	if change != nil {
		change(&s)
	}
	return s
}

func held(reason string) *etcd.GateReport {
	return &etcd.GateReport{Reason: reason, Message: "the gate says " + reason}
}

// planRow is a state and what is decided on it.
type planRow struct {
	state etcd.State
	step  cluster.Step
	// reason of a plan without a step; empty: settled.
	reason  string
	stalled bool
	says    string
	// ends is how the message ends.
	ends string
}

func (tc planRow) check(t *testing.T) {
	t.Helper()
	got := etcd.Next(tc.state)
	if diff := cmp.Diff(tc.step, got.Step); diff != "" {
		t.Errorf("step (-want +got):\n%s\n%s", diff, got.Message)
	}
	if tc.step == nil && (got.Reason != tc.reason || got.Stalled != tc.stalled) {
		t.Errorf("%s (stalled %t): %s", got.Reason, got.Stalled, got.Message)
	}
	if !strings.Contains(got.Message, tc.says) {
		t.Errorf("%q does not say %q", got.Message, tc.says)
	}
	if !strings.HasSuffix(got.Message, tc.ends) {
		t.Errorf("%q does not end with %q", got.Message, tc.ends)
	}
	if tc.reason != "" && tc.reason != cluster.ReasonHibernated && !tc.stalled && got.After == 0 {
		t.Error("it waits without a time limit")
	}
}

// retainedEmpty is a cluster of retained volumes that all turned out to be empty.
func retainedEmpty(change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		s.Record.Bootstrap, s.Record.ClusterID, s.Members = etcd.BootstrapRetained, 0, nil
		for i := range s.Pods {
			s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(etcd.GateNoPeers)
		}
		change(s)
	})
}

// unfounded is a cluster that has one pod of three, and may be about to get the others.
func unfounded(overdue bool) etcd.State {
	return settled(func(s *etcd.State) {
		s.Record.ClusterID, s.Members, s.Auth, s.Open = 0, nil, nil, false
		s.Set.Overdue, s.Want.Namespace, s.Pods = overdue, "default", s.Pods[1:2]
		s.Pods[0].View = nil
	})
}

func TestNext(t *testing.T) {
	for name, tc := range map[string]planRow{
		"a new cluster gets its record first": {
			state: fresh(nil), step: etcd.WriteBootstrap{Bootstrap: etcd.BootstrapNew, Size: 3, Version: v36},
		},
		"claims of an earlier cluster forbid founding": {
			state: fresh(func(s *etcd.State) { s.Claims = []etcd.Claim{{Name: "data-orders-2", Ordinal: 2}} }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRetained, Size: 3, Version: v36},
		},
		"and a cluster without volumes, which could not see what is in them": {
			state: fresh(func(s *etcd.State) {
				s.Want.Persistent, s.Claims = false, []etcd.Claim{{Name: "data-orders-2", Ordinal: 2}}
			}),
			reason: etcd.ReasonStorage, stalled: true, says: "the claims data-orders-2 of an earlier cluster of this name may hold its data, and spec.storage is not set",
		},
		"claims that are on their way out are waited for": {
			state:  fresh(func(s *etcd.State) { s.Claims = []etcd.Claim{{Name: "data-orders-0", Leaving: true}} }),
			reason: etcd.ReasonClaimsLeaving, says: "data-orders-0",
		},
		"claims of a larger cluster bring all its members back": {
			state: fresh(func(s *etcd.State) { s.Claims = []etcd.Claim{{Name: "data-orders-4", Ordinal: 4}} }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRetained, Size: 5, Version: v36},
		},
		"a record deleted under a living cluster never founds, and keeps all its pods": {
			state: fresh(func(s *etcd.State) { s.Set, s.Want.Persistent = &etcd.Set{Replicas: 5}, false }),
			step:  etcd.WriteBootstrap{Bootstrap: etcd.BootstrapRecovered, Size: 5, Version: v36},
		},
		"retained volumes that are all empty found a cluster": {
			state: settled(func(s *etcd.State) {
				s.Record.Bootstrap, s.Record.ClusterID, s.Members = etcd.BootstrapRetained, 0, nil
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(etcd.GateNoPeers)
				}
			}),
			step: etcd.WriteBootstrap{Bootstrap: etcd.BootstrapNew, Size: 3, Version: v36},
		},
		"retained volumes with data that was set aside do not": {
			state: settled(func(s *etcd.State) {
				s.Record.Bootstrap, s.Record.ClusterID, s.Members = etcd.BootstrapRetained, 0, nil
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(etcd.GateNoPeers)
				}
				s.Pods[1].Gate = &etcd.GateReport{Reason: etcd.GateAside, Message: "orders-1 has it in before-abc"}
			}),
			reason: etcd.ReasonAside, stalled: true, says: "no member founds a new one: orders-1 has it in before-abc. Go back to that",
		},
		"empty disks found no cluster beside the claim of a member that was not started": {
			state: retainedEmpty(func(s *etcd.State) {
				s.Claims = append(s.Claims, etcd.Claim{Name: "data-orders-3", UID: "claim-3", Ordinal: 3})
			}),
			reason: etcd.ReasonQuorumLost, stalled: true,
		},
		"empty disks found no cluster while a pod is missing": {
			state: retainedEmpty(func(s *etcd.State) { s.Pods = s.Pods[:2] }), reason: etcd.ReasonQuorumLost,
		},
		"empty disks found no cluster while a pod is ending": {
			state: retainedEmpty(func(s *etcd.State) { s.Pods[1].Terminating = true }), reason: etcd.ReasonQuorumLost,
		},
		"empty disks found no cluster beside one whose id is recorded": {
			state: settled(func(s *etcd.State) {
				s.Record.Bootstrap, s.Members = etcd.BootstrapRetained, nil
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(etcd.GateNoPeers)
				}
			}),
			reason: etcd.ReasonQuorumLost, stalled: true,
		},
		"empty disks found no cluster where the record was deleted under a living one": {
			state: settled(func(s *etcd.State) {
				s.Record.Bootstrap, s.Record.ClusterID, s.Members = etcd.BootstrapRecovered, 0, nil
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(etcd.GateNoPeers)
				}
			}),
			reason: etcd.ReasonQuorumLost, stalled: true,
		},
		"keeps outdated members without storage when their quorum is lost": {
			state: settled(func(s *etcd.State) {
				s.Want.Persistent, s.Claims, s.Members, s.Want.TemplateHash = false, nil, nil, "next"
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready = nil, false
				}
			}),
			reason: etcd.ReasonNoQuorum,
		},
		"keeps outdated members without storage when the record was deleted": {
			state: settled(func(s *etcd.State) {
				s.Record.Bootstrap, s.Record.ClusterID = etcd.BootstrapRecovered, 0
				s.Want.Persistent, s.Claims, s.Members, s.Want.TemplateHash = false, nil, nil, "next"
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready = nil, false
				}
			}),
			reason: etcd.ReasonStarting,
		},
		"retained volumes of which one may have data do not": {
			state: settled(func(s *etcd.State) {
				s.Record.Bootstrap, s.Record.ClusterID, s.Members = etcd.BootstrapRetained, 0, nil
				for i := range s.Pods[:2] {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(etcd.GateNoPeers)
				}
				s.Pods[2].View = nil
			}),
			reason: etcd.ReasonQuorumLost, says: "What orders-2 has is not known, because it does not answer; if",
		},
		"members without a quorum are waited for": {
			state: settled(func(s *etcd.State) {
				s.Record.ClusterID, s.Members, s.Auth, s.Open = 0, nil, nil, false
				for i := range s.Pods {
					s.Pods[i].View = nil
				}
			}),
			reason: etcd.ReasonStarting, says: "orders-0 does not answer",
		},
		"pods that have just been asked for are waited for": {
			state: unfounded(false), reason: etcd.ReasonStarting,
			ends: "the first quorum of 3 members: orders-0 has no pod yet; orders-1 does not answer; orders-2 has no pod yet",
		},
		"pods that Kubernetes does not make are told, with who knows why": {
			state: unfounded(true), reason: etcd.ReasonStarting,
			ends: "orders-0 has no pod yet: Kubernetes has not made it: if that lasts, `kubectl -n default describe statefulset orders` says why " +
				"(a quota, a limit range, an admission policy); orders-1 does not answer; orders-2 has no pod yet",
		},
		"the identity is recorded before anything is written": {
			state: settled(func(s *etcd.State) {
				s.Record.ClusterID, s.Auth, s.Open = 0, &etcd.Auth{}, false
			}),
			step: etcd.RecordClusterID{ClusterID: clusterID},
		},
		"a quorum is enough to record the identity": {
			state: settled(func(s *etcd.State) {
				s.Record.ClusterID, s.Open, s.Pods[0].View = 0, false, nil
			}),
			step: etcd.RecordClusterID{ClusterID: clusterID},
		},
		"less than a quorum is not": {
			state: settled(func(s *etcd.State) {
				s.Record.ClusterID, s.Open, s.Pods[0].View, s.Pods[2].View = 0, false, nil, nil
			}),
			reason: etcd.ReasonStarting,
		},
		"authentication comes next": {
			state: settled(func(s *etcd.State) { s.Auth, s.Open = &etcd.Auth{}, false }),
			step:  etcd.EnableAuth{Pod: "orders-1"},
		},
		"a leader without a pod is spoken to through another member": {
			state: settled(func(s *etcd.State) { s.Auth, s.Open, s.Pods = &etcd.Auth{}, false, append(s.Pods[:1], s.Pods[2]) }),
			step:  etcd.EnableAuth{Pod: "orders-0"},
		},
		"authentication unknown changes nothing": {
			state:  settled(func(s *etcd.State) { s.Auth, s.Open = nil, false }),
			reason: etcd.ReasonAuth,
		},
		"then clients are let in": {
			state: settled(func(s *etcd.State) { s.Open = false }),
			step:  etcd.LetClientsIn{},
		},
		"without authentication clients are let in at once": {
			state: settled(func(s *etcd.State) { s.Want.Auth, s.Auth, s.Open = false, &etcd.Auth{}, false }),
			step:  etcd.LetClientsIn{},
		},
		"another password is set where the certificate is root": {
			state: settled(func(s *etcd.State) { s.Auth.PasswordWorks = false }),
			step:  etcd.SetRootPassword{Pod: "orders-1"},
		},
		"another password is set where the one from before works": {
			state: settled(func(s *etcd.State) {
				s.Auth, s.Want.CertificateIsRoot, s.Want.NewPassword = &etcd.Auth{Enabled: true, Root: true}, false, true
			}),
			step: etcd.SetRootPassword{Pod: "orders-1"},
		},
		"a password that was set is recorded": {
			state: settled(func(s *etcd.State) { s.Want.NewPassword = true }),
			step:  etcd.RecordPassword{},
		},
		"a password that was switched on with authentication is recorded": {
			state: settled(func(s *etcd.State) { s.Want.NewPassword, s.Open = true, false }),
			step:  etcd.RecordPassword{},
		},
		"another password cannot be set otherwise": {
			state:  settled(func(s *etcd.State) { s.Auth.PasswordWorks, s.Want.CertificateIsRoot = false, false }),
			reason: etcd.ReasonAuth, stalled: true, says: "Secret orders-auth",
		},
		"members that only say that the password is wrong": {
			state: settled(func(s *etcd.State) {
				s.Members, s.Auth = nil, &etcd.Auth{Enabled: true}
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Unreachable = nil, etcd.ErrPassword
				}
			}),
			reason: etcd.ReasonAuth, stalled: true,
		},
		"authentication is never switched off": {
			state:  settled(func(s *etcd.State) { s.Want.Auth = false }),
			reason: etcd.ReasonAuth, stalled: true, says: "etcdctl --user root auth disable",
		},
		"nothing is left to do": {state: settled(nil)},
		"members of two clusters are refused": {
			state:  settled(func(s *etcd.State) { s.Pods[2].View.ClusterID = 7 }),
			reason: etcd.ReasonIdentity, stalled: true, says: "orders-2 to 7",
		},
		"members of another cluster than the recorded one are refused": {
			state:  settled(func(s *etcd.State) { s.Record.ClusterID = 7 }),
			reason: etcd.ReasonIdentity, stalled: true,
		},
		"a member whose peers have not answered yet is waited for": {
			state: settled(func(s *etcd.State) {
				s.Pods[0].View, s.Pods[0].Ready, s.Pods[0].Gate = nil, false, held(etcd.GateNoPeers)
			}),
			reason: etcd.ReasonMembersNotReady, says: "is held back",
		},
		"a loss of all disks is reported": {
			state: settled(func(s *etcd.State) {
				s.Members = nil
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Gate = nil, false, held(etcd.GateNoPeers)
				}
			}),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "no member has data",
		},
		"another spelling of the members is refused": {
			state: settled(func(s *etcd.State) {
				s.Want.Peers = etcd.Peers("orders", "default", "example.org", etcd.MaxSize, true)
				s.Record.ClusterID = 0
			}),
			reason: etcd.ReasonMembership, stalled: true, says: "set the DNS domain of the Kubernetes cluster back",
		},
		"a member that somebody added is refused": {
			state: settled(func(s *etcd.State) {
				s.Members = append(s.Members, etcd.Member{ID: 9, PeerURL: "https://elsewhere:2380", Learner: true})
			}),
			reason: etcd.ReasonMembership, stalled: true, says: "etcdctl member remove 9",
		},
		"other storage is refused": {
			state:  settled(func(s *etcd.State) { s.Want.StorageChanged = true }),
			reason: etcd.ReasonStorage, stalled: true,
		},
		"a full database does not hold up the larger quota": {
			state: settled(func(s *etcd.State) {
				alarm("NOSPACE")(s)
				s.Want.TemplateHash = "next"
			}),
			step: deletion("orders-2"),
		},
		"members that differ stop everything": {
			state: settled(func(s *etcd.State) {
				alarm("CORRUPT")(s)
				s.Want.TemplateHash = "next"
			}),
			reason: etcd.ReasonAlarm, stalled: true, says: "CORRUPT for orders-2",
		},
		"a member that is not ready is waited for": {
			state:  settled(func(s *etcd.State) { s.Pods[2].Ready = false }),
			reason: etcd.ReasonMembersNotReady, says: "2 of 3 members are ready: orders-2 is not ready yet",
		},
		"followers are restarted first, from the highest ordinal": {
			state: settled(func(s *etcd.State) { s.Want.TemplateHash = "next" }),
			step:  deletion("orders-2"),
		},
		"one at a time": {
			state: settled(func(s *etcd.State) {
				s.Want.TemplateHash = "next"
				s.Pods[2].TemplateHash, s.Pods[2].Ready = "next", false
			}),
			reason: etcd.ReasonMembersNotReady,
		},
		"a change is undone on the member that it made sick": {
			state: settled(func(s *etcd.State) {
				s.Pods[2].TemplateHash, s.Pods[2].Ready, s.Pods[2].View = "bad", false, nil
			}),
			step: deletion("orders-2"),
		},
		"a change that took the quorum away is undone one member at a time": {
			state: settled(quorumless),
			step:  deletion("orders-1"),
		},
		"members that the kubelet finds ready are not restarted, even if none answers": {
			state: settled(func(s *etcd.State) {
				quorumless(s)
				s.Pods[0].Ready, s.Pods[2].Ready = true, true
			}),
			reason: etcd.ReasonNoQuorum,
		},
		"a member that was just restarted gets its time": {
			state: settled(func(s *etcd.State) {
				quorumless(s)
				s.Pods[2].Started = simNow.Add(-time.Second)
			}),
			reason: etcd.ReasonNoQuorum,
		},
		"a sick member is left alone while the new settings are not proved": {
			state: settled(func(s *etcd.State) {
				s.Want.TemplateHash = "next"
				s.Pods[0].Ready, s.Pods[0].View = false, nil
				s.Pods[2].TemplateHash, s.Pods[2].Ready, s.Pods[2].View = "next", false, nil
			}),
			reason: etcd.ReasonNoQuorum,
		},
		"a sick member is left alone where the others are no quorum": {
			state: settled(func(s *etcd.State) {
				s.Want.TemplateHash = "next"
				s.Pods[0].Ready, s.Pods[2].Ready = false, false
			}),
			reason: etcd.ReasonMembersNotReady,
		},
		"an image of another minor version stops with the first member": {
			state: settled(func(s *etcd.State) {
				s.Want.TemplateHash = "next"
				s.Pods[2].TemplateHash, s.Pods[2].View.Version, s.Want.ImageOverridden = "next", "3.7.3", true
				s.ClusterVersion = v36
			}),
			reason: etcd.ReasonVersion, stalled: true, says: "orders-2 runs etcd 3.7.3, and spec.version is 3.6.16",
		},
		"an image of another minor version is undone": {
			state: settled(func(s *etcd.State) {
				s.Pods[2].TemplateHash, s.Pods[2].View.Version, s.ClusterVersion = "bad", "3.7.3", v36
			}),
			step: deletion("orders-2"),
		},
		"a leader hands over before it is restarted": {
			state: settled(func(s *etcd.State) {
				s.Want.TemplateHash = "next"
				s.Pods[0].TemplateHash, s.Pods[2].TemplateHash = "next", "next"
				s.Pods[2].View.Applied = 12
			}),
			step: etcd.MoveLeader{From: "orders-1", To: 3, Pod: "orders-2"},
		},
		"without a claim a member is replaced instead of restarted": {
			state: settled(func(s *etcd.State) { s.Want.TemplateHash, s.Want.Persistent = "next", false }),
			step:  etcd.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
		"without a claim the only member cannot be restarted": {
			state: settled(func(s *etcd.State) {
				single(s)
				s.Want.TemplateHash, s.Want.Persistent = "next", false
			}),
			reason: etcd.ReasonRollout, stalled: true,
		},
		"an outdated pod that is stuck is deleted whatever else is known": {
			state: settled(func(s *etcd.State) {
				s.Want.TemplateHash, s.Members = "next", nil
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Stuck = nil, false, true
				}
			}),
			step: deletion("orders-0"),
		},
		"a stuck pod with the current settings is left alone": {
			state: settled(func(s *etcd.State) {
				s.Pods[0].View, s.Pods[0].Ready, s.Pods[0].Stuck, s.Pods[0].Problem = nil, false, true, "cannot be scheduled"
			}),
			reason: etcd.ReasonMembersNotReady, says: "orders-0 cannot be scheduled",
		},
		"a stuck pod whose gate runs from an outdated image is deleted": {
			state: settled(func(s *etcd.State) {
				s.Pods[0].View, s.Pods[0].Ready, s.Pods[0].Stuck, s.Pods[0].OldRevision = nil, false, true, true
			}),
			step: deletion("orders-0"),
		},
		"a stuck pod of a cluster that never formed has nothing to lose": {
			state: settled(func(s *etcd.State) {
				s.Want.TemplateHash, s.Want.Persistent, s.Members, s.Record.ClusterID, s.Open = "next", false, nil, 0, false
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Stuck = nil, false, true
				}
			}),
			step: deletion("orders-0"),
		},
		"a stuck pod whose data would go with it is left to its owner": {
			state: settled(func(s *etcd.State) {
				s.Want.TemplateHash, s.Want.Persistent, s.Members = "next", false, nil
				for i := range s.Pods {
					s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].Stuck, s.Pods[i].Problem = nil, false, true, "cannot run: OOMKilled"
				}
			}),
			reason: etcd.ReasonRollout, stalled: true, says: "orders-0 cannot run: OOMKilled, and the change that may cure it",
		},
	} {
		t.Run(name, tc.check)
	}
}

// quorumless is a cluster of which two members got settings that have been taken back since.
func quorumless(s *etcd.State) {
	s.Members, s.Auth = nil, nil
	for i := range s.Pods {
		s.Pods[i].Ready, s.Pods[i].View = false, nil
	}
	s.Pods[1].TemplateHash, s.Pods[2].TemplateHash = "bad", "bad"
}

func deletion(pod string) etcd.DeletePod {
	return etcd.DeletePod{Name: pod, UID: "uid-" + pod, ResourceVersion: "7"}
}

func alarm(typ string) func(*etcd.State) {
	return func(s *etcd.State) { s.Pods[1].View.Alarms = []etcd.Alarm{{MemberID: 3, Type: typ}} }
}

func TestWaitingForMembersIsPatient(t *testing.T) {
	started := func(ago time.Duration, pods int) etcd.State {
		return settled(func(s *etcd.State) {
			s.Members, s.Record.ClusterID, s.Open = nil, 0, false
			for i := range s.Pods {
				s.Pods[i].View = nil
				if i < pods {
					s.Pods[i].Started = simNow.Add(-ago)
				}
			}
		})
	}
	young, alone, old := etcd.Next(started(time.Second, 2)), etcd.Next(started(time.Second, 1)), etcd.Next(started(time.Hour, 3))
	if young.After >= time.Second || alone.After < time.Second || old.After < time.Second {
		t.Errorf("it looks again after %s, with a single member after %s, after an hour after %s", young.After, alone.After, old.After)
	}
}

// single makes a cluster of one member.
func single(s *etcd.State) {
	s.Want.Size, s.Record.Members = 1, s.Want.Peers[:1]
	s.Members, s.Pods, s.Claims = s.Members[:1], s.Pods[:1], s.Claims[:1]
	s.Pods[0].View.Leader = 1
}

func TestTheOnlyMemberIsRestartedWithoutASuccessor(t *testing.T) {
	s := settled(func(s *etcd.State) {
		single(s)
		s.Want.TemplateHash = "next"
	})
	want := deletion("orders-0")
	if got := etcd.Next(s); got.Step != want {
		t.Errorf("%v: %s", got.Step, got.Message)
	}
}

func TestAMemberThatFindsAnotherClusterIsNamed(t *testing.T) {
	planRow{state: settled(func(s *etcd.State) {
		s.Pods[2].View, s.Pods[2].Ready, s.Pods[2].Gate = nil, false, held(etcd.GateForeignPeers)
	}), reason: etcd.ReasonIdentity, stalled: true, says: "the gate says ForeignPeers"}.check(t)
}

func TestNoMemberGoesBackBeforeTheVersionOfTheClusterIsKnown(t *testing.T) {
	planRow{state: settled(func(s *etcd.State) {
		s.Record.Version, s.Want.Version = v35, v35
	}), reason: etcd.ReasonUpgrade, says: "waiting for a member to tell the version of the cluster"}.check(t)
}
