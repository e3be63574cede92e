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
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestASyncGoesOnAfterAServerHadTooMuchToDo has the write of a Sync be refused once, while the connection stays.
func TestASyncGoesOnAfterAServerHadTooMuchToDo(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
		require.NoError(t, server.Create("/r", nil))
		c := load(t, client(), "/r")
		var refused atomic.Int32
		defer server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
			if refused.Add(1) > 1 {
				return answer
			}
			header := proto.ReplyHeader{Xid: int32(binary.BigEndian.Uint32(answer[4:])), Code: proto.Throttled}
			return proto.Seal(header.Append(proto.Begin(64)))
		}, zktest.OnOp(zktest.OpMulti))()
		began := time.Now()
		require.NoError(t, c.Sync(testbed.Context(t)))
		require.LessOrEqual(t, time.Since(began), time.Second)
		refused.Store(-1000)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, c.Sync(ctx), framework.ErrThrottled)
	})
}
