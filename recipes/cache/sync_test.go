package cache_test

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestASyncGoesOnAfterAServerHadTooMuchToDo has the write of a Sync be refused once, while the
// connection stays.
func TestASyncGoesOnAfterAServerHadTooMuchToDo(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		require.NoError(t, w.Server.Create("/r", nil))
		c := load(t, w.Client(), "/r")
		var refused atomic.Int32
		defer w.Server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
			if refused.Add(1) > 1 {
				return answer
			}
			header := proto.ReplyHeader{Xid: int32(binary.BigEndian.Uint32(answer[4:])), Code: proto.Throttled}
			return proto.Seal(header.Append(proto.Begin(64)))
		}, zktest.OnOp("multi"))()
		began := time.Now()
		require.NoError(t, c.Sync(testbed.Context(t)))
		require.LessOrEqual(t, time.Since(began), time.Second)
		refused.Store(-1000)
		err := c.Sync(testbed.Timeout(t, 3*time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, framework.ErrThrottled, "the reason, too")
	})
}
