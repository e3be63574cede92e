package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

//go:embed peers/Caches.java
var javaCaches string

// cacheBench compares cache.Cache with Java's CuratorCache, each in its own process. They load the
// same trees in turn, and follow the same writes of this process for the delay.
type cacheBench struct {
	servers *servers
	rounds  int
	loads   []int         // nodes of the trees that are loaded
	rate    int           // writes for each second, for the delay
	writing time.Duration // how long
	burst   int           // writes to one node
	writer  *framework.Client
	root    string // the root of all trees
}

// figure is the result of one turn.
type figure struct {
	name, unit string
	value      float64
}

// cacheColumn holds the figures of one system, by round.
type cacheColumn struct {
	system string
	rounds [][]figure
}

// run gives each peer its turns and returns the results. The first round is a warm-up.
func (b *cacheBench) run(ctx context.Context, peers []*peer) (columns []cacheColumn, err error) {
	client, err := framework.New(b.servers.addresses, framework.WithSessionTimeout(sessionTimeout))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	b.writer, b.root = client, fmt.Sprintf("/bench-caches-%d", time.Now().UnixNano())
	if b.servers.network == "" { // the servers stay, so nothing else may
		defer func() {
			err = errors.Join(err, client.Delete(ctx, b.root, framework.IfExists(), framework.WithChildren()))
		}()
	}
	for _, n := range b.loads {
		if err := b.plant(ctx, b.load(n), n); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(b.plant(ctx, b.delayed(), delayNodes), b.plant(ctx, b.flooded(), 0)); err != nil {
		return nil, err
	}
	columns = make([]cacheColumn, len(peers))
	for round := range b.rounds + 1 {
		rows := make([][]figure, len(peers))
		for i, p := range peers {
			columns[i].system = p.system
			if rows[i], err = b.turn(ctx, p); err != nil {
				return nil, fmt.Errorf("%s: %w", p.system, err)
			}
		}
		delays, err := b.delays(ctx, peers)
		if err != nil {
			return nil, err
		}
		for i := range peers {
			if round > 0 {
				columns[i].rounds = append(columns[i].rounds, append(rows[i], delays[i]...))
			}
		}
	}
	return columns, nil
}

func (b *cacheBench) load(n int) string { return fmt.Sprintf("%s/load-%d", b.root, n) }
func (b *cacheBench) delayed() string   { return b.root + "/delay" }
func (b *cacheBench) flooded() string   { return b.root + "/burst" }

const (
	delayNodes = 100
	directory  = 1_000 // nodes in each; a list of more than about 50,000 is too long for a reply
	end        = "end" // written last
)

// turn runs one round of one system.
func (b *cacheBench) turn(ctx context.Context, p *peer) (figures []figure, err error) {
	for _, n := range b.loads {
		loaded, err := p.load(b.load(n))
		if err != nil {
			return nil, err
		}
		// CuratorCache 5.4 omits nodes if more than 65,535 requests are in flight. The time of a
		// partial load is meaningless.
		took, heap := float64(loaded.took)/1e6, float64(loaded.heap)/float64(max(1, loaded.nodes))
		if loaded.nodes != n+(n+directory-1)/directory+1 {
			took, heap = math.NaN(), math.NaN()
		}
		figures = append(figures, figure{fmt.Sprintf("load %d nodes of 100 bytes", n), "ms", took},
			figure{"nodes that were loaded, with their directories", "", float64(loaded.nodes)},
			figure{"heap for each of them", "bytes", heap})
	}
	burst, err := b.reads(ctx, p)
	if err != nil {
		return nil, err
	}
	_, err = p.ask("close")
	return append(figures, burst), err
}

// delays writes at a rate to some nodes while all caches follow, so that a disturbance of the
// machine affects all of them. Each write contains its time.
func (b *cacheBench) delays(ctx context.Context, peers []*peer) (figures [][]figure, err error) {
	for _, p := range peers {
		if err := p.tell("load "+b.delayed(), "follow "+end); err != nil {
			return nil, err
		}
	}
	writes, began := b.rate*int(b.writing/time.Millisecond)/1000, time.Now()
	err = b.write(ctx, writes, func(i int) (string, string) {
		// The pace of the writes is part of the measurement: 1,000 a second, not as many as
		// possible.
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(b.rate))))
		return nodeOf(b.delayed(), i%delayNodes), strconv.FormatInt(time.Now().UnixNano(), 10)
	})
	if err != nil {
		return nil, err
	}
	perSecond := float64(writes) / time.Since(began).Seconds()
	if _, err := b.writer.Set(ctx, nodeOf(b.delayed(), 0), []byte(end)); err != nil {
		return nil, err
	}
	for _, p := range peers {
		delays, err := p.ask("delays")
		if err != nil {
			return nil, err
		}
		if _, err := p.ask("close"); err != nil {
			return nil, err
		}
		at := fmt.Sprintf("delay at %d writes/s", b.rate)
		figures = append(figures, []figure{
			{at + ", 50 %", "ms", float64(quantile(delays, 0.5)) / 1e6},
			{at + ", 99 %", "ms", float64(quantile(delays, 0.99)) / 1e6},
			{"events for each write", "", float64(len(delays)) / float64(writes)},
			{"writes that were done", "for each second", perSecond},
		})
	}
	return figures, nil
}

// reads counts the requests of a cache while one node is written. Pings are among them: one in some
// seconds.
func (b *cacheBench) reads(ctx context.Context, p *peer) (f figure, err error) {
	if err := p.tell("load "+b.flooded(), "follow "+end); err != nil {
		return f, err
	}
	before, err := b.servers.counters(ctx)
	if err != nil {
		return f, err
	}
	err = b.write(ctx, b.burst, func(i int) (string, string) { return b.flooded(), strconv.Itoa(i) })
	if err != nil {
		return f, err
	}
	if _, err := b.writer.Set(ctx, b.flooded(), []byte(end)); err != nil {
		return f, err
	}
	if _, err := p.ask("delays"); err != nil { // the cache has the last write
		return f, err
	}
	after, err := b.servers.counters(ctx)
	return figure{fmt.Sprintf("reads for %d writes to one node", b.burst), "", float64(after.requests - before.requests - int64(b.burst) - 1)}, err
}

// write performs n writes, 16 at a time. next returns a path and data, which are padded to 100
// bytes.
func (b *cacheBench) write(ctx context.Context, n int, next func(i int) (path, data string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg   sync.WaitGroup
		last atomic.Int64
	)
	for range 16 {
		wg.Go(func() {
			for i := int(last.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(last.Add(1)) - 1 {
				path, data := next(i)
				if _, err := b.writer.Set(ctx, path, fmt.Appendf(nil, "%-100s", data)); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func nodeOf(path string, i int) string {
	return fmt.Sprintf("%s/dir-%d/node-%07d", path, i/directory, i)
}

// plant creates a tree of n nodes of 100 bytes, and of their directories.
func (b *cacheBench) plant(ctx context.Context, path string, n int) error {
	data, acl := make([]byte, 100), zk.WorldACL(zk.PermAll)
	for i := range data {
		data[i] = ' '
	}
	for _, parent := range []string{b.root, path} {
		if _, err := b.writer.Create(ctx, parent, data); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	for i := 0; i < n; i += directory {
		ops := []any{&zk.CreateRequest{Path: fmt.Sprintf("%s/dir-%d", path, i/directory), Acl: acl}}
		for j := i; j < min(n, i+directory); j++ {
			ops = append(ops, &zk.CreateRequest{Path: nodeOf(path, j), Data: data, Acl: acl})
		}
		if _, err := b.writer.Multi(ctx, ops...); err != nil {
			return err
		}
	}
	return nil
}

// printCaches writes a table in Markdown: the median of the rounds, and of the ratios to the first
// column in each round.
func printCaches(w io.Writer, columns []cacheColumn) {
	head, rule := "| |", "| --- |"
	for i, c := range columns {
		head, rule = head+" "+c.system+" |", rule+" --- |"
		if i > 0 {
			head, rule = head+" × "+columns[0].system+" |", rule+" --- |"
		}
	}
	fmt.Fprintf(w, "\n%s\n%s\n", head, rule)
	for row, f := range columns[0].rounds[0] {
		fmt.Fprintf(w, "| %s |", f.name)
		for i, c := range columns {
			var values, ratios []float64
			for round, figures := range c.rounds {
				values = append(values, figures[row].value)
				if base := columns[0].rounds[round][row].value; base > 0 {
					ratios = append(ratios, figures[row].value/base)
				}
			}
			if slices.ContainsFunc(values, math.IsNaN) {
				fmt.Fprint(w, strings.Repeat(" – |", min(i, 1)+1))
				continue
			}
			fmt.Fprintf(w, " %s |", strings.TrimSpace(short(quantile(values, 0.5))+" "+f.unit))
			if i > 0 {
				fmt.Fprintf(w, " %.2f |", quantile(ratios, 0.5))
			}
		}
		fmt.Fprintln(w)
	}
}

// short formats a number without irrelevant digits.
func short(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// loaded is a peer's result of a load.
type loaded struct {
	took  time.Duration
	heap  int64
	nodes int
}

func (p *peer) load(path string) (loaded, error) {
	n, err := p.numbers("load "+path, 3)
	if err != nil {
		return loaded{}, err
	}
	return loaded{time.Duration(n[0]), n[1], int(n[2])}, nil
}

// watched is a peer's result of watching services.
type watched struct {
	loaded        // the nodes are the instances
	stacks  int64 // bytes, of goroutines
	threads int64 // threads, or goroutines
}

// watch asks a peer to watch all services below base.
func (p *peer) watch(base string) (watched, error) {
	n, err := p.numbers("services "+base, 5)
	if err != nil {
		return watched{}, err
	}
	return watched{loaded{time.Duration(n[0]), n[1], int(n[2])}, n[3], n[4]}, nil
}

// caches compares caches and prints the results.
func (o *options) caches(ctx context.Context, s *servers) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	java := slices.Contains(o.with, "java") // then both are in a container of the same image
	addresses := []string{strings.Join(s.addresses, ","), strings.Join(s.addresses, ",")}
	var relays []*relay
	if o.services {
		if relays, err = s.relays(ctx, len(addresses)); err != nil {
			return err
		}
		for i, r := range relays {
			defer r.close()
			addresses[i] = r.address()
		}
	}
	serve := []string{"-cache-peer", "-zookeeper", addresses[0]}
	commands := []*exec.Cmd{exec.CommandContext(ctx, program, serve...)}
	if java {
		run := []string{"run", "-i", "--rm", "--network", s.network, "-v", program + ":/bench:ro", peersImage, "/bench"}
		commands = []*exec.Cmd{exec.CommandContext(ctx, "docker", slices.Concat(run, serve)...),
			peerCommand(ctx, s, javaCaches, javaCommand, addresses[1])}
	}
	var peers []*peer
	defer func() {
		for _, p := range peers {
			_ = p.stop()
		}
	}()
	for i, cmd := range commands {
		p, err := startPeer([]string{"ours", "CuratorCache"}[i], cmd)
		if err != nil {
			return err
		}
		peers = append(peers, p)
	}
	b := cacheBench{servers: s, rounds: o.rounds, loads: []int{10_000, 50_000, 100_000}, rate: 1_000, writing: 5 * time.Second, burst: 10_000}
	run := b.run
	if o.services {
		b := serviceBench{servers: s, relays: relays, rounds: o.rounds, services: 500, instances: 20, registered: 200, quiet: 2 * time.Second}
		run = b.run
	}
	columns, err := run(ctx, peers)
	if err != nil {
		return err
	}
	printCaches(os.Stdout, columns)
	return nil
}
