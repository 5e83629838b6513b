package controllers

import (
	"context"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func (l *lazyClient) Defragment(ctx context.Context) error { return l.c().Defragment(ctx) }

func (l *lazyClient) Compact(ctx context.Context, revision int64) error {
	return l.s.wrote("compact", l.c().Compact(ctx, revision))
}

func (l *lazyClient) Compacted(ctx context.Context) (bool, error) { return l.c().Compacted(ctx) }

func (l *lazyClient) Disarm(ctx context.Context, a etcd.Alarm) error {
	return l.s.wrote("disarm", l.c().Disarm(ctx, a))
}

func (l *lazyClient) HashKV(ctx context.Context, revision int64) (etcd.Hash, error) {
	return l.c().HashKV(ctx, revision)
}

func (l *lazyClient) Largest(ctx context.Context) ([]etcd.KeyGroup, error) { return l.c().Largest(ctx) }
