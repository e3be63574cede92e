package zktest_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// remind sends a small request to each of these real servers again and again, until the test ends:
// ZooKeeper 3.6.0 to 3.8.0 can forget a request, even a ping, until the next request arrives
// (ZOOKEEPER-4537). It returns when all have a session for that, so that no session begins later on
// the servers that remain.
func remind(t *testing.T, servers ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	var ends sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		ends.Wait()
	})
	for _, address := range servers {
		first := make(chan struct{})
		ends.Go(func() {
			began := sync.OnceFunc(func() { close(first) })
			for ctx.Err() == nil {
				_ = remindOne(ctx, address, began) // the server may be restarted
				pauseToRemind(ctx)
			}
		})
		select {
		case <-first:
		case <-time.After(conformanceTimeout):
			require.Fail(t, "no session", "on %s", address)
		}
	}
}

// remindOne reminds a server in one session, until the connection ends or ctx is done.
func remindOne(ctx context.Context, address string, began func()) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	c, err := dialRaw(conn, nil, 20*time.Second)
	if err != nil {
		return err
	}
	began()
	read := make(chan struct{})
	defer func() { conn.Close(); <-read }()
	go func() { // ends with the connection
		defer close(read)
		for err := error(nil); err == nil; _, err = c.read() {
		}
	}()
	for ctx.Err() == nil {
		_, sync := c.request(opSync, *new(buffer).text("/"))
		if err := c.write(sync); err != nil {
			return err
		}
		pauseToRemind(ctx)
	}
	return ctx.Err()
}

func pauseToRemind(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}
