package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/shard"
)

// worker is a member of the group, and works on its share of the partitions.
type worker struct {
	id     string
	net    *network
	client *framework.Client
	member *shard.Member
	board  *board
	ended  chan error // the result of Run
}

// start starts a worker with a separate session.
func (p pool) start(ctx context.Context, servers []string, id string, b *board) (_ *worker, err error) {
	w := &worker{id: id, board: b, net: &network{}, ended: make(chan error, 1)}
	w.client, err = framework.New(servers, framework.WithSessionTimeout(p.session), framework.WithDialer(w.net.dial))
	if err != nil {
		return nil, err
	}
	w.member, err = shard.New(w.client, p.path, id, p.partitions)
	if err != nil {
		w.client.Close()
		return nil, err
	}
	go func() { w.ended <- w.member.Run(context.WithoutCancel(ctx), w.work) }() // ends with stop
	return w, nil
}

// work works on a partition until ctx is done: another worker takes the partition afterwards.
func (w *worker) work(ctx context.Context, n int) error {
	w.board.begin(n, w.id)
	defer w.board.end(n, w.id)
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Millisecond): // an item of the partition
			w.board.worked(n)
		case <-ctx.Done():
		}
	}
	return nil
}

// stop hands over all partitions, leaves the group, and closes the client.
func (w *worker) stop(ctx context.Context) error {
	defer w.client.Close() // ends Run if Drain has failed
	if err := w.member.Drain(ctx); err != nil {
		return err
	}
	return <-w.ended
}

// network is the network of a worker.
type network struct {
	mu    sync.Mutex // guards the rest
	gone  bool
	conns []net.Conn
}

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		conn.Close()
		return nil, errors.New("the network is down")
	}
	n.conns = append(n.conns, conn)
	return conn, nil
}

// cut ends the network of the worker for good, as a crash does. The worker stops working by itself,
// and its session expires.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = true
	for _, conn := range n.conns {
		conn.Close()
	}
}

// crash ends a worker whose network is cut.
func (w *worker) crash() {
	w.net.cut()
	w.client.Close()
	<-w.ended
}
