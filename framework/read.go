package framework

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

func init() {
	clientapi.Read = func(ctx context.Context, client any, path string, f func(data []byte, stat *zk.Stat, err error)) {
		client.(*Client).read(ctx, path, f)
	}
}

// read is [clientapi.Read].
func (c *Client) read(ctx context.Context, path string, f func(data []byte, stat *zk.Stat, err error)) {
	c.core.mu.Lock()
	l := c.core.link
	c.core.mu.Unlock()
	if l == nil || c.core.observer != nil {
		// Somebody has to wait: for a connection, or for an observer, which must not hold up the connection.
		if !c.core.background(func() { f(c.Get(ctx, path)) }) { // ends with the client
			f(nil, nil, opError("get", path, ErrClosed))
		}
		return
	}
	r := &reading{path: path, f: f}
	r.request = conn.Request{Op: proto.OpGetData, Frame: readFrame(c.real(path), false), Handler: r}
	l.conn.Send(&r.request)
}

// reading is a read whose answer goes to a function.
type reading struct {
	request conn.Request
	path    string // as the caller wrote it
	f       func(data []byte, stat *zk.Stat, err error)
}

// Reply implements [conn.Handler].
func (r *reading) Reply(body *proto.Decoder, err error) {
	if err == nil {
		data, stat := body.Bytes(), parseStat(body)
		if body.Err() == nil {
			r.f(data, stat, nil)
		}
		return // if it is malformed, we are called again when the connection has ended
	}
	r.f(nil, nil, opError("get", r.path, err))
}
