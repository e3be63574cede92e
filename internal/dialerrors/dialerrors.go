// Package dialerrors says why a client finds no server. The client logs them at debug level.
package dialerrors

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Handler is a handler of a client's log that keeps why each server could not be used lately. It may be used
// by any number of goroutines.
type Handler struct {
	next slog.Handler
	*reasons
}

type reasons struct {
	mu       sync.Mutex
	byServer map[string]string // guarded by mu
}

// New returns a handler that passes on to next what next is enabled for.
func New(next slog.Handler) *Handler {
	return &Handler{next, &reasons{byServer: map[string]string{}}}
}

// Enabled lets all pass: the reasons are logged at debug level.
func (f *Handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps the reason, if the record has one, and passes the record on.
func (f *Handler) Handle(ctx context.Context, r slog.Record) error {
	server, reason := "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "server":
			server = a.Value.String()
		case "reason":
			reason = a.Value.String()
		}
		return true
	})
	if server != "" && reason != "" {
		f.mu.Lock()
		f.byServer[server] = reason
		f.mu.Unlock()
	}
	if !f.next.Enabled(ctx, r.Level) {
		return nil
	}
	return f.next.Handle(ctx, r)
}

// WithAttrs is that of [slog.Handler].
func (f *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{f.next.WithAttrs(attrs), f.reasons}
}

// WithGroup is that of [slog.Handler].
func (f *Handler) WithGroup(name string) slog.Handler {
	return &Handler{f.next.WithGroup(name), f.reasons}
}

// String is the reasons, each once, or that there is none yet.
func (r *reasons) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byServer) == 0 {
		return "none has refused, none has answered"
	}
	return strings.Join(slices.Compact(slices.Sorted(maps.Values(r.byServer))), "; ")
}
