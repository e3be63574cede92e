package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/zktest"
)

// The benchmarks compare three things on one server: the floor, which is the requests that a lock
// cannot do without, as calls of go-zookeeper; go-zookeeper's own Lock; and this package. Compare
// within one run only:
//
//	ZOOKEEPER=127.0.0.1:2181 go test ./recipes/lock -run '^$' -bench . -benchtime 5000x -count 5
//
// Without ZOOKEEPER they run on the in-process server. docs/PERFORMANCE.md has figures.

// cycle acquires and releases once.
type cycle func() error

// connection returns n cycles of a lock at path, for concurrent use.
type connection func(path string, n int) []cycle

type system struct {
	name    string
	connect func(b *testing.B, servers []string) connection
}

var floor = system{"floor", func(b *testing.B, servers []string) connection {
	conn := dial(b, servers)
	return func(path string, n int) []cycle {
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		if !errors.Is(err, zk.ErrNodeExists) {
			require.NoError(b, err)
		}
		return repeated(n, func() error {
			node, err := conn.Create(path+"/n-", []byte("x"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
			if err != nil {
				return err
			}
			return conn.Delete(node, -1)
		})
	}
}}

var zkLock = system{"zk.Lock", func(b *testing.B, servers []string) connection {
	conn := dial(b, servers)
	return func(path string, n int) (cycles []cycle) {
		for range n {
			l := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
			cycles = append(cycles, func() error {
				if err := l.Lock(); err != nil {
					return err
				}
				return l.Unlock()
			})
		}
		return cycles
	}
}}

var ours = system{"ours", func(b *testing.B, servers []string) connection { return connectOurs(b, servers) }}

// retained is a lock of this package with retention.
func retained(name string, d time.Duration) system {
	return system{name, func(b *testing.B, servers []string) connection {
		return connectOurs(b, servers, lock.WithRetention(d))
	}}
}

func connectOurs(b *testing.B, servers []string, opts ...lock.Option) connection {
	client, err := framework.New(servers)
	require.NoError(b, err)
	b.Cleanup(func() { client.Close() })
	require.NoError(b, client.WaitConnected(b.Context()))
	return func(path string, n int) []cycle {
		q, err := lock.New(client, path, "lock-", nil, opts...)
		require.NoError(b, err)
		return repeated(n, func() error {
			hold, err := q.Acquire(context.Background())
			if err != nil {
				return err
			}
			return hold.Release()
		})
	}
}

func repeated(n int, c cycle) []cycle {
	cycles := make([]cycle, n)
	for i := range cycles {
		cycles[i] = c
	}
	return cycles
}

func dial(b *testing.B, servers []string) *zk.Conn {
	conn, events, err := zk.Connect(servers, 20*time.Second, zk.WithLogInfo(false))
	require.NoError(b, err)
	b.Cleanup(conn.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return conn
}

// bench runs the same benchmark with each system. make returns the concurrent cycles; nothing else
// uses path.
func bench(b *testing.B, systems []system, make func(connect func() connection, path string) []cycle) {
	for _, s := range systems {
		b.Run(s.name, func(b *testing.B) {
			var servers []string
			if text := os.Getenv("ZOOKEEPER"); text != "" {
				servers = strings.Split(text, ",")
			} else {
				servers = zktest.NewServer(b).Servers()
			}
			cycles := make(func() connection { return s.connect(b, servers) }, fmt.Sprintf("/bench-%d", time.Now().UnixNano()))
			b.ResetTimer()
			var wg sync.WaitGroup
			for i, c := range cycles {
				wg.Go(func() {
					for n := i; n < b.N; n += len(cycles) {
						if err := c(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func BenchmarkUncontended(b *testing.B) {
	bench(b, []system{floor, zkLock, ours}, func(connect func() connection, path string) []cycle {
		return connect()(path, 1)
	})
}

// BenchmarkRetained is BenchmarkUncontended with retention.
func BenchmarkRetained(b *testing.B) {
	bench(b, []system{ours, retained("retained", time.Second)}, func(connect func() connection, path string) []cycle {
		return connect()(path, 1)
	})
}

// contended returns the cycles of n contenders for one lock, each with its own connection.
func contended(n int) func(connect func() connection, path string) []cycle {
	return func(connect func() connection, path string) (cycles []cycle) {
		for range n {
			cycles = append(cycles, connect()(path, 1)...)
		}
		return cycles
	}
}

// BenchmarkContendedRetained is BenchmarkContended with retention: no slower than without.
func BenchmarkContendedRetained(b *testing.B) {
	bench(b, []system{ours, retained("retained", time.Second)}, contended(10))
}

// BenchmarkIndependent is about many locks at once on one connection.
func BenchmarkIndependent(b *testing.B) {
	for _, n := range []int{8, 64, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			bench(b, []system{floor, zkLock, ours}, func(connect func() connection, path string) (cycles []cycle) {
				at := connect()
				for i := range n {
					cycles = append(cycles, at(fmt.Sprintf("%s-%d", path, i), 1)...)
				}
				return cycles
			})
		})
	}
}

// BenchmarkContended is about one lock, with a connection for each contender.
func BenchmarkContended(b *testing.B) {
	for _, n := range []int{2, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			bench(b, []system{zkLock, ours}, contended(n))
		})
	}
}

// BenchmarkOneProcess is about one lock, with one connection for all contenders.
func BenchmarkOneProcess(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			bench(b, []system{zkLock, ours}, func(connect func() connection, path string) []cycle {
				return connect()(path, n)
			})
		})
	}
}

// BenchmarkHandOff is BenchmarkOneProcess with retention.
func BenchmarkHandOff(b *testing.B) {
	systems := []system{ours, retained("handed on", 100*time.Millisecond)}
	bench(b, systems, func(connect func() connection, path string) []cycle {
		return connect()(path, 100)
	})
}
