package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// serviceBench puts our watches of services beside Java's ServiceCache: one for each service, made one after the other, as programs
// do. It uses the same programs as cacheBench.
type serviceBench struct {
	servers             *servers
	rounds              int
	services, instances int // instances of each service
}

// run gives each peer its turns and returns what came of them. The first round is for warming up.
func (b *serviceBench) run(ctx context.Context, peers []*peer) (columns []cacheColumn, err error) {
	client, err := framework.New(b.servers.addresses, framework.WithSessionTimeout(sessionTimeout))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	base := fmt.Sprintf("/bench-services-%d", time.Now().UnixNano())
	if b.servers.network == "" { // the servers stay, so nothing else may
		defer func() { err = errors.Join(err, client.DeleteTree(ctx, base)) }()
	}
	if err := b.plant(ctx, client, base); err != nil {
		return nil, err
	}
	columns = make([]cacheColumn, len(peers))
	for round := range b.rounds + 1 {
		for i, p := range peers {
			columns[i].system = p.system
			figures, err := b.turn(ctx, p, base)
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

func (b *serviceBench) turn(ctx context.Context, p *peer, base string) ([]figure, error) {
	before, err := b.servers.counters(ctx)
	if err != nil {
		return nil, err
	}
	watched, err := p.watch(base)
	if err != nil {
		return nil, err
	}
	after, err := b.servers.counters(ctx)
	if err != nil {
		return nil, err
	}
	if watched.nodes != b.services*b.instances {
		return nil, fmt.Errorf("%d instances instead of %d", watched.nodes, b.services*b.instances)
	}
	_, err = p.ask("close")
	return []figure{
		{fmt.Sprintf("watch %d services of %d instances", b.services, b.instances), "ms", float64(watched.took) / 1e6},
		{"heap for each instance", "bytes", float64(watched.heap) / float64(watched.nodes)},
		{"requests for each service", "", float64(after.requests-before.requests) / float64(b.services)},
	}, err
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
