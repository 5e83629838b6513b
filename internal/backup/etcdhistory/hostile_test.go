package etcdhistory_test

import (
	"context"
	"net"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
)

// headless answers without headers.
type headless struct{ pb.UnimplementedKVServer }

func (headless) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{}, nil
}

func TestARevisionWithoutAHeaderIsUnknownAndNotZero(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterKVServer(s, headless{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r := &etcdhistory.Recorder{Client: c}
	if revision, err := r.Ask(t.Context()); err == nil {
		t.Errorf("revision %d", revision)
	}
}
