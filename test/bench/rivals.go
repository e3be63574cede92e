package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// Locks that are not in ZooKeeper, on as many servers, with their data in memory as well.

func (s *servers) startEtcd(ctx context.Context, n int) error {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf("e%d=http://%s-etcd%d:2380", i+1, s.network, i+1))
	}
	for i := range n {
		host := fmt.Sprintf("%s-etcd%d", s.network, i+1)
		address, _, err := s.start(ctx, fmt.Sprintf("etcd%d", i+1), rivalsImage, []string{"--tmpfs", "/data"},
			"etcd", "--name", fmt.Sprintf("e%d", i+1), "--data-dir", "/data/etcd", "--log-level", "error",
			"--listen-peer-urls", "http://0.0.0.0:2380", "--initial-advertise-peer-urls", "http://"+host+":2380",
			"--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls", "http://"+host+":2379",
			"--initial-cluster", strings.Join(members, ","))
		if err != nil {
			return err
		}
		s.etcd = append(s.etcd, address+":2379")
	}
	return nil
}

func (s *servers) startRedis(ctx context.Context, n int) error {
	for i := range n {
		address, _, err := s.start(ctx, fmt.Sprintf("redis%d", i+1), rivalsImage, nil,
			"redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--appendonly", "no")
		if err != nil {
			return err
		}
		s.redis = append(s.redis, address+":6379")
	}
	return nil
}

// enterEtcd is etcd's own recipe: concurrency.Mutex, which needs a session for each contender.
func enterEtcd(ctx context.Context, s *servers, w workload, path string) (*entrant, error) {
	e := new(entrant)
	return population(w, path, e, func() (func(string) (contender, error), error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: s.etcd, DialTimeout: 10 * time.Second, Logger: zap.NewNop(), Context: ctx})
		if err != nil {
			return nil, err
		}
		e.onClose(func() { client.Close() })
		return func(path string) (contender, error) {
			if w.kind == increments {
				return etcdCounter(client, path), nil
			}
			session, err := concurrency.NewSession(client, concurrency.WithTTL(int(sessionTimeout/time.Second)))
			if err != nil {
				return nil, err
			}
			e.onClose(func() { session.Close() })
			m := concurrency.NewMutex(session, path)
			return func(int) (release, error) {
				return func() error { return m.Unlock(ctx) }, m.Lock(ctx)
			}, nil
		}, nil
	})
}

// enterRedis is redsync, which tries again after a pause while others hold.
func enterRedis(ctx context.Context, s *servers, w workload, path string) (*entrant, error) {
	e := new(entrant)
	return population(w, path, e, func() (func(string) (contender, error), error) {
		var pools []redis.Pool
		for _, address := range s.redis {
			client := goredis9.NewClient(&goredis9.Options{Addr: address, PoolSize: 64})
			e.onClose(func() { client.Close() })
			pools = append(pools, goredis.NewPool(client))
		}
		rs := redsync.New(pools...)
		return func(path string) (contender, error) {
			m := rs.NewMutex(path, redsync.WithExpiry(sessionTimeout), redsync.WithTries(1<<30))
			return func(int) (release, error) {
				return func() error { _, err := m.UnlockContext(ctx); return err }, m.LockContext(ctx)
			}, nil
		}, nil
	})
}
