package etcd_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestNextSetsUpAuthentication(t *testing.T) {
	runRows(t, map[string]planRow{
		"authentication is switched on after the identity is recorded": {
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
		"clients are let in once authentication is on": {
			state: settled(func(s *etcd.State) { s.Open = false }),
			step:  etcd.LetClientsIn{},
		},
		"clients are let in immediately without authentication": {
			state: settled(func(s *etcd.State) { s.Want.Auth, s.Auth, s.Open = false, &etcd.Auth{}, false }),
			step:  etcd.LetClientsIn{},
		},
	})
}

func TestNextChangesThePassword(t *testing.T) {
	runRows(t, map[string]planRow{
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
		"another password cannot be set without a certificate of root or the password from before": {
			state:  settled(func(s *etcd.State) { s.Auth.PasswordWorks, s.Want.CertificateIsRoot = false, false }),
			reason: etcd.ReasonAuth, stalled: true, says: "Secret orders-auth",
		},
		"members that all report a wrong password need a human": {
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
	})
}
