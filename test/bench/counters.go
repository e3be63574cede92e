package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/shared"
)

// Contenders that increment one number. A cycle is an increment that was done; there is no hold.

func counterWorkloads() (all []workload) {
	for _, n := range []int{1, 10, 100} {
		all = append(all, workload{name: fmt.Sprintf("counter, a client for each of %d", n), kind: increments, locks: 1, waiters: n, each: true})
	}
	for _, n := range []int{10, 100} {
		all = append(all, workload{name: fmt.Sprintf("counter, one client for %d", n), kind: increments, locks: 1, waiters: n})
	}
	return all
}

// counterSystems returns all ways to increment. Java's Curator and this library each have one with
// a mutex and one without.
func counterSystems(with []string) []system {
	taking := func(enter func(context.Context, *servers, workload, string) (*entrant, error)) func(context.Context, *servers, workload, string) (*entrant, error) {
		return func(ctx context.Context, s *servers, w workload, path string) (*entrant, error) {
			w.kind = inTurns
			return enter(ctx, s, w, path)
		}
	}
	all := []system{{"floor", enterFloor}, {"ours", enterOurs}, {"ours, mutex", taking(enterOurs)}}
	if slices.Contains(with, "java") {
		all = append(all, system{"Curator", enterJava}, system{"Curator, mutex", taking(enterJava)})
	}
	if slices.Contains(with, "etcd") {
		all = append(all, system{"etcd", enterEtcd})
	}
	return all
}

// counted is a contender that increments.
func counted(increment func() error) contender {
	return func(int) (release, error) { return func() error { return nil }, increment() }
}

func ourCounter(ctx context.Context, client *framework.Client, w workload, path string) (contender, error) {
	var opts []shared.Option
	if w.kind == inTurns {
		opts = append(opts, shared.WithMutex(path+"-mutex"))
	}
	v, err := shared.Int64(client, path, opts...)
	if err != nil {
		return nil, err
	}
	return counted(func() error {
		_, err := v.Update(ctx, func(n int64) (int64, error) { return n + 1, nil })
		return err
	}), nil
}

// floorCounter reads and writes until no other client has written in between. It counts twice if a
// reply is lost.
func floorCounter(conn *zk.Conn, path string) (contender, error) {
	if _, err := conn.Create(path, make([]byte, 8), 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return nil, err
	}
	return counted(func() error {
		for {
			data, stat, err := conn.Get(path)
			if err != nil {
				return err
			}
			next := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(data)+1)
			if _, err = conn.Set(path, next, stat.Version); !errors.Is(err, zk.ErrBadVersion) {
				return err
			}
		}
	}), nil
}

// etcdCounter uses etcd's software transactional memory, which retries until no other client has
// written in between.
func etcdCounter(client *clientv3.Client, path string) contender {
	return counted(func() error {
		_, err := concurrency.NewSTM(client, func(m concurrency.STM) error {
			var n uint64
			if text := m.Get(path); text != "" {
				n = binary.BigEndian.Uint64([]byte(text))
			}
			m.Put(path, string(binary.BigEndian.AppendUint64(nil, n+1)))
			return nil
		})
		return err
	})
}
