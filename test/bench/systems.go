package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
)

// system is one implementation of a lock.
type system struct {
	name string
	// enter connects as the workload requires, and creates the contenders for locks below path.
	enter func(ctx context.Context, s *servers, w workload, path string) (*entrant, error)
}

// systems returns the systems that support a workload. The others are compared with the first.
func systems(w workload, with []string) []system {
	if w.kind == increments {
		return counterSystems(with)
	}
	all := []system{{"floor", enterFloor}}
	if w.kind == mostRead || w.kind == leases && w.waiters > 1 || w.kind == handedOn {
		all = nil // no floor
	}
	p, special := plain[w.kind]
	if w.kind == mutexes || p == mutexes && w.kind != handedOn {
		all = append(all, system{"zk.Lock", enterZkLock})
	}
	if special {
		w.kind = p
		all = append(all, system{"ours, plain", func(ctx context.Context, s *servers, _ workload, path string) (*entrant, error) {
			return enterOurs(ctx, s, w, path)
		}})
	}
	all = append(all, system{"ours", enterOurs})
	if w.kind == tries || w.kind == written {
		return all
	}
	if slices.Contains(with, "java") {
		all = append(all, system{"Curator", enterJava})
	}
	if slices.Contains(with, "kazoo") && w.kind == mutexes && w.waiters*w.locks <= 100 {
		all = append(all, system{"kazoo", enterKazoo})
	}
	if w.at != anyServer {
		return all // the others have no such servers
	}
	if slices.Contains(with, "etcd") && w.kind == mutexes && !(w.each && w.waiters > 10) {
		all = append(all, system{"etcd", enterEtcd})
	}
	if slices.Contains(with, "redis") && w.kind == mutexes {
		all = append(all, system{"redsync", enterRedis})
	}
	return all
}

// entrant is a system that is connected and ready.
type entrant struct {
	workload   workload
	contenders []contender
	drive      func(ctx context.Context, turn time.Duration) (measure, error) // nil: contenders are driven here
	traffic    traffic
	closers    []func()
}

func (e *entrant) onClose(f func()) { e.closers = append(e.closers, f) }

func (e *entrant) close() {
	for _, f := range slices.Backward(e.closers) {
		f()
	}
}

var paths atomic.Int64

func enter(ctx context.Context, s *servers, sys system, w workload) (*entrant, error) {
	s, err := s.forClients(ctx, w.at)
	if err != nil {
		return nil, err
	}
	return sys.enter(ctx, s, w, fmt.Sprintf("/bench-%d-%d", time.Now().UnixNano(), paths.Add(1)))
}

// turn runs the system for the duration of a turn and measures the cost.
func (e *entrant) turn(ctx context.Context, s *servers, turn time.Duration) (measure, error) {
	before, err := s.counters(ctx)
	if err != nil {
		return measure{}, err
	}
	ownBefore, bytesBefore := ownCPU(), e.traffic.bytes()
	var m measure
	if e.drive != nil {
		m, err = e.drive(ctx, turn)
	} else {
		var memBefore, memAfter runtime.MemStats
		runtime.ReadMemStats(&memBefore)
		m, err = drive(ctx, e.workload, e.contenders, turn)
		m.client = ownCPU() - ownBefore
		runtime.ReadMemStats(&memAfter)
		m.allocs, m.allocBytes = memAfter.Mallocs-memBefore.Mallocs, memAfter.TotalAlloc-memBefore.TotalAlloc
	}
	if err != nil {
		return m, err
	}
	after, err := s.counters(ctx)
	m.server, m.requests, m.bytes = after.cpu-before.cpu, after.requests-before.requests, e.traffic.bytes()-bytesBefore
	return m, err
}

// population creates the contenders of an entrant: connect is called for each client, and its
// result for each contender of that client, with the lock's path.
func population(w workload, path string, e *entrant, connect func() (func(path string) (contender, error), error)) (*entrant, error) {
	e.workload = w
	var client func(path string) (contender, error)
	for i := range w.locks * w.waiters {
		if client == nil || w.each {
			var err error
			if client, err = connect(); err != nil {
				e.close()
				return nil, err
			}
		}
		c, err := client(path + "-" + strconv.Itoa(i/w.waiters))
		if err != nil {
			e.close()
			return nil, err
		}
		e.contenders = append(e.contenders, c)
	}
	return e, nil
}

const sessionTimeout = 20 * time.Second

func enterOurs(ctx context.Context, s *servers, w workload, path string) (*entrant, error) {
	e := new(entrant)
	return population(w, path, e, func() (func(string) (contender, error), error) {
		client, err := framework.New(s.addresses, framework.WithSessionTimeout(sessionTimeout),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				return e.traffic.add(new(net.Dialer).DialContext(ctx, network, address))
			}))
		if err != nil {
			return nil, err
		}
		e.onClose(func() { client.Close() })
		if err := client.WaitConnected(ctx); err != nil {
			return nil, err
		}
		made := map[string]contender{} // goroutines of one client share a lock, as users have it
		return func(path string) (contender, error) {
			if c := made[path]; c != nil {
				return c, nil
			}
			c, err := ourContender(ctx, client, w, path)
			made[path] = c
			return c, err
		}, nil
	})
}

func ourContender(ctx context.Context, client *framework.Client, w workload, path string) (contender, error) {
	plain := func(acquire func(context.Context) (*lock.Hold, error)) contender {
		return func(int) (release, error) {
			hold, err := acquire(ctx)
			if err != nil {
				return nil, err
			}
			return hold.Release, nil
		}
	}
	switch w.kind {
	case increments, inTurns:
		return ourCounter(ctx, client, w, path)
	case leases:
		l, err := semaphore.New(client, path, w.leasesOf())
		if err != nil {
			return nil, err
		}
		return plain(l.Acquire), nil
	case readers, writers, mostRead:
		l, err := rwlock.New(client, path)
		if err != nil {
			return nil, err
		}
		read, write := plain(l.Read().Acquire), plain(l.Write().Acquire)
		switch w.kind {
		case readers:
			return read, nil
		case writers:
			return write, nil
		}
		return func(n int) (release, error) {
			if n%10 == 9 {
				return write(n)
			}
			return read(n)
		}, nil
	}
	var opts []lock.Option
	switch w.kind {
	case handedOn, retained:
		opts = append(opts, lock.WithRetention(time.Second))
	}
	l, err := mutex.New(client, path, opts...)
	if err != nil {
		return nil, err
	}
	switch w.kind {
	case tries:
		if _, err := l.Acquire(ctx); err != nil {
			return nil, err
		}
		return func(int) (release, error) {
			_, err := l.TryAcquire(ctx)
			if !errors.Is(err, lock.ErrNotAcquired) {
				return nil, fmt.Errorf("try: %w", err)
			}
			return func() error { return nil }, nil
		}, nil
	case written, published:
		_, err := client.Create(ctx, path+"-data", nil)
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return nil, err
		}
		return publish(ctx, client, l, path+"-data", w.kind == published), nil
	}
	return plain(l.Acquire), nil
}

// publish sets the node at path before it releases, or in the same transaction.
func publish(ctx context.Context, client *framework.Client, l *mutex.Mutex, path string, together bool) contender {
	return func(int) (release, error) {
		hold, err := l.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		set := &zk.SetDataRequest{Path: path, Data: []byte("x"), Version: -1}
		return func() error {
			if together {
				_, err := hold.ReleaseWith(ctx, set)
				return err
			}
			_, err := client.Multi(ctx, hold.Guard(), set)
			return errors.Join(err, hold.Release())
		}, nil
	}
}

// dial returns a connection of go-zookeeper.
func dial(s *servers, e *entrant) (*zk.Conn, error) {
	conn, events, err := zk.Connect(s.addresses, sessionTimeout, zk.WithLogInfo(false), zk.WithLogger(nothing{}),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			return e.traffic.add(net.DialTimeout(network, address, timeout))
		}))
	if err != nil {
		return nil, err
	}
	e.onClose(conn.Close)
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	return conn, nil
}

type nothing struct{}

func (nothing) Printf(string, ...any) {}

func enterZkLock(_ context.Context, s *servers, w workload, path string) (*entrant, error) {
	e := new(entrant)
	return population(w, path, e, func() (func(string) (contender, error), error) {
		conn, err := dial(s, e)
		if err != nil {
			return nil, err
		}
		return func(path string) (contender, error) {
			l := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
			return func(int) (release, error) { return l.Unlock, l.Lock() }, nil
		}, nil
	})
}

// enterFloor is a lock with the minimum of requests: create and delete, and in a queue a watch on
// the node ahead. Its name is known from its number, because no contender gives up. A try is one
// list. A holder that publishes sets a node.
func enterFloor(_ context.Context, s *servers, w workload, path string) (*entrant, error) {
	e := new(entrant)
	return population(w, path, e, func() (func(string) (contender, error), error) {
		conn, err := dial(s, e)
		if err != nil {
			return nil, err
		}
		return func(path string) (contender, error) {
			if w.kind == increments {
				return floorCounter(conn, path)
			}
			if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return nil, err
			}
			if w.kind == tries {
				return func(int) (release, error) {
					_, _, err := conn.Children(path)
					return func() error { return nil }, err
				}, nil
			}
			return floorContender(conn, path, w), nil
		}, nil
	})
}

func floorContender(conn *zk.Conn, path string, w workload) contender {
	return func(int) (release, error) {
		node, err := conn.Create(path+"/n-", []byte("x"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			return nil, err
		}
		if w.waiters > 1 {
			if err := awaitAhead(conn, node); err != nil {
				return nil, err
			}
		}
		if w.kind == published {
			if _, err := conn.Set(path, []byte("x"), -1); err != nil {
				return nil, err
			}
		}
		return func() error { return conn.Delete(node, -1) }, nil
	}
}

// awaitAhead returns when the node with the number before node's is deleted.
func awaitAhead(conn *zk.Conn, node string) error {
	cut := strings.LastIndex(node, "-") + 1
	n, err := strconv.Atoi(node[cut:])
	if err != nil || n == 0 {
		return err
	}
	_, _, gone, err := conn.GetW(fmt.Sprintf("%s%010d", node[:cut], n-1))
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	return (<-gone).Err
}
