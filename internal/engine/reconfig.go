package engine

import (
	"context"
	"slices"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// Reconfig changes the members of the ensemble. It returns the new configuration and its stat.
func (c Client) Reconfig(ctx context.Context, change *proto.ReconfigRequest) (r WithStat[[]byte], err error) {
	frame := change.Append(conn.Begin(256))
	err = c.Do(ctx, "reconfig", ConfigPath, func(l *Connection) (err error) {
		r, err = Call(ctx, l, Request[WithStat[[]byte]]{Op: proto.OpReconfig, Frame: slices.Clone(frame), Parse: func(d *proto.Decoder) WithStat[[]byte] {
			return WithStat[[]byte]{Value: d.Bytes(), Stat: ParseStat(d)}
		}})
		return err
	})
	return r, err
}
