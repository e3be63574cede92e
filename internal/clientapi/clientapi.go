// Package clientapi is for recipes that do not call [engine] yet.
package clientapi

import (
	"context"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/retry"
)

// What is in the engine and in package retry by now.
const RefusedPause = engine.RefusedPause

type Hints = engine.Hints

func MayPass(err error) bool { return retry.MayPass(err) }

func WithHints(ctx context.Context, hints Hints) context.Context { return engine.WithHints(ctx, hints) }

func HintsOf(ctx context.Context) Hints { return engine.HintsOf(ctx) }

func DeleteSoon(ctx context.Context, client any, path string, f func(found bool, err error)) {
	engine.Of(client).DeleteSoon(ctx, path, f)
}
