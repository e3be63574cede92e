// Quickstart lets many workers, each with a separate ZooKeeper session, contend for one mutex, and
// checks that no two of them ever held it at the same time.
//
// While it holds the mutex, each worker reads a counter, waits for up to 5 ms, and writes the
// counter plus one. If two workers held at the same time, an increment would be lost. Quickstart
// also checks that fencing tokens rise from holder to holder.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -servers host:port,... -workers 15 -rounds 20
//
// It exits with 1 if anything is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gocurator/curator/examples/internal/demo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
)

func main() {
	job := job{out: os.Stdout}
	servers := demo.Servers()
	flag.IntVar(&job.workers, "workers", 15, "number of workers, each with its own session")
	flag.IntVar(&job.rounds, "rounds", 10, "acquisitions per worker")
	flag.DurationVar(&job.think, "think", 5*time.Millisecond, "longest time spent inside the mutex")
	flag.StringVar(&job.path, "path", "/curator-quickstart", "`path` of the mutex and the counter")
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

// job is one run of the experiment.
type job struct {
	out             io.Writer
	path            string
	workers, rounds int
	think           time.Duration
}

func (j job) lockPath() string    { return framework.Join(j.path, "lock") }
func (j job) counterPath() string { return framework.Join(j.path, "counter") }

func (j job) run(ctx context.Context, servers []string) error {
	if j.workers < 1 || j.rounds < 1 || j.think < 0 {
		return errors.New("-workers and -rounds must be positive, and -think must not be negative")
	}
	client, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := j.reset(ctx, client); err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		log journal
		wg  sync.WaitGroup
	)
	began := time.Now()
	for n := range j.workers {
		wg.Go(func() {
			if err := j.work(ctx, servers, n+1, &log); err != nil {
				cancel(fmt.Errorf("worker %d: %w", n+1, err)) // one failure ends the run
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	counter, _, err := client.Get(ctx, j.counterPath())
	if err != nil {
		return err
	}
	return log.summary(j.out, j.workers*j.rounds, string(counter), time.Since(began))
}

// reset sets a counter to zero, also one of an earlier run.
func (j job) reset(ctx context.Context, client *framework.Client) error {
	_, err := client.Create(ctx, j.counterPath(), []byte("0"), framework.ContainerParents(), framework.OrSet())
	return err
}

// work runs one worker with its own session for j.rounds turns.
func (j job) work(ctx context.Context, servers []string, worker int, log *journal) error {
	client, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	m, err := mutex.New(client, j.lockPath())
	if err != nil {
		return err
	}
	for range j.rounds {
		if err := j.turn(ctx, client, m, worker, log); err != nil {
			return err
		}
	}
	return nil
}

// turn acquires the mutex, changes the counter that it protects, and releases.
func (j job) turn(ctx context.Context, client *framework.Client, m *mutex.Mutex, worker int, log *journal) error {
	asked := time.Now()
	hold, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	waited := time.Since(asked)
	defer hold.Release()

	token, err := hold.FencingToken(hold.Context())
	if err != nil {
		return err
	}
	log.enter(j.out, worker, token, waited)
	if err := j.increment(hold.Context(), client); err != nil {
		return err
	}
	log.leave()
	return hold.Release()
}

// increment is not atomic, on purpose.
func (j job) increment(ctx context.Context, client *framework.Client) error {
	data, _, err := client.Get(ctx, j.counterPath())
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	select {
	case <-time.After(rand.N(j.think + 1)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err = client.Set(ctx, j.counterPath(), []byte(strconv.Itoa(n+1)))
	return err
}

// journal collects the reports of the workers.
type journal struct {
	mu                 sync.Mutex // guards the fields below
	inside, violations int
	acquisitions       int
	lastToken          int64
	minWait, maxWait   time.Duration
	totalWait          time.Duration
}

func (l *journal) enter(out io.Writer, worker int, token int64, waited time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside++
	if l.inside > 1 || token <= l.lastToken {
		l.violations++
	}
	l.lastToken = token
	if l.acquisitions == 0 || waited < l.minWait {
		l.minWait = waited
	}
	l.maxWait = max(l.maxWait, waited)
	l.totalWait += waited
	l.acquisitions++
	fmt.Fprintf(out, "worker %2d  token %6d  waited %s\n", worker, token, waited.Round(10*time.Microsecond))
}

func (l *journal) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside--
}

// summary prints the result. It returns an error if the run failed.
func (l *journal) summary(out io.Writer, want int, counter string, took time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	average := l.totalWait / time.Duration(max(l.acquisitions, 1))
	fmt.Fprintf(out, "\nwait          min %v, average %v, max %v\n",
		l.minWait.Round(10*time.Microsecond), average.Round(10*time.Microsecond), l.maxWait.Round(10*time.Microsecond))
	fmt.Fprintf(out, "acquisitions  %d of %d in %v\n", l.acquisitions, want, took.Round(time.Millisecond))
	fmt.Fprintf(out, "counter       %s\n", counter)
	fmt.Fprintf(out, "violations    %d\n", l.violations)
	if l.violations > 0 || l.acquisitions != want || counter != strconv.Itoa(want) {
		return fmt.Errorf("mutual exclusion violated %d times, counter is %s, want %d", l.violations, counter, want)
	}
	return nil
}
