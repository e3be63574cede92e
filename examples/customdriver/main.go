// Customdriver is a custom recipe on a lock driver: a room for many members of one group at a time,
// but never for two groups (see room.go).
//
// The room is a database. Exports may run together, and so may imports. But an export that runs
// beside an import would write inconsistent data to its file. A read/write lock does not help: with
// it, imports would run one after the other.
//
//	go run ./examples/customdriver
//	go run ./examples/customdriver -servers host:port,... -workers 4 -rounds 10
//
// It exits with 1 if an export met an import.
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
)

func main() {
	job := job{out: os.Stdout}
	servers := demo.Servers()
	flag.IntVar(&job.workers, "workers", 4, "number of exporters, and of importers, each with its own session")
	flag.IntVar(&job.rounds, "rounds", 10, "exports or imports per worker")
	flag.DurationVar(&job.work, "work", 5*time.Millisecond, "longest time that one takes")
	flag.StringVar(&job.path, "path", "/curator-room", "`path` of the room")
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

// job is one run of all workers.
type job struct {
	out             io.Writer
	path            string
	workers, rounds int
	work            time.Duration
}

func (j job) run(ctx context.Context, servers []string) error {
	if j.workers < 1 || j.rounds < 1 || j.work < 0 {
		return errors.New("-workers and -rounds must be positive, -work must not be negative")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	db := &database{out: j.out, inside: make(map[string]int), most: make(map[string]int), done: make(map[string]int)}
	var wg sync.WaitGroup
	for n := range j.workers {
		for _, kind := range kinds {
			wg.Go(func() {
				if err := j.serve(ctx, servers, kind, db); err != nil {
					cancel(fmt.Errorf("%s worker %d: %w", kind, n+1, err)) // one failure ends the run
				}
			})
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return db.summary(j.workers * j.rounds)
}

// serve runs one worker with its own session.
func (j job) serve(ctx context.Context, servers []string, kind string, db *database) error {
	client, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	room, err := NewRoom(client, j.path, kind)
	if err != nil {
		return err
	}
	for range j.rounds {
		err := room.Do(ctx, func(ctx context.Context) error {
			db.enter(kind)
			defer db.leave(kind)
			select {
			case <-time.After(rand.N(j.work + 1)):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// kinds are the groups.
var kinds = []string{"export", "import"}

// database simulates a database. It counts its users.
type database struct {
	out io.Writer

	mu                 sync.Mutex // guards the fields below
	inside, most, done map[string]int
	meetings           int
}

func (d *database) enter(kind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside[kind]++
	d.most[kind] = max(d.most[kind], d.inside[kind])
	if d.inside[kinds[0]] > 0 && d.inside[kinds[1]] > 0 {
		d.meetings++
	}
	fmt.Fprintf(d.out, "%s started: %d exports and %d imports running\n", kind, d.inside[kinds[0]], d.inside[kinds[1]])
}

func (d *database) leave(kind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside[kind]--
	d.done[kind]++
}

// summary prints the result. It returns an error if the run failed.
func (d *database) summary(want int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintln(d.out)
	for _, kind := range kinds {
		fmt.Fprintf(d.out, "%ss   %d of %d, at most %d concurrent\n", kind, d.done[kind], want, d.most[kind])
	}
	fmt.Fprintf(d.out, "meetings  %d\n", d.meetings)
	if d.meetings > 0 || d.done[kinds[0]] != want || d.done[kinds[1]] != want {
		return fmt.Errorf("completed %d exports and %d imports, want %d each; %d meetings", d.done[kinds[0]], d.done[kinds[1]], want, d.meetings)
	}
	return nil
}
