package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

// followTail lets two clients on two servers work alternately, one request at a time, on an
// otherwise idle ensemble. That is when ZooKeeper 3.6.0 to 3.8.0 leaves a request unanswered until
// the next one (ZOOKEEPER-4537). Turns with and without nudges alternate: see package conn.
func (o *options) followTail(ctx context.Context, s *servers, out io.Writer) error {
	var with, without requests
	for range o.rounds {
		for _, r := range []*requests{&without, &with} {
			if err := r.turn(ctx, s.addresses, o.turn, r == &with); err != nil {
				return err
			}
			fmt.Fprintf(out, "%s nudges=%t %d cycles\n", time.Now().Format(time.TimeOnly), r == &with, len(r.cycles))
		}
	}
	fmt.Fprint(out, "\n| nudges | cycles | p50 | p99 | p99.9 | p99.99 | max |")
	for _, b := range bands[1:] {
		fmt.Fprintf(out, " %v and more |", b)
	}
	fmt.Fprintln(out, "\n"+strings.Repeat("| --- ", 7+len(bands)-1)+"|")
	without.row(out, "no")
	with.row(out, "yes")
	return nil
}

// bands are the lower ends of the lengths that requests are counted by. One that was forgotten, and
// got a nudge after 50 ms, is in the band that begins there; one that waited for a ping is in the
// last.
var bands = [...]time.Duration{0, 40 * time.Millisecond, 50 * time.Millisecond, 60 * time.Millisecond, 70 * time.Millisecond, time.Second}

// requests are the results of all turns of one kind.
type requests struct {
	cycles []time.Duration // durations of a create, a get and a delete
	counts [len(bands)]int // the number of requests, by band
	worst  []string        // those in the last band
}

// turn runs two new clients. The clients of other turns are closed: their pings would wake the
// servers.
func (r *requests) turn(ctx context.Context, addresses []string, turn time.Duration, nudges bool) error {
	var clients []*framework.Client
	for i := range 2 {
		opts := []framework.Option{framework.WithSessionTimeout(15 * time.Second)}
		if !nudges {
			opts = append(opts, engine.Configure[framework.Option](func(c *engine.Config) { c.Nudges = false }))
		}
		c, err := framework.New(addresses[i%len(addresses):][:1], opts...)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.WaitConnected(ctx); err != nil {
			return err
		}
		clients = append(clients, c)
	}
	for end := time.Now().Add(turn); time.Now().Before(end); {
		for _, c := range clients {
			if err := r.cycle(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// cycle is a create, a get and a delete.
func (r *requests) cycle(ctx context.Context, c *framework.Client) error {
	began := time.Now()
	last := began
	ended := func(op string) {
		now := time.Now()
		r.count(op, now.Sub(last))
		last = now
	}
	path, err := c.Create(ctx, "/bench-tail", nil, framework.As(framework.Ephemeral))
	if err != nil {
		return err
	}
	ended("create")
	if _, _, err := c.Get(ctx, path); err != nil {
		return err
	}
	ended("get")
	if err := c.Delete(ctx, path); err != nil {
		return err
	}
	ended("delete")
	r.cycles = append(r.cycles, last.Sub(began))
	return nil
}

// count notes how long a request took.
func (r *requests) count(op string, took time.Duration) {
	band := len(bands) - 1
	for took < bands[band] {
		band--
	}
	r.counts[band]++
	if band == len(bands)-1 {
		r.worst = append(r.worst, fmt.Sprintf("%s %v", op, took.Round(time.Millisecond)))
	}
}

// row is a line of the table.
func (r *requests) row(out io.Writer, name string) {
	fmt.Fprintf(out, "| %s | %d |", name, len(r.cycles))
	slices.Sort(r.cycles)
	for _, q := range []float64{0.5, 0.99, 0.999, 0.9999, 1} {
		fmt.Fprintf(out, " %.2f ms |", float64(quantile(r.cycles, q))/1e6)
	}
	for _, n := range r.counts[1:] {
		fmt.Fprintf(out, " %d |", n)
	}
	fmt.Fprintln(out, strings.Join(r.worst, ", "))
}
