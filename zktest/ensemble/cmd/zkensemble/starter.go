//go:build unix

package main

import (
	"context"
	"sync"

	"github.com/gocurator/curator/zktest/ensemble/internal/control"
)

// starter starts ensembles. All orders of a shared ensemble get the same one, so that test packages
// do not each wait for separate servers.
type starter struct {
	start func(context.Context, control.Order) (control.Ensemble, error)

	mu     sync.Mutex // held while the shared ensemble starts, too
	shared control.Ensemble
}

// order starts an ensemble, or returns the shared one, which the first order of it has started.
func (s *starter) order(ctx context.Context, order control.Order) (control.Ensemble, error) {
	if !order.Shared {
		return s.start(ctx, order)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		e, err := s.start(ctx, order)
		if err != nil {
			return nil, err // the next order tries again
		}
		s.shared = e
	}
	return staying{s.shared}, nil
}

// close removes the shared ensemble, which no client uses any more.
func (s *starter) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return nil
	}
	return s.shared.Close()
}

// staying is an ensemble that remains for others when a client has disconnected.
type staying struct{ control.Ensemble }

func (staying) Close() error { return nil }
