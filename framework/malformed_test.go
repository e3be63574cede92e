package framework_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/retry"
)

// TestAMalformedAnswerIsToldAfterHolders: the connection ends for it, and whoever learns of that by a request finds that holders
// were told.
func TestAMalformedAnswerIsToldAfterHolders(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *framework.Client) error{
		"set": func(ctx context.Context, client *framework.Client) error {
			_, err := client.Set(ctx, "/a", nil, -1)
			return err
		},
		"multi": func(ctx context.Context, client *framework.Client) error {
			_, err := client.Multi(ctx, &zk.DeleteRequest{Path: "/a", Version: -1})
			return err
		},
		"children with a watch": func(ctx context.Context, client *framework.Client) error {
			_, _, _, err := client.ChildrenW(ctx, "/a")
			return err
		},
		"read": func(ctx context.Context, client *framework.Client) error {
			return (<-beginRead(ctx, client, "/a")).err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &scripted{welcome: welcome(7, 10*time.Second), answer: fine(func(h proto.RequestHeader, _ []byte) []byte {
					return packet(&proto.ReplyHeader{Xid: h.Xid}, &proto.NumberResponse{Number: -5})
				})}
				client := l.client(t)
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				var told atomic.Bool
				_, err = session.Depend(connstate.Standard, func(error) {
					time.Sleep(time.Millisecond) // virtual time: a slow dependent, and whoever is told later must wait for it
					told.Store(true)
				})
				require.NoError(t, err)
				err = ask(t.Context(), client)
				require.True(t, told.Load())
				require.ErrorIs(t, err, zk.ErrConnectionClosed)
				require.ErrorIs(t, err, proto.ErrMalformed)
				require.True(t, retry.Unknown(err))
			})
		})
	}
}
