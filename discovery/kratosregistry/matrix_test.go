package kratosregistry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-kratos/kratos/v2/registry"

	"github.com/gocurator/curator/discovery/kratosregistry"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/matrix"
)

// TestMatrix runs the registry under the conditions of the matrix: see test/matrix.
func TestMatrix(t *testing.T) {
	matrix.Run(t, matrix.Story{Name: "Kratos", Run: registers, Dirs: []string{"/orders"}, Lookalikes: []string{"/orders/other"}})
}

// registers has A register, and B watch.
func registers(s *matrix.Scene) error {
	a, err := kratosregistry.New(s.A, kratosregistry.WithRootPath(s.Path))
	s.Require(err)
	b, err := kratosregistry.New(s.B, kratosregistry.WithRootPath(s.Path))
	s.RequireOther(err)
	service := &registry.ServiceInstance{Name: "orders", ID: s.Name("a"), Version: "1", Endpoints: []string{"grpc://10.0.0.1:80"}}
	s.Require(a.Register(s.Ctx, service))
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = a.Deregister(ctx, service) // the first error is returned
	}()
	// If A is closed, its node may be deleted before B reads it: B waits no longer.
	watching, stop := context.WithCancelCause(s.Peer)
	defer stop(nil)
	go func() { // ends with watching
		for watching.Err() == nil {
			session, err := s.A.Session(watching)
			if err != nil {
				stop(err)
				return
			}
			select {
			case <-session.Done():
			case <-watching.Done():
			}
		}
	}()
	w, err := b.Watch(watching, "orders")
	s.RequireOther(err)
	defer w.Stop()
	seen := func(version string) error {
		for {
			list, err := w.Next()
			switch closed := context.Cause(watching); {
			case err != nil && errors.Is(closed, framework.ErrClosed):
				return closed
			case err != nil:
				return s.Other(err)
			}
			if slices.ContainsFunc(list, func(i *registry.ServiceInstance) bool { return i.ID == service.ID && i.Version == version }) {
				return nil
			}
		}
	}
	s.Require(seen("1"))
	s.Middle()
	service.Version = "2"
	s.Require(a.Register(s.Ctx, service))
	s.Require(seen("2"))
	s.Require(s.CatchUp())
	list, err := b.GetService(s.Peer, "orders")
	s.RequireOther(err)
	s.Check(len(list) > 0 || s.Forced() || s.A.State() == 0, "no instance")
	s.Require(s.Expire())
	return a.Deregister(s.Ctx, service)
}
