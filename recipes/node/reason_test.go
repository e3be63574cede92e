package node_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
)

// stopped is a context whose user is stopped, once, when it looks whether the context has ended.
type stopped struct {
	context.Context
	done atomic.Bool
	goOn chan struct{}
}

func (s *stopped) Err() error {
	if s.done.CompareAndSwap(false, true) {
		<-s.goOn
	}
	return s.Context.Err()
}

// TestASetThatWasRefusedSaysSo stops the goroutine of a Set when it begins to wait. In between, the
// server refuses, and the connection ends.
func TestASetThatWasRefusedSaysSo(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		n := keep(t, c, "/group/a", "first")
		testbed.SetACL(t, c, "/group/a", zk.WorldACL(zk.PermRead))
		ctx := testbed.Timeout(t, time.Minute)
		slow := &stopped{Context: ctx, goOn: make(chan struct{})}
		set := testbed.Go(func() error { return n.Set(slow, []byte("second")) }) // ends with ctx
		synctest.Wait()
		await(t, n, func(_ bool, err error) bool { return errors.Is(err, zk.ErrNoAuth) })
		w.Server.RefuseConnections(true)
		w.Server.CutConnections()
		await(t, n, reason(framework.ErrSuspended))
		close(slow.goOn)
		synctest.Wait()
		w.Server.RefuseConnections(false)
		require.ErrorIs(t, testbed.Receive(t, set, "the Set"), zk.ErrNoAuth)
	})
}
