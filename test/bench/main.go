// Bench compares this library with its alternatives, in one run on the same servers: the minimum
// that ZooKeeper needs (the floor), go-zookeeper's Lock, Java's Curator, kazoo, and locks in etcd
// and Redis.
//
//	go run . -servers 1,3 -with java,kazoo,etcd,redis -out results
//	go run . -servers 1,3 -network 1ms -with java,kazoo,etcd,redis -out results
//	go run . -caches -with java
//	go run . -elections -servers 1,3 -with java
//	go run . -servers 1,3 -with java,etcd -run ^counter
//	go run . -tail -servers 3 -rounds 10 -turn 1m
//
// The second line adds a network delay between clients and servers. The third compares caches with
// Java's CuratorCache, and the fourth elections with its LeaderLatch. The fifth increments a
// number. The last one measures the slowest requests, with and without nudges.
//
// Systems take turns in each round, so that disturbances of the machine affect all of them; the
// ratio within a round counts. Servers run in Docker, from images that scripts/ of this repository
// builds. With -zookeeper they are existing ones.
//
// It is its own module: users of the library do not inherit the clients of other systems.
package main

import (
	"context"
	"errors"
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
	flag.StringVar(&o.zookeeper, "zookeeper", "", "`host:port,...` of an existing ensemble, instead of -servers")
	flag.Func("with", "other systems as well: java, kazoo, etcd, redis", o.others)
	flag.Func("jars", "a `directory` with jars of newer ZooKeeper and Curator, as CURATOR_TEST_JARS", o.newer)
	flag.Func("run", "only workloads whose name matches this `expression`", o.matching)
	flag.IntVar(&o.rounds, "rounds", 5, "`number` of turns of each system")
	flag.DurationVar(&o.turn, "turn", time.Second, "`duration` of a turn")
	flag.BoolVar(&o.caching, "caches", false, "compare caches instead of locks; of the other systems only java has one")
	flag.BoolVar(&o.services, "services", false, "with -caches: compare watches of services instead")
	flag.DurationVar(&o.network, "network", 0, "a `delay`, each way, between clients and servers")
	flag.StringVar(&o.proxy, "proxy", "", "internal: run the proxy to the addresses that follow, listening at this `host`")
	flag.BoolVar(&o.tail, "tail", false, "measure the slowest requests of two clients on an otherwise idle ensemble, with and without nudges; needs -servers 3")
	flag.BoolVar(&o.cachePeer, "cache-peer", false, "internal: run this library's side of -caches, on -zookeeper")
	flag.BoolVar(&o.electing, "elections", false, "compare elections instead of locks; of the other systems only java takes part")
	flag.DurationVar(&o.session, "session", 4*time.Second, "the session `timeout` of -elections, which the servers must grant")
	flag.StringVar(&o.electionPeer, "election-peer", "", "internal: run a candidate, `ours or floor`, on -zookeeper")
	flag.StringVar(&o.out, "out", "", "a `directory` for times, requests and bytes, and a plot, for each size of ensemble; the output has all columns")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.main(ctx); err != nil {
		stop()
		log.Fatal(err)
	}
}

// options are the values of the flags.
type options struct {
	ensembles []int
	zookeeper string
	with      []string
	jars      jars
	run       *regexp.Regexp
	rounds    int
	turn      time.Duration
	out       string
	network   time.Duration
	proxy     string
	caching   bool
	services  bool
	tail      bool
	cachePeer bool

	electing     bool
	session      time.Duration
	electionPeer string
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

func (o *options) newer(dir string) error {
	dir, err := filepath.Abs(dir) // Docker needs an absolute path
	for _, set := range []string{"zookeeper.cp", "curator.cp"} {
		if err == nil {
			_, err = os.Stat(filepath.Join(dir, set))
		}
	}
	o.jars = jars(dir)
	return err
}

func (o *options) matching(text string) (err error) {
	o.run, err = regexp.Compile(text)
	return err
}

func (o *options) main(ctx context.Context) error {
	if o.cachePeer {
		return serveCaches(ctx, o.zookeeper, os.Stdin, os.Stdout)
	}
	if o.electionPeer != "" {
		return serveElections(ctx, o.electionPeer, strings.Split(o.zookeeper, ","), o.session, os.Stdin, os.Stdout)
	}
	if o.proxy != "" {
		return serveNetwork(ctx, o.proxy, o.network, flag.Args(), os.Stdin, os.Stdout)
	}
	if o.caching && o.network > 0 {
		return errors.New("-caches has no -network")
	}
	if o.zookeeper != "" {
		return o.measure(ctx, &servers{addresses: strings.Split(o.zookeeper, ",")}, "there")
	}
	if len(o.ensembles) == 0 {
		o.ensembles = []int{1}
	}
	for _, n := range o.ensembles {
		s, err := startServers(ctx, n, o.with, o.jars)
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

// measure runs all workloads on one ensemble, and writes the results.
func (o *options) measure(ctx context.Context, s *servers, name string) error {
	if o.caching {
		return o.caches(ctx, s)
	}
	if o.tail {
		return o.followTail(ctx, s, os.Stdout)
	}
	file, remark := "bench-"+name, ""
	if o.network > 0 {
		stop, err := s.addNetwork(ctx, o.network)
		if err != nil {
			return err
		}
		defer func() { _ = stop() }()
		file += fmt.Sprintf("-network-%v", o.network)
		remark = fmt.Sprintf("; %v of network each way", o.network)
	}
	if o.electing {
		return o.elections(ctx, s, remark)
	}
	var tables []table
	for _, w := range workloads() {
		if o.run != nil && !o.run.MatchString(w.name) || w.at != anyServer && len(s.addresses) == 1 {
			continue
		}
		t, err := o.compare(ctx, s, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		tables = append(tables, t)
		t.workload.name += remark
		t.print(os.Stdout)
	}
	if o.out == "" {
		return nil
	}
	return write(filepath.Join(o.out, file), name+remark, tables)
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
