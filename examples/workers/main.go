// Workers share the partitions of a queue, a table or a topic. Each worker is a member of a group, and computes
// from the list of members which partitions are its own. When a worker joins, leaves or crashes, all workers
// compute that again. A worker that loses a partition first stops working on it, and then releases the
// partition's lock, for which the next worker waits.
//
// Membership alone is not enough: two workers may see a change of the group at different times, and both
// consider a partition their own meanwhile. The lock decides.
//
//	go run ./examples/workers
//	go run ./examples/workers -servers host:port,... -workers 4 -partitions 12
//
// It exits with 1 if two workers ever worked on one partition, or if nobody does in the end.
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
	flag.StringVar(&p.path, "path", "/curator-workers", "where to put the group and the locks")
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

func (p pool) run(ctx context.Context, servers []string) error {
	if p.workers < 2 || p.partitions < 1 {
		return errors.New("workers must be at least 2, partitions at least 1")
	}
	b := newBoard(p.out, p.partitions)
	var all []*worker // the first left of them are gone
	left := 0
	defer func() {
		for _, w := range all {
			w.stop()
		}
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
		{"all are here", func() error { return nil }},
		{"one more comes", add},
		{"the first one crashes", func() error { all[0].net.cut(); left++; return nil }},
		{"the next one leaves", func() error { all[1].stop(); left++; return nil }},
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
	return b.summary()
}

func ids(all []*worker) (ids []string) {
	for _, w := range all {
		ids = append(ids, w.id)
	}
	return ids
}
