// Workers divide the partitions of a queue, a table or a topic with recipes/shard. When a worker
// joins, leaves or crashes, as few partitions as possible move. A worker that loses a partition
// stops working on it before another worker takes it.
//
//	go run ./examples/workers
//	go run ./examples/workers -servers host:port,... -workers 4 -partitions 12
//
// It exits with 1 if two workers ever worked on one partition, or if a partition was never worked
// on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gocurator/curator/examples/internal/demo"
)

func main() {
	p := pool{out: os.Stdout}
	servers := demo.Servers()
	flag.IntVar(&p.workers, "workers", 4, "number of workers at first, each with its own session")
	flag.IntVar(&p.partitions, "partitions", 12, "number of partitions")
	flag.DurationVar(&p.session, "session", 4*time.Second, "session timeout: how long a crash goes unnoticed")
	flag.StringVar(&p.path, "path", "/curator-workers", "`path` of the group and the locks")
	flag.Parse()

	demo.Main(func(ctx context.Context) error {
		list, stop, err := demo.Connect(ctx, p.out, *servers)
		if err != nil {
			return err
		}
		defer stop()
		return p.run(ctx, list)
	})
}

// pool is one run: workers join, crash and leave.
type pool struct {
	out                 io.Writer
	path                string
	workers, partitions int
	session             time.Duration
}

func (p pool) run(ctx context.Context, servers []string) (err error) {
	if p.workers < 2 || p.partitions < 1 {
		return errors.New("-workers must be at least 2, -partitions at least 1")
	}
	b := newBoard(p.out, p.partitions)
	var all []*worker // the first left of them have left
	left := 0
	defer func() {
		for _, w := range all[left:] {
			err = errors.Join(err, w.stop(ctx))
		}
		err = errors.Join(err, b.summary())
	}()
	add := func() error {
		w, err := p.start(ctx, servers, fmt.Sprintf("worker-%d", len(all)+1), b)
		if err == nil {
			all = append(all, w)
		}
		return err
	}
	for range p.workers {
		if err := add(); err != nil {
			return err
		}
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"all have joined", func() error { return nil }},
		{"one more joins", add},
		{"the first one crashes", func() error { left++; all[0].crash(); return nil }},
		{"the next one is drained", func() error { left++; return all[1].stop(ctx) }},
	}
	for _, step := range steps {
		b.say("\n%s", step.what)
		if err := step.do(); err != nil {
			return err
		}
		began := time.Now()
		if err := b.settled(ctx, ids(all[left:])); err != nil {
			return err
		}
		b.say("each partition has its worker after %v", time.Since(began).Round(time.Millisecond))
	}
	return nil
}

func ids(all []*worker) (ids []string) {
	for _, w := range all {
		ids = append(ids, w.id)
	}
	return ids
}
