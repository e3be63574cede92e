package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// workload is the work that all systems do in turn.
type workload struct {
	name    string
	kind    kind
	locks   int  // independent of each other, all used at once
	waiters int  // waiters per lock
	each    bool // waiters have a client each; otherwise one client is for all
	hold    bool // hold for 2 to 5 ms; otherwise release at once
	at      role // the role of the server that all clients connect to
}

type kind int

const (
	mutexes    kind = iota
	readers         // the read side of a read/write lock
	writers         // the write side
	mostRead        // nine of ten cycles read
	leases          // a semaphore of one lease for each of four waiters, at least one
	tries           // a try on a lock that is held
	handedOn        // a mutex with retention that goroutines of one client share
	retained        // a mutex with retention
	written         // a mutex; the holder sets a node with the guard and then releases
	published       // the same, with set and release in one write
	increments      // the contenders increment one number
	inTurns         // the same; an overtaken contender acquires a mutex
)

// plain maps a kind to the kind without the option that it measures.
var plain = map[kind]kind{handedOn: mutexes, retained: mutexes, published: written}

// role is a server's role in an ensemble, as it reports it.
type role string

const (
	anyServer  role = ""
	atLeader   role = "leader"
	atFollower role = "follower" // one of them
)

func workloads() []workload {
	all := []workload{
		{name: "uncontended, mutex", kind: mutexes, locks: 1, waiters: 1},
		{name: "uncontended, read lock", kind: readers, locks: 1, waiters: 1},
		{name: "uncontended, write lock", kind: writers, locks: 1, waiters: 1},
		{name: "uncontended, semaphore", kind: leases, locks: 1, waiters: 1},
		{name: "try on a held lock", kind: tries, locks: 1, waiters: 1},
		{name: "uncontended, with retention", kind: retained, locks: 1, waiters: 1},
		{name: "uncontended, set a node and release; the floor is create, set, delete", kind: published, locks: 1, waiters: 1},
	}
	for _, n := range []int{8, 64, 512} {
		all = append(all, workload{name: fmt.Sprintf("%d locks, one client", n), kind: mutexes, locks: n, waiters: 1})
	}
	for _, hold := range []bool{false, true} {
		doing := map[bool]string{false: "no hold", true: "holds of 2-5 ms"}[hold]
		for _, n := range []int{2, 10, 100} {
			all = append(all, workload{name: fmt.Sprintf("%d waiters, a client each, %s", n, doing), kind: mutexes, locks: 1, waiters: n, each: true, hold: hold})
		}
		for _, n := range []int{2, 10, 100, 1000} {
			all = append(all, workload{name: fmt.Sprintf("%d waiters, one client, %s", n, doing), kind: mutexes, locks: 1, waiters: n, hold: hold})
		}
	}
	for _, at := range []role{atLeader, atFollower} {
		all = append(all,
			workload{name: fmt.Sprintf("uncontended, mutex, at the %s", at), kind: mutexes, locks: 1, waiters: 1, at: at},
			workload{name: fmt.Sprintf("2 waiters, a client each, no hold, at the %s", at), kind: mutexes, locks: 1, waiters: 2, each: true, at: at})
	}
	all = append(all,
		workload{name: "10 waiters, a client each, with retention", kind: retained, locks: 1, waiters: 10, each: true},
		workload{name: "100 waiters, one client, handed on", kind: handedOn, locks: 1, waiters: 100},
		workload{name: "semaphore, 12 waiters for 3", kind: leases, locks: 1, waiters: 12, each: true},
		workload{name: "read/write lock, 10 clients, 9 of 10 read", kind: mostRead, locks: 1, waiters: 10, each: true, hold: true},
	)
	return append(all, counterWorkloads()...)
}

// leasesOf is how many leases a semaphore has.
func (w workload) leasesOf() int { return max(1, w.waiters/4) }

// contender acquires, and returns how to release. n counts its cycles.
type contender func(n int) (release, error)

// release ends a hold.
type release func() error

// measure holds the results of one system in one turn.
type measure struct {
	cycles   int
	givenUp  int // cycles that failed because of the others, and are not counted
	took     time.Duration
	handOffs []time.Duration // from the call of release to the next acquire's return
	client   time.Duration   // CPU of the client
	server   time.Duration   // CPU of the servers
	requests int64           // requests that the servers have received
	bytes    int64           // bytes sent and received by the client; 0: not known

	// Of a client in this process, on the heap.
	allocs, allocBytes uint64
}

func (m measure) perCycle() time.Duration { return m.took / time.Duration(max(1, m.cycles)) }

// drive runs contenders for the duration of a turn. The contenders of one lock are adjacent in the
// list.
func drive(ctx context.Context, w workload, contenders []contender, turn time.Duration) (measure, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		m      measure
		mu     sync.Mutex // guards m.handOffs
		wg     sync.WaitGroup
		cycles atomic.Int64
		over   atomic.Bool
		lasts  = make([]atomic.Int64, w.locks) // when the last release of a lock was called
	)
	began := time.Now()
	timer := time.AfterFunc(turn, func() { over.Store(true) })
	defer timer.Stop()
	for i, acquire := range contenders {
		last := &lasts[i/w.waiters]
		wg.Go(func() {
			for n, again := 0, true; again; n++ {
				release, err := acquire(n)
				if err != nil {
					cancel(err)
					return
				}
				now := time.Now().UnixNano()
				if before := last.Load(); before != 0 && w.hold && !over.Load() {
					mu.Lock()
					m.handOffs = append(m.handOffs, time.Duration(now-before))
					mu.Unlock()
				}
				if w.hold && !over.Load() {
					time.Sleep(2*time.Millisecond + rand.N(3*time.Millisecond)) // the hold: its length is part of the workload
				}
				again = !over.Load() && ctx.Err() == nil
				last.Store(time.Now().UnixNano())
				if err := release(); err != nil {
					cancel(err)
					return
				}
				cycles.Add(1)
			}
		})
	}
	wg.Wait()
	m.took, m.cycles = time.Since(began), int(cycles.Load())
	return m, context.Cause(ctx)
}
