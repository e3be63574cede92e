package main

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// board records the worker of each partition, and counts violations.
type board struct {
	out io.Writer

	mu      sync.Mutex // guards the fields below
	workers [][]string // the workers of each partition; more than one is a violation
	items   []int
	moves   int
	clashes int
	changed chan struct{} // closed and replaced at each change
}

func newBoard(out io.Writer, partitions int) *board {
	return &board{out: out, workers: make([][]string, partitions), items: make([]int, partitions), changed: make(chan struct{})}
}

func (b *board) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.out, format+"\n", args...)
}

func (b *board) begin(n int, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.workers[n]) > 0 {
		b.clashes++
	}
	b.workers[n] = append(b.workers[n], id)
	b.moves++
	fmt.Fprintf(b.out, "%s  acquired partition %d\n", id, n)
	b.notify()
}

func (b *board) end(n int, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.workers[n] {
		if other == id {
			b.workers[n] = append(b.workers[n][:i:i], b.workers[n][i+1:]...)
			break
		}
	}
	fmt.Fprintf(b.out, "%s  released partition %d\n", id, n)
	b.notify()
}

func (b *board) worked(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items[n]++
}

// notify wakes the waiters. b.mu is held.
func (b *board) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// settled waits until each partition has one worker and the shares differ by at most one.
func (b *board) settled(ctx context.Context, ids []string) error {
	for {
		b.mu.Lock()
		shares, good, changed := map[string]int{}, true, b.changed
		for _, workers := range b.workers {
			good = good && len(workers) == 1
			for _, id := range workers {
				shares[id]++
			}
		}
		b.mu.Unlock()
		sum := 0
		for _, id := range ids {
			good = good && shares[id] >= len(b.workers)/len(ids)
			sum += shares[id]
		}
		if good && sum == len(b.workers) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// summary prints the result. It returns an error if the run failed.
func (b *board) summary() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, untouched := 0, 0
	for _, n := range b.items {
		if items += n; n == 0 {
			untouched++
		}
	}
	fmt.Fprintf(b.out, "\npartitions    %d, acquired %d times\n", len(b.workers), b.moves)
	fmt.Fprintf(b.out, "items         %d\n", items)
	fmt.Fprintf(b.out, "clashes       %d\n", b.clashes)
	fmt.Fprintf(b.out, "unprocessed   %d\n", untouched)
	if b.clashes > 0 || untouched > 0 {
		return fmt.Errorf("%d clashes, %d partitions not processed", b.clashes, untouched)
	}
	return nil
}
