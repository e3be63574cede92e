package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// serviceBench compares watches of services with Java's ServiceCache: one for each service, created
// one after the other, as programs do. It uses the same programs as cacheBench.
type serviceBench struct {
	servers             *servers
	relays              []*relay // the relays of the peers, in their order
	rounds              int
	services, instances int           // instances of each service
	registered          int           // instances that a peer registers
	quiet               time.Duration // without requests: after that a reconnect is over
}

// run gives each peer its turns and returns the results. The first round is a warm-up.
func (b *serviceBench) run(ctx context.Context, peers []*peer) (columns []cacheColumn, err error) {
	client, err := framework.New(b.servers.addresses, framework.WithSessionTimeout(sessionTimeout))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	base := fmt.Sprintf("/bench-services-%d", time.Now().UnixNano())
	if b.servers.network == "" { // the servers stay, so nothing else may
		defer func() {
			err = errors.Join(err, client.Delete(ctx, base, framework.IfExists(), framework.WithChildren()), client.Delete(ctx, ours(base), framework.IfExists(), framework.WithChildren()))
		}()
	}
	if err := b.plant(ctx, client, base); err != nil {
		return nil, err
	}
	columns = make([]cacheColumn, len(peers))
	atFirst := make([]int64, len(peers)) // bytes of memory, before a service was watched
	for i, p := range peers {
		if atFirst[i], err = p.number("resident"); err != nil {
			return nil, err
		}
	}
	for round := range b.rounds + 1 {
		for i, p := range peers {
			columns[i].system = p.system
			figures, err := b.turn(ctx, p, b.relays[i], base, atFirst[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.system, err)
			}
			if round > 0 {
				columns[i].rounds = append(columns[i].rounds, figures)
			}
		}
	}
	return columns, nil
}

// turn runs one round of one system. Its process had so many bytes of memory at first.
func (b *serviceBench) turn(ctx context.Context, p *peer, r *relay, base string, atFirst int64) ([]figure, error) {
	before, err := b.servers.counters(ctx)
	if err != nil {
		return nil, err
	}
	bytes := r.bytes.Load()
	watched, err := p.watch(base)
	if err != nil {
		return nil, err
	}
	resident, err := p.number("resident")
	if err != nil {
		return nil, err
	}
	after, err := b.servers.counters(ctx)
	if err != nil {
		return nil, err
	}
	bytes = r.bytes.Load() - bytes
	if watched.nodes != b.services*b.instances {
		return nil, fmt.Errorf("%d instances instead of %d", watched.nodes, b.services*b.instances)
	}
	watches, err := b.reconnect(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := p.tell("close", fmt.Sprintf("register %s %d", ours(base), b.registered)); err != nil {
		return nil, err
	}
	registered, err := b.reconnect(ctx, r)
	if err != nil {
		return nil, err
	}
	_, err = p.ask("close")
	return []figure{
		{fmt.Sprintf("watch %d services of %d instances", b.services, b.instances), "ms", float64(watched.took) / 1e6},
		{"heap for each instance", "bytes", float64(watched.heap) / float64(watched.nodes)},
		{"heap and stacks for each instance", "bytes", float64(watched.heap+watched.stacks) / float64(watched.nodes)},
		{"goroutines or threads for each service", "", float64(watched.threads) / float64(b.services)},
		{"memory of the process", "MB", float64(resident) / 1e6},
		{"its growth since it connected, for each instance", "bytes", float64(resident-atFirst) / float64(watched.nodes)},
		{"requests for each service", "", float64(after.requests-before.requests) / float64(b.services)},
		{"bytes on the wire for each instance", "bytes", float64(bytes) / float64(watched.nodes)},
		{"requests at a reconnect, for each service that is watched", "", float64(watches.requests) / float64(b.services)},
		{"writes among them", "", float64(watches.zxid) / float64(b.services)},
		{fmt.Sprintf("requests at a reconnect with %d instances registered", b.registered), "", float64(registered.requests)},
		{"writes among them", "", float64(registered.zxid)},
	}, err
}

// ours returns the path at which the peers register, which their watches must not include.
func ours(base string) string { return base + "-registered" }

// reconnect cuts the connection of a peer, whose session lives on, and returns the work of the
// servers until they were idle again.
func (b *serviceBench) reconnect(ctx context.Context, r *relay) (c counters, err error) {
	before, err := b.rest(ctx)
	if err != nil {
		return c, err
	}
	accepted := r.accepted.Load()
	r.cut()
	err = until(ctx, func() error {
		if r.accepted.Load() == accepted {
			return errors.New("no connection")
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	after, err := b.rest(ctx)
	return counters{requests: after.requests - before.requests, zxid: after.zxid - before.zxid}, err
}

// rest waits until the ensemble is idle, and returns the counters until then. Pings do not count.
func (b *serviceBench) rest(ctx context.Context) (counters, error) {
	const parts = 20
	last, err := b.servers.counters(ctx)
	for n := 0; n < parts && err == nil; n++ {
		if err = wait(ctx, b.quiet/parts); err != nil {
			break
		}
		var now counters
		if now, err = b.servers.counters(ctx); now.requests > last.requests+1 {
			n = -1
		}
		last = now
	}
	return last, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// plant registers the instances, as Java writes them.
func (b *serviceBench) plant(ctx context.Context, client *framework.Client, base string) error {
	acl := zk.WorldACL(zk.PermAll)
	if _, err := client.Create(ctx, base, nil); err != nil {
		return err
	}
	for s := range b.services {
		path := fmt.Sprintf("%s/service-%d", base, s)
		ops := []any{&zk.CreateRequest{Path: path, Acl: acl}}
		for i := range b.instances {
			data := fmt.Appendf(nil, `{"name":"service-%d","id":"%d","address":"10.0.0.%d","port":8080,"sslPort":null,"payload":"zone a, version 1.2.3",`+
				`"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null}`, s, i, i)
			ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("%s/%d", path, i), Data: data, Acl: acl})
		}
		if _, err := client.Multi(ctx, ops...); err != nil {
			return err
		}
	}
	return nil
}
