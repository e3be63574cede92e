package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
)

// cacheProgram is this library's side of the comparison of caches, in a process of its own like
// Java's (peers/Caches.java). Both answer the same lines with a line of numbers:
//
//	load PATH    makes a cache and waits until all is loaded: nanoseconds, bytes of heap, nodes
//	follow END   listens to changes: 0
//	delays       waits for a change to END: the nanoseconds from write to event of all changes until then
//	services B   watches each service below B: nanoseconds, bytes of heap, instances, bytes of stacks, goroutines or threads
//	resident     bytes of memory that the process has, in all; 0 if that is not known
//	register B N registers N instances of a service below B: 0
//	close        closes the cache, the watches and the registrations: 0
type cacheProgram struct {
	client  *framework.Client
	cache   *cache.Cache
	events  chan followed
	watches []*discovery.Watch[any]
	ours    []*discovery.Registration[any]
}

// followed is the result of listening.
type followed struct {
	delays []int64
	ended  bool
}

// serveCaches answers lines until there are no more.
func serveCaches(ctx context.Context, servers string, in io.Reader, out io.Writer) error {
	client, err := framework.New(strings.Split(servers, ","), framework.WithSessionTimeout(sessionTimeout))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.WaitConnected(ctx); err != nil {
		return err
	}
	p := &cacheProgram{client: client}
	defer p.close()
	return serveLines(in, out, func(words []string) ([]int64, error) { return p.answer(ctx, words) })
}

func (p *cacheProgram) answer(ctx context.Context, words []string) ([]int64, error) {
	switch {
	case len(words) == 2 && words[0] == "load":
		return p.load(ctx, words[1])
	case len(words) == 2 && words[0] == "services":
		return p.services(ctx, words[1])
	case len(words) == 1 && words[0] == "resident":
		n, err := resident()
		return []int64{n}, err
	case len(words) == 3 && words[0] == "register":
		n, err := strconv.Atoi(words[2])
		if err != nil {
			return nil, err
		}
		return []int64{0}, p.register(ctx, words[1], n)
	case len(words) == 2 && words[0] == "follow" && p.cache != nil:
		p.follow(ctx, words[1])
		return []int64{0}, nil
	case len(words) == 1 && words[0] == "delays" && p.events != nil:
		f := <-p.events
		p.events = nil
		if !f.ended {
			return nil, fmt.Errorf("the cache has ended: %w", p.cache.Err())
		}
		return f.delays, nil
	case len(words) == 1 && words[0] == "close":
		p.close()
		return []int64{0}, nil
	}
	return nil, fmt.Errorf("no such command now")
}

func (p *cacheProgram) load(ctx context.Context, path string) ([]int64, error) {
	p.close()
	before, began := heap(), time.Now()
	c, err := cache.New(p.client, path)
	if err != nil {
		return nil, err
	}
	p.cache = c
	if err := c.Sync(ctx); err != nil {
		return nil, err
	}
	took := time.Since(began)
	return []int64{int64(took), heap() - before, int64(c.Stats().Nodes)}, nil
}

func (p *cacheProgram) services(ctx context.Context, base string) ([]int64, error) {
	p.close()
	before, stacks, threads := heapAndStacks()
	began := time.Now()
	d, err := discovery.New[any](p.client, base)
	if err != nil {
		return nil, err
	}
	names, err := d.Names(ctx)
	if err != nil {
		return nil, err
	}
	instances := 0
	for _, name := range names {
		w, err := d.Watch(ctx, name)
		if err != nil {
			return nil, err
		}
		p.watches = append(p.watches, w)
		instances += len(w.Instances())
	}
	took := time.Since(began)
	heapNow, stacksNow, threadsNow := heapAndStacks()
	return []int64{int64(took), heapNow - before, int64(instances), stacksNow - stacks, threadsNow - threads}, nil
}

func (p *cacheProgram) register(ctx context.Context, base string, n int) error {
	d, err := discovery.New[any](p.client, base)
	if err != nil {
		return err
	}
	for i := range n {
		r, err := d.Register(ctx, discovery.Instance[any]{Name: "service", ID: strconv.Itoa(i), Address: "10.0.0.1", Port: 8080})
		if err != nil {
			return err
		}
		p.ours = append(p.ours, r)
	}
	return nil
}

// follow starts a goroutine that listens to changes. It exits at the change of the node end, or
// with the cache.
func (p *cacheProgram) follow(ctx context.Context, end string) {
	events, c := make(chan followed, 1), p.cache
	p.events = events
	go func() {
		var f followed
		for change, err := range c.Changes(ctx) {
			now := time.Now().UnixNano()
			if err != nil || change.Kind != cache.Changed {
				continue
			}
			text := strings.TrimSpace(string(change.New.Data))
			if text == end {
				f.ended = true
				break
			}
			if sent, err := strconv.ParseInt(text, 10, 64); err == nil {
				f.delays = append(f.delays, now-sent)
			}
		}
		events <- f
	}()
}

func (p *cacheProgram) close() {
	if p.cache != nil {
		p.cache.Close()
	}
	for _, w := range p.watches {
		w.Close()
	}
	for _, r := range p.ours {
		_ = r.Close() // as the session ends
	}
	p.cache, p.events, p.watches, p.ours = nil, nil, nil, nil
}

// heap is what the heap and the stacks use after everything unused was collected.
func heap() int64 {
	heap, stacks, _ := heapAndStacks()
	return heap + stacks
}

// heapAndStacks collects garbage, and returns the memory of the heap and of the goroutines' stacks.
func heapAndStacks() (heap, stacks, goroutines int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse), int64(runtime.NumGoroutine())
}
