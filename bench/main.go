// Bench puts this library beside what a user would choose instead, in one run on the same servers: what ZooKeeper
// cannot do without (the floor), go-zookeeper's own Lock, Java's Curator, kazoo, and locks in etcd and Redis.
//
//	go run . -servers 1,3 -with java,kazoo,etcd,redis -out ../docs
//	go run . -caches -with java
//
// The second line puts caches beside Java's CuratorCache.
//
// Systems take turns in each round, so that what disturbs the machine disturbs all of them; what counts is the
// ratio within a round. Servers run in Docker, from images that scripts/ of this repository builds. With -zookeeper they
// are those that are there.
//
// It is a module of its own: users of the library do not inherit the clients of other systems.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	var o options
	flag.Func("servers", "sizes of ensembles, as in 1,3 (default 1)", o.sizes)
	flag.StringVar(&o.zookeeper, "zookeeper", "", "`host:port,...` of an ensemble that is there, instead of -servers")
	flag.Func("with", "other systems as well: java, kazoo, etcd, redis", o.others)
	flag.Func("run", "only workloads whose name matches this `expression`", o.matching)
	flag.IntVar(&o.rounds, "rounds", 5, "how often each system has its turn")
	flag.DurationVar(&o.turn, "turn", time.Second, "how long a turn is")
	flag.BoolVar(&o.caching, "caches", false, "compare caches instead of locks; of the other systems only java has one")
	flag.BoolVar(&o.cachePeer, "cache-peer", false, "be the side of -caches that uses this library, on -zookeeper; -caches starts it")
	flag.StringVar(&o.out, "out", "", "a `directory` for results.md and a plot for each size of ensemble")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.main(ctx); err != nil {
		stop()
		log.Fatal(err)
	}
}

// options are what the command line says.
type options struct {
	ensembles []int
	zookeeper string
	with      []string
	run       *regexp.Regexp
	rounds    int
	turn      time.Duration
	out       string
	caching   bool
	cachePeer bool
}

func (o *options) sizes(text string) error {
	for _, field := range strings.Split(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number of servers", field)
		}
		o.ensembles = append(o.ensembles, n)
	}
	return nil
}

func (o *options) others(text string) error {
	for _, name := range strings.Split(text, ",") {
		if !slices.Contains([]string{"java", "kazoo", "etcd", "redis"}, name) {
			return fmt.Errorf("%q is none of java, kazoo, etcd and redis", name)
		}
		o.with = append(o.with, name)
	}
	return nil
}

func (o *options) matching(text string) (err error) {
	o.run, err = regexp.Compile(text)
	return err
}

func (o *options) main(ctx context.Context) error {
	if o.cachePeer {
		return serveCaches(ctx, o.zookeeper, os.Stdin, os.Stdout)
	}
	if o.zookeeper != "" {
		return o.measure(ctx, &servers{addresses: strings.Split(o.zookeeper, ",")}, "there")
	}
	if len(o.ensembles) == 0 {
		o.ensembles = []int{1}
	}
	for _, n := range o.ensembles {
		s, err := startServers(ctx, n, o.with)
		if err != nil {
			return err
		}
		err = o.measure(ctx, s, fmt.Sprint(n))
		s.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// measure runs all workloads on one ensemble, and writes what came of it.
func (o *options) measure(ctx context.Context, s *servers, name string) error {
	if o.caching {
		return o.caches(ctx, s)
	}
	var tables []table
	for _, w := range workloads() {
		if o.run != nil && !o.run.MatchString(w.name) {
			continue
		}
		t, err := o.compare(ctx, s, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		t.print(os.Stdout)
		tables = append(tables, t)
	}
	if o.out == "" {
		return nil
	}
	return write(filepath.Join(o.out, "bench-"+name), name, tables)
}

// compare gives each system its turns with one workload.
func (o *options) compare(ctx context.Context, s *servers, w workload) (table, error) {
	t := table{workload: w}
	var all []*entrant
	defer func() {
		for _, e := range all {
			e.close()
		}
	}()
	for _, sys := range systems(w, o.with) {
		e, err := enter(ctx, s, sys, w)
		if err != nil {
			return t, fmt.Errorf("%s: %w", sys.name, err)
		}
		all = append(all, e)
		t.columns = append(t.columns, column{system: sys.name})
	}
	for round := range o.rounds + 1 {
		for i, e := range all {
			m, err := e.turn(ctx, s, o.turn)
			if err != nil {
				return t, fmt.Errorf("%s: %w", t.columns[i].system, err)
			}
			if round > 0 { // the first one is for warming up
				t.columns[i].turns = append(t.columns[i].turns, m)
			}
		}
	}
	return t, nil
}
