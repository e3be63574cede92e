package main

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// board records who works on which partition, and counts violations.
type board struct {
	out io.Writer

	mu      sync.Mutex // guards what follows
	workers [][]string // by partition: who works on it; more than one is a violation
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
	fmt.Fprintf(b.out, "%s  takes partition %d\n", id, n)
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
	fmt.Fprintf(b.out, "%s  gives partition %d up\n", id, n)
	b.notify()
}

func (b *board) worked(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items[n]++
}

// notify wakes those who wait. b.mu is held.
func (b *board) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// settled waits until each partition has exactly the worker that owns it among these members.
func (b *board) settled(ctx context.Context, ids []string) error {
	members := map[string][]byte{}
	for _, id := range ids {
		members[id] = nil
	}
	for {
		b.mu.Lock()
		good, changed := true, b.changed
		for n, workers := range b.workers {
			good = good && len(workers) == 1 && workers[0] == share(members, n)
		}
		b.mu.Unlock()
		if good {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// summary prints the result. Its error is what went wrong.
func (b *board) summary() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle, items := 0, 0
	for n, workers := range b.workers {
		items += b.items[n]
		if len(workers) == 0 {
			idle++
		}
	}
	fmt.Fprintf(b.out, "\npartitions    %d, taken %d times\n", len(b.workers), b.moves)
	fmt.Fprintf(b.out, "items         %d\n", items)
	fmt.Fprintf(b.out, "clashes       %d\n", b.clashes)
	fmt.Fprintf(b.out, "idle          %d\n", idle)
	if b.clashes > 0 || idle > 0 {
		return fmt.Errorf("%d clashes, %d partitions without a worker", b.clashes, idle)
	}
	return nil
}
