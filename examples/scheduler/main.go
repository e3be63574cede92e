// Scheduler runs jobs in one of several instances. The others wait. One of them continues when the
// active instance is stopped for a deploy, or crashes.
//
// Each instance campaigns for a term of leadership and runs jobs during its term. It records each
// finished job with the term's guard. So an instance that was stopped for a while (SIGSTOP, a long
// pause) cannot record a job that the next leader has done already. On SIGTERM the active instance
// finishes its current job and then resigns.
//
//	go run ./examples/scheduler
//	go run ./examples/scheduler -servers host:port,... -id a
//
// Without -servers it simulates a deploy: three instances in one process, and each active instance
// is stopped and replaced. It exits with 1 if a job was done twice or left out. With -servers it is
// one instance, until it is interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/examples/internal/demo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
)

func main() {
	s := scheduler{out: &lines{out: os.Stdout}}
	servers := demo.Servers()
	flag.StringVar(&s.id, "id", fmt.Sprintf("scheduler-%d", os.Getpid()), "name of the instance")
	flag.StringVar(&s.path, "path", "/curator-scheduler", "`path` of the election and the progress")
	flag.DurationVar(&s.every, "every", 100*time.Millisecond, "time that a job takes")
	flag.DurationVar(&s.timeout, "session", 10*time.Second, "session timeout: how long a crash goes unnoticed")
	deploys := flag.Int("deploys", 3, "active instances to stop and replace, without -servers")
	flag.Parse()

	demo.Main(func(ctx context.Context) error {
		list, stop, err := demo.Connect(ctx, os.Stdout, *servers)
		if err != nil {
			return err
		}
		defer stop()
		if *servers == "" {
			return s.deploy(ctx, list, *deploys)
		}
		return s.run(ctx, list)
	})
}

// scheduler is one instance.
type scheduler struct {
	out     *lines
	id      string
	path    string
	every   time.Duration
	timeout time.Duration
	did     func(job int) // nil, or called after each job
}

func (s scheduler) electionPath() string { return framework.Join(s.path, "leader") }
func (s scheduler) progressPath() string { return framework.Join(s.path, "progress") }

// run takes part until ctx is done.
func (s scheduler) run(ctx context.Context, servers []string) error {
	if s.every <= 0 || s.id == "" {
		return errors.New("-id must not be empty, and -every must be positive")
	}
	client, err := framework.New(servers, framework.WithSessionTimeout(s.timeout))
	if err != nil {
		return err
	}
	defer client.Close()
	e, err := leader.New(client, s.electionPath(), leader.WithID(s.id))
	if err != nil {
		return err
	}
	_, err = client.Create(ctx, s.progressPath(), []byte("0"), framework.PersistentParents(), framework.IfMissing())
	if err != nil {
		return err
	}
	err = e.Run(ctx, func(ctx context.Context, term *leader.Term) error { return s.lead(ctx, client, term) })
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // stopped in order
	}
	return err
}

// lead does jobs until the term ends. The next leader waits until lead has returned.
func (s scheduler) lead(ctx context.Context, client *framework.Client, term *leader.Term) error {
	s.out.say("%s: leads", s.id)
	for {
		job, err := s.job(ctx, client, term)
		switch {
		case err == nil:
			s.out.say("%s: did job %d", s.id, job)
			if s.did != nil {
				s.did(job)
			}
		case ctx.Err() != nil:
			s.out.say("%s: stops: %v", s.id, context.Cause(ctx))
			return nil
		case errors.Is(err, zk.ErrNoNode): // the guard: the term is over, and its context has not ended yet
			s.out.say("%s: refused", s.id)
			return nil
		default:
			return err
		}
	}
}

// job does the next job. It finishes the job even if ctx ends before, unless the term ends.
func (s scheduler) job(ctx context.Context, client *framework.Client, term *leader.Term) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	data, stat, err := client.Get(term.Context(), s.progressPath())
	if err != nil {
		return 0, err
	}
	last, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(s.every): // the work
	case <-term.Done():
		return 0, term.Err()
	}
	done := framework.SetOp(s.progressPath(), []byte(strconv.Itoa(last+1)), framework.IfVersion(stat.Version))
	_, err = client.Multi(term.Context(), term.Guard(), done)
	if errors.Is(err, zk.ErrBadVersion) {
		err = nil // no other client writes during this term: this request was applied, and its reply lost
	}
	return last + 1, err
}

// deploy simulates a deploy: it runs three instances, and stops and replaces the active one several
// times.
func (s scheduler) deploy(ctx context.Context, servers []string, deploys int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type did struct{ instance, job int }
	jobs := make(chan did)
	stop := make(map[int]context.CancelFunc)
	var wg sync.WaitGroup
	start := func(n int) {
		one, end := context.WithCancel(ctx)
		stop[n] = end
		instance := s
		instance.id = fmt.Sprintf("instance %d", n)
		instance.did = func(job int) { jobs <- did{n, job} }
		wg.Go(func() {
			if err := instance.run(one, servers); err != nil {
				cancel(fmt.Errorf("%s: %w", instance.id, err)) // one failure ends all
			}
		})
	}
	const instances, each = 3, 5 // jobs of each active instance
	for n := range instances {
		start(n + 1)
	}
	newest, last, count, err := instances, 0, 0, error(nil)
	for handed := 0; handed <= deploys && err == nil; {
		select {
		case d := <-jobs:
			count++
			last = max(last, d.job)
			if end := stop[d.instance]; end != nil && last >= (handed+1)*each {
				end()
				delete(stop, d.instance)
				newest++
				start(newest)
				handed++
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	cancel(nil)
	for _, end := range stop {
		end()
	}
	go func() { // ends with the instances
		wg.Wait()
		close(jobs)
	}()
	for d := range jobs { // the instances that finished a job
		count++
		last = max(last, d.job)
	}
	if err != nil {
		return err
	}
	return s.summary(count, last)
}

// summary checks that each job was done once.
func (s scheduler) summary(count, last int) error {
	s.out.say("\njobs run once  %d of %d", count, last)
	if count != last {
		return errors.New("a job was skipped or run twice")
	}
	return nil
}

// lines is the output of several instances.
type lines struct {
	mu  sync.Mutex // guards the fields below
	out io.Writer
}

func (l *lines) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, format+"\n", args...)
}
