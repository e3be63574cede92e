package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
)

// worker is a member of the group, and works on its share of the partitions.
type worker struct {
	id     string
	net    *network
	client *framework.Client
	member *node.Member
	locks  []*mutex.Mutex // by partition
	board  *board
	wg     sync.WaitGroup
	cancel context.CancelFunc
}

// start makes a worker with a session of its own.
func (p pool) start(ctx context.Context, servers []string, id string, b *board) (_ *worker, err error) {
	w := &worker{id: id, board: b, net: &network{}, cancel: func() {}}
	w.client, err = framework.New(servers, framework.WithSessionTimeout(p.session), framework.WithDialer(w.net.dial))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.client.Close()
		}
	}()
	for n := range p.partitions {
		m, err := mutex.New(w.client, fmt.Sprintf("%s/partitions/%d", p.path, n))
		if err != nil {
			return nil, err
		}
		w.locks = append(w.locks, m)
	}
	// A worker that starts again after a crash may find the node of its old session, and waits.
	w.member, err = node.Join(ctx, w.client, p.path+"/members", id, nil)
	if err != nil {
		return nil, err
	}
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.wg.Go(func() { w.run(ctx) }) // ends with stop
	return w, nil
}

// run takes and gives up partitions as the group changes.
func (w *worker) run(ctx context.Context) {
	taken := map[int]context.CancelFunc{}
	for members, err := range w.member.Changes(ctx) {
		if err != nil {
			break // stop has been called, or the client is closed
		}
		for n := range w.locks {
			mine := share(members, n) == w.id
			giveUp, has := taken[n]
			switch {
			case mine && !has:
				var partition context.Context
				partition, taken[n] = context.WithCancel(ctx)
				w.wg.Go(func() { w.take(partition, n) }) // ends with partition
			case !mine && has:
				giveUp()
				delete(taken, n)
			}
		}
	}
	for _, giveUp := range taken {
		giveUp()
	}
}

// take works on a partition until ctx is done. The lock excludes the worker before and the one after.
func (w *worker) take(ctx context.Context, n int) {
	for ctx.Err() == nil {
		err := w.locks[n].Do(ctx, func(ctx context.Context) error { return w.work(ctx, n) })
		if errors.Is(err, framework.ErrClosed) {
			return
		}
		// If the lock was lost and the partition is ours still, we queue again.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// work works until ctx ends: as long as the partition is ours and we hold its lock.
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

// share returns the member that owns a partition. Each pair of both has a score, and the highest wins. So when
// a member joins or leaves, as few partitions as possible move.
func share(members map[string][]byte, n int) (winner string) {
	var highest string
	for id := range members {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", id, n))
		if score := string(sum[:]); score > highest {
			winner, highest = id, score
		}
	}
	return winner
}

// stop releases all partitions, and then leaves the group.
func (w *worker) stop() {
	w.cancel()
	w.wg.Wait()
	_ = w.member.Close() // if it fails, the session's end does it
	w.client.Close()
}

// network is the network of a worker.
type network struct {
	mu    sync.Mutex // guards what follows
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
		return nil, errors.New("network is down")
	}
	n.conns = append(n.conns, conn)
	return conn, nil
}

// cut ends the network of the worker for ever. The worker stops working by itself, and the servers end its
// session.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = true
	for _, conn := range n.conns {
		conn.Close()
	}
}
