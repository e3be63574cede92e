package grpcresolver_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/grpcresolver"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/matrix"
)

// TestMatrix runs the resolver under the conditions of the matrix: see test/matrix.
func TestMatrix(t *testing.T) {
	matrix.Run(t, matrix.Story{Name: "gRPC", Run: calls, Dirs: []string{"/orders"}, Lookalikes: []string{"/orders/other"}})
}

// calls has B register a server, and A call it.
func calls(s *matrix.Scene) error {
	listener := bufconn.Listen(1 << 16)
	server := newServer("b")
	serving := s.Go(func() error { return server.Serve(listener) })
	defer func() {
		server.Stop()
		_ = serving.Wait() // it was stopped
	}()
	b, err := discovery.New[zone](s.B, s.Path)
	s.RequireOther(err)
	r, err := b.Register(s.Peer, discovery.Instance[zone]{Name: "orders", ID: s.Name("b"), Address: "10.0.0.1", Port: 80})
	s.RequireOther(err)
	defer r.Close()
	a, err := discovery.New[zone](s.A, s.Path)
	s.Require(err)
	builder, err := grpcresolver.NewBuilder(a)
	s.Require(err)
	defer builder.Close()
	conn, err := grpc.NewClient("curator:///orders", grpc.WithResolvers(builder), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if address != "10.0.0.1:80" {
				return nil, errors.New("no such server: " + address)
			}
			return listener.DialContext(ctx)
		}))
	s.Require(err)
	defer conn.Close()
	for step := range 3 {
		ctx, cancel := context.WithTimeout(s.Ctx, time.Minute)
		id, err := call(ctx, conn)
		cancel()
		if s.Ctx.Err() != nil {
			return context.Cause(s.Ctx)
		}
		if err != nil {
			return named(err)
		}
		s.Check(id == "b", "%q answers", id)
		switch step {
		case 0:
			s.Middle()
		case 1:
			s.Require(s.Expire())
		}
	}
	return s.Other(r.Drain(s.Peer, time.Second))
}

// named returns a status error with the reason of the resolver, which the error has only as text.
func named(err error) error {
	for _, reason := range []error{zk.ErrNoAuth, discovery.ErrNoInstance, framework.ErrClosed, framework.ErrEnded} {
		if strings.Contains(err.Error(), reason.Error()) {
			return errors.Join(reason, err)
		}
	}
	return err
}
