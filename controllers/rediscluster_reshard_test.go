package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/redis"
)

func TestWhatServersMoveByThemselvesIsCountedOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	job := func(name string, state redis.MigrationState) redis.Migration {
		return redis.Migration{Name: name, Slots: redis.Slots{{From: 0, To: 24}}, State: state}
	}
	m := &meter{}
	for _, step := range []struct {
		what  string
		jobs  []redis.Migration
		slots int
	}{
		{"one was over before anybody looked", []redis.Migration{job("a", redis.MigrationSuccess)}, 0},
		{"another runs", []redis.Migration{job("b", "snapshotting"), job("a", redis.MigrationSuccess)}, 0},
		{"it is over", []redis.Migration{job("b", redis.MigrationSuccess)}, 25},
		{"it still is", []redis.Migration{job("b", redis.MigrationSuccess)}, 25},
		{"one came and went", []redis.Migration{job("c", redis.MigrationSuccess)}, 50},
		{"one broke", []redis.Migration{job("d", redis.MigrationFailed)}, 50},
		{"nobody answers", nil, 50},
	} {
		source := &redis.Node{
			Keys: 400, Memory: redis.Memory{Used: 1400, Empty: 400}, Migrations: step.jobs,
			Peers: []redis.Peer{{Myself: true, Slots: redis.Slots{{From: 0, To: 99}}}},
		}
		target := &redis.Node{}
		for _, j := range step.jobs {
			j.Importing = true
			target.Migrations = append(target.Migrations, j)
		}
		now = now.Add(time.Second)
		m.watch([]redis.Pod{{Node: target}, {Node: source}, {}}, now)
		if got := m.read().Slots; got != step.slots {
			t.Errorf("%s: %d slots are counted, want %d", step.what, got, step.slots)
		}
	}
	want := redis.Progress{Since: time.Unix(1002, 0), Slots: 50, Keys: 200, Bytes: 500}
	if diff := cmp.Diff(want, m.read()); diff != "" {
		t.Error(diff)
	}
}
