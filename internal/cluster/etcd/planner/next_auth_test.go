package planner_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextSetsUpAuthentication(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"authentication is switched on after the identity is recorded": {
			state: settled(func(s *model.State) { s.Auth, s.Open = &model.Auth{}, false }),
			step:  steps.EnableAuth{Pod: "orders-1"},
		},
		"a leader without a pod is spoken to through another member": {
			state: settled(func(s *model.State) { s.Auth, s.Open, s.Pods = &model.Auth{}, false, append(s.Pods[:1], s.Pods[2]) }),
			step:  steps.EnableAuth{Pod: "orders-0"},
		},
		"authentication unknown changes nothing": {
			state:  settled(func(s *model.State) { s.Auth, s.Open = nil, false }),
			reason: planner.ReasonAuth,
		},
		"clients are let in once authentication is on": {
			state: settled(func(s *model.State) { s.Open = false }),
			step:  steps.LetClientsIn{},
		},
		"clients are let in immediately without authentication": {
			state: settled(func(s *model.State) { s.Want.Auth, s.Auth, s.Open = false, &model.Auth{}, false }),
			step:  steps.LetClientsIn{},
		},
	})
}

func TestNextChangesThePassword(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"another password is set where the certificate is root": {
			state: settled(func(s *model.State) { s.Auth.PasswordWorks = false }),
			step:  steps.SetRootPassword{Pod: "orders-1"},
		},
		"another password is set where the one from before works": {
			state: settled(func(s *model.State) {
				s.Auth, s.Want.CertificateIsRoot, s.Want.NewPassword = &model.Auth{Enabled: true, Root: true}, false, true
			}),
			step: steps.SetRootPassword{Pod: "orders-1"},
		},
		"a password that was set is recorded": {
			state: settled(func(s *model.State) { s.Want.NewPassword = true }),
			step:  steps.RecordPassword{},
		},
		"a password that was switched on with authentication is recorded": {
			state: settled(func(s *model.State) { s.Want.NewPassword, s.Open = true, false }),
			step:  steps.RecordPassword{},
		},
		"another password cannot be set without a certificate of root or the password from before": {
			state:  settled(func(s *model.State) { s.Auth.PasswordWorks, s.Want.CertificateIsRoot = false, false }),
			reason: planner.ReasonAuth, stalled: true, says: "Secret orders-auth",
		},
		"members that all report a wrong password need a human": {
			state: settled(func(s *model.State) {
				s.Members, s.Auth = nil, &model.Auth{Enabled: true}
				for i := range s.Pods {
					s.Pods[i].Status, s.Pods[i].Unreachable = nil, model.ErrPassword
				}
			}),
			reason: planner.ReasonAuth, stalled: true,
		},
		"authentication is never switched off": {
			state:  settled(func(s *model.State) { s.Want.Auth = false }),
			reason: planner.ReasonAuth, stalled: true, says: "etcdctl --user root auth disable",
		},
	})
}
