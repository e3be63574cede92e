// Peer increments a counter inside a lock, a number of times. It uses only names that both versions
// have: go-zookeeper's API for the counter, and a constructor and Do for the lock.
//
//	peer SERVER LOCK TIMES
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zkconn"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

type work = func(context.Context) error

func run(server, kind, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	conn, _, err := zkconn.Connect([]string{server}, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	do, err := locked(conn, kind, "/"+kind)
	if err != nil {
		return err
	}
	for range n {
		if err := do(context.Background(), func(context.Context) error { return increment(conn, "/count-"+kind) }); err != nil {
			return err
		}
	}
	fmt.Println("done")
	return nil
}

// locked returns a function that runs work while it holds the lock of this kind.
func locked(conn *zkconn.Conn, kind, path string) (func(context.Context, work) error, error) {
	switch kind {
	case "mutex":
		m, err := mutex.New(conn.Client(), path)
		return func(ctx context.Context, f work) error { return m.Do(ctx, f) }, err
	case "writer":
		l, err := rwlock.New(conn.Client(), path)
		return func(ctx context.Context, f work) error { return l.Write().Do(ctx, f) }, err
	case "semaphore":
		s, err := semaphore.New(conn.Client(), path, 1)
		return func(ctx context.Context, f work) error { return s.Do(ctx, f) }, err
	case "leader":
		e, err := leader.New(conn.Client(), path)
		return func(ctx context.Context, f work) error {
			return e.Lead(ctx, func(ctx context.Context, _ *leader.Term) error { return f(ctx) })
		}, err
	}
	return nil, fmt.Errorf("no lock is called %q", kind)
}

// increment reads and writes without any protection but the lock.
func increment(conn *zkconn.Conn, path string) error {
	data, _, err := conn.Get(path)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	if _, err := conn.Sync(path); err != nil { // an overlap has time to show
		return err
	}
	_, err = conn.Set(path, []byte(strconv.Itoa(n+1)), -1)
	return err
}
