package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestChildrenAreEnsuredWhenSomethingHasChanged(t *testing.T) {
	nothing := func(*carefulStage) {}
	tests := map[string]struct {
		happens func(s *carefulStage)
		want    int
	}{
		"nothing":                    {nothing, 0},
		"of a foreign object":        {func(s *carefulStage) { s.create(aConfigMap("other")) }, 0},
		"one that is there":          {func(s *carefulStage) { s.change(aConfigMap("there")) }, 1},
		"it goes":                    {func(s *carefulStage) { s.remove(aConfigMap("there")) }, 1},
		"it is made anew":            {func(s *carefulStage) { s.remove(aConfigMap("there")); s.create(aConfigMap("there")) }, 1},
		"one that was missing comes": {func(s *carefulStage) { s.create(aConfigMap("missing")) }, 1},
		"one of many":                {func(s *carefulStage) { s.change(oneOfMany("first")) }, 1},
		"another one of them":        {func(s *carefulStage) { s.create(oneOfMany("second")) }, 1},
		"none is left":               {func(s *carefulStage) { s.remove(oneOfMany("first")) }, 1},
		"past the cache":             {func(s *carefulStage) { s.change(aConfigMap("direct")) }, 1},
		"the resource itself":        {func(s *carefulStage) { s.change(fakeapi.EtcdCluster()) }, 1},
		"most of a minute passes":    {func(s *carefulStage) { s.later = owned.SecretsExpireAfter - time.Second }, 0},
		"a minute passes":            {func(s *carefulStage) { s.later = owned.SecretsExpireAfter }, 1},
		"it was ensured once more": {func(s *carefulStage) {
			s.later = owned.SecretsExpireAfter
			s.pass()
			s.later += owned.SecretsExpireAfter - time.Second
		}, 1},
		"something cannot be read": {func(s *carefulStage) { s.breaks = errors.New("no answer") }, 1},
		"something could not be read": {func(s *carefulStage) {
			s.breaks = errors.New("no answer")
			s.pass()
			s.breaks = nil
		}, 2},
		"it waits for something": {func(s *carefulStage) {
			s.kind.plan, _ = cluster.Wait("A", time.Second, "waiting")
			s.pass()
			s.pass()
			s.kind.plan = cluster.Plan{Message: "fine"}
		}, 2}, // Not at the first look, which has found out that it waits.
		"it was not looked at well": {func(s *carefulStage) {
			s.kind.observeErr = cluster.Hold{Reason: "A", Message: "a moment"}
			s.pass()
			s.kind.observeErr = nil
			s.pass()
		}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newCarefulStage(t)
			test.happens(s)
			if s.pass(); s.kind.ensures != test.want {
				t.Errorf("ensured %d times, want %d", s.kind.ensures, test.want)
			}
		})
	}
}
