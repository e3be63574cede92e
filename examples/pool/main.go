// Pool keeps the connections of many services to one database below the limit that the
// database sets, with a semaphore that they all share.
//
// The database refuses connections above its limit. Half-way through, its administrator raises that
// limit and the shared number of leases, and waiters acquire at once.
//
//	go run ./examples/pool
//	go run ./examples/pool -servers host:port,... -services 8 -queries 20 -limit 3 -raise 6
//
// It exits with 1 if the database refused a connection.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/gocurator/curator/examples/internal/demo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
)

func main() {
	job := job{out: os.Stdout}
	servers := demo.Servers()
	flag.IntVar(&job.services, "services", 8, "number of services, each with its own session")
	flag.IntVar(&job.queries, "queries", 10, "queries per service")
	flag.IntVar(&job.limit, "limit", 3, "limit of connections to the database")
	flag.IntVar(&job.raise, "raise", 6, "limit of connections after half of the queries")
	flag.DurationVar(&job.query, "query", 10*time.Millisecond, "longest time that a query takes")
	flag.StringVar(&job.path, "path", "/curator-pool", "`path` of the semaphore and its limit")
	flag.Parse()

	demo.Main(func(ctx context.Context) error {
		list, stop, err := demo.Connect(ctx, job.out, *servers)
		if err != nil {
			return err
		}
		defer stop()
		return job.run(ctx, list)
	})
}

// job is one run of all services.
type job struct {
	out               io.Writer
	path              string
	services, queries int
	limit, raise      int
	query             time.Duration
}

func (j job) run(ctx context.Context, servers []string) error {
	if j.services < 1 || j.queries < 1 || j.limit < 1 || j.raise < j.limit || j.query < 0 {
		return errors.New("-services, -queries and -limit must be positive, -raise at least -limit, -query not negative")
	}
	client, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	count, err := shared.Int32(client, framework.Join(j.path, "limit"))
	if err != nil {
		return err
	}
	if err := count.Set(ctx, int32(j.limit)); err != nil { // also where an earlier run left another
		return err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	db := &database{limit: j.limit}
	var wg sync.WaitGroup
	began := time.Now()
	for n := range j.services {
		wg.Go(func() {
			if err := j.serve(ctx, servers, n+1, db); err != nil {
				cancel(fmt.Errorf("service %d: %w", n+1, err)) // one failure ends the run
			}
		})
	}
	wg.Go(func() {
		if err := j.administer(ctx, db, count); err != nil {
			cancel(fmt.Errorf("administrator: %w", err))
		}
	})
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return db.summary(j.out, j.services*j.queries, time.Since(began))
}

// serve runs one service with its own session.
func (j job) serve(ctx context.Context, servers []string, service int, db *database) error {
	client, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	pool, err := semaphore.NewShared(client, framework.Join(j.path, "connections"), framework.Join(j.path, "limit"))
	if err != nil {
		return err
	}
	for range j.queries {
		asked := time.Now()
		err := pool.Do(ctx, func(ctx context.Context) error {
			waited := time.Since(asked)
			open, err := db.connect()
			if err != nil {
				return err
			}
			defer db.disconnect()
			fmt.Fprintf(j.out, "service %2d  waited %-9s  %d connections\n", service, waited.Round(10*time.Microsecond), open)
			select {
			case <-time.After(rand.N(j.query + 1)):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx) // another client may have the lease now
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// administer raises the limit half-way: first where it is enforced, then where it is shared.
func (j job) administer(ctx context.Context, db *database, count *shared.Value[int32]) error {
	if err := db.served(ctx, j.services*j.queries/2); err != nil {
		return err
	}
	db.setLimit(j.raise)
	if err := count.Set(ctx, int32(j.raise)); err != nil {
		return err
	}
	fmt.Fprintf(j.out, "administrator: limit raised to %d connections\n", j.raise)
	return nil
}

// errTooMany is returned by a full database.
var errTooMany = errors.New("too many connections")

// database simulates a database. It counts its connections.
type database struct {
	mu         sync.Mutex // guards the fields below
	limit      int
	open, most int
	queries    int
	turnedAway int
	watchers   []waiter
}

// waiter waits until a number of queries has been served.
type waiter struct {
	queries int
	done    chan struct{}
}

func (d *database) connect() (open int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open >= d.limit {
		d.turnedAway++
		return d.open, errTooMany
	}
	d.open++
	d.most = max(d.most, d.open)
	return d.open, nil
}

func (d *database) disconnect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	d.queries++
	for _, w := range d.watchers {
		if w.queries == d.queries {
			close(w.done)
		}
	}
}

func (d *database) setLimit(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = n
}

// served waits until n queries have been served.
func (d *database) served(ctx context.Context, n int) error {
	done := make(chan struct{})
	d.mu.Lock()
	if d.queries >= n {
		close(done)
	} else {
		d.watchers = append(d.watchers, waiter{n, done})
	}
	d.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// summary prints the result. It returns an error if the run failed.
func (d *database) summary(out io.Writer, want int, took time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(out, "\nqueries       %d of %d in %v\n", d.queries, want, took.Round(time.Millisecond))
	fmt.Fprintf(out, "connections   at most %d of %d\n", d.most, d.limit)
	fmt.Fprintf(out, "rejected      %d\n", d.turnedAway)
	if d.turnedAway > 0 || d.queries != want || d.most > d.limit {
		return fmt.Errorf("completed %d of %d queries, the database rejected %d", d.queries, want, d.turnedAway)
	}
	return nil
}
