package controllersim

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
)

// fragmentedAndFull makes work for every rule of maintenance.
func (s *Etcd) fragmentedAndFull() {
	s.T.Helper()
	s.UntilReady()
	s.Fragment()
	s.UntilReady()
	s.fill()
	s.Restart()
	for range 60 {
		if len(s.Procs["orders-0"].Alarms()) == 0 {
			break
		}
		s.Round()
	}
	s.UntilReady()
	s.Tidy()
}

// stageUnit is what a write takes in bytes where the quota of 320 MiB, that of a volume of 1 GiB, holds ten.
const stageUnit = 32 << 20

// Put makes writes of a user until there are so many, or the quota is reached.
func (s *Etcd) Put(n int) {
	s.T.Helper()
	s.Net.Unit, s.Net.Quota = stageUnit, 10
	for i := range n {
		err := s.Net.Put(s.Procs["orders-0"], s.password(), fmt.Sprint("value-", i))
		if errors.Is(err, etcdfake.ErrNoSpace) {
			return
		}
		if err != nil {
			s.T.Fatal(err)
		}
	}
}

func (s *Etcd) password() string {
	s.T.Helper()
	secret := &corev1.Secret{}
	if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: cluster.AuthSecret(s.Name.Name)}, secret); err != nil {
		s.T.Fatal(err)
	}
	return string(secret.Data[owned.PasswordKey])
}

// Fragment leaves databases that are almost empty in large files, as after a compaction by etcd.
func (s *Etcd) Fragment() {
	s.T.Helper()
	s.Put(9)
	s.deleteAll()
	c := &etcdfake.Client{Network: s.Net, Process: s.Procs["orders-0"], TLS: true, Root: true}
	v, err := c.Status(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	if err := c.Compact(s.T.Context(), v.Revision); err != nil {
		s.T.Fatal(err)
	}
}

// fill leaves databases that are full of history.
func (s *Etcd) fill() {
	s.T.Helper()
	s.Put(1000)
	s.deleteAll()
}

func (s *Etcd) deleteAll() {
	s.T.Helper()
	if err := s.Net.Delete(s.Procs["orders-0"], s.password()); err != nil {
		s.T.Fatal(err)
	}
}

// Tidy checks that nothing of the maintenance is left: small databases, no alarm, and every pod in the client Service.
func (s *Etcd) Tidy() {
	s.T.Helper()
	for name, p := range s.Procs {
		if p.Disk.Size() > 1 || len(p.Alarms()) > 0 {
			s.T.Errorf("%s has %d writes and the alarms %v", name, p.Disk.Size(), p.Alarms())
		}
		pod := &corev1.Pod{}
		if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: s.Name.Namespace, Name: name}, pod); err != nil {
			s.T.Fatal(err)
		}
		if pod.Labels[v1alpha1.LabelServing] != "true" {
			s.T.Errorf("%s is left out of the client Service", name)
		}
	}
}
