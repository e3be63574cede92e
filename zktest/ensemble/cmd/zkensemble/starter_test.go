//go:build unix

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest/ensemble/internal/control"
)

// counted counts calls of Close.
type counted struct {
	control.Ensemble
	closed *int
}

func (c counted) Close() error { *c.closed++; return nil }

func TestSharedEnsembleIsStartedOnceAndRemovedAtTheEnd(t *testing.T) {
	started, closed, fails := 0, 0, errors.New("no Docker engine is running")
	s := &starter{start: func(context.Context, control.Order) (control.Ensemble, error) {
		if fails != nil {
			return nil, fails
		}
		started++
		return counted{closed: &closed}, nil
	}}
	order := func(o control.Order) control.Ensemble {
		e, err := s.order(t.Context(), o)
		require.ErrorIs(t, err, fails)
		return e
	}
	require.NoError(t, s.close(), "nobody has ordered it")
	require.Nil(t, order(control.Order{Shared: true}))
	fails = nil
	for range 3 {
		require.NoError(t, order(control.Order{Shared: true}).Close())
	}
	require.Equal(t, 1, started)
	require.Zero(t, closed, "others may use it")
	require.NoError(t, order(control.Order{}).Close())
	require.Equal(t, 2, started)
	require.Equal(t, 1, closed)
	require.NoError(t, s.close())
	require.Equal(t, 2, closed)
}
