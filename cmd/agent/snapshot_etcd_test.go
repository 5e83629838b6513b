package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestASnapshotIsTakenFromAFollowerThatIsAhead(t *testing.T) {
	member := func(id, applied uint64) *clientv3.StatusResponse {
		return (*clientv3.StatusResponse)(&pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: id}, Leader: 1, RaftAppliedIndex: applied})
	}
	leader, behind, ahead := member(1, 100), member(2, 90), member(3, 95)
	for name, tc := range map[string]struct {
		a, b *clientv3.StatusResponse
		want bool
	}{
		"a follower before the leader":     {behind, leader, true},
		"the leader not before a follower": {leader, behind, false},
		"the one that is ahead":            {ahead, behind, true},
		"not the one that is behind":       {behind, ahead, false},
	} {
		if got := better(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestASnapshotOfNobodySaysWhy(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "termination-log")
	err := run(t.Context(), []string{
		"snapshot", "etcd", "--version=3.6.16", "--member=http://127.0.0.1:1", "--dir=" + dir, "--tls-dir=" + dir, "--password-file=" + filepath.Join(dir, "none"),
		"--termination-log=" + log,
	})
	if err == nil || !strings.Contains(err.Error(), "no member is well enough for a snapshot") {
		t.Errorf("%v", err)
	}
	if said, readErr := os.ReadFile(log); readErr != nil || string(said) != err.Error() {
		t.Errorf("the operator is told %q, %v", said, readErr)
	}
}

func TestASnapshotNeedsAMember(t *testing.T) {
	if err := run(t.Context(), []string{"snapshot", "etcd", "--version=3.6.16"}); err == nil || !strings.Contains(err.Error(), "--member") {
		t.Errorf("%v", err)
	}
}

func TestThePodInTheURLOfAMember(t *testing.T) {
	if got := podOf("https://orders-1.orders-peers.shop.svc.cluster.local:2379"); got != "orders-1" {
		t.Errorf("%q", got)
	}
}
