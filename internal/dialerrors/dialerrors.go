// Package dialerrors reports why a client reaches no server, from its log at debug level.
package dialerrors

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Handler is a log handler that keeps the last reason why each server could not be used. It is safe
// for concurrent use.
type Handler struct {
	next slog.Handler
	*reasons
}

type reasons struct {
	mu       sync.Mutex
	byServer map[string]string // guarded by mu
}

// New returns a handler that passes records on to next, at the levels that next enables.
func New(next slog.Handler) *Handler {
	return &Handler{next, &reasons{byServer: map[string]string{}}}
}

// Enabled returns true: the reasons are logged at debug level.
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

// WithAttrs implements [slog.Handler].
func (f *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{f.next.WithAttrs(attrs), f.reasons}
}

// WithGroup implements [slog.Handler].
func (f *Handler) WithGroup(name string) slog.Handler {
	return &Handler{f.next.WithGroup(name), f.reasons}
}

// String returns the reasons, each once.
func (r *reasons) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byServer) == 0 {
		return "no server has refused or answered"
	}
	return strings.Join(slices.Compact(slices.Sorted(maps.Values(r.byServer))), "; ")
}
