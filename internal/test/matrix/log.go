package matrix

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// line is a line of level Warn or above.
type line struct {
	at     time.Time
	client string
	level  slog.Level
	text   string // the message
	path   string // the attribute
	attrs  string
	remain bool // the line says that nodes may remain, and a node did at that moment
}

func (l line) String() string {
	return fmt.Sprintf("%s %s %s: %s%s", l.at.Format("15:04:05.000"), l.client, l.level, l.text, l.attrs)
}

// remains reports whether the line says that nodes may remain.
func (l line) remains() bool {
	return strings.Contains(l.text, "not have been deleted") || strings.Contains(l.text, "not deleted")
}

// journal collects the log lines of all clients of a cell.
type journal struct {
	mu    sync.Mutex
	lines []line // guarded by mu
	// exists reports whether there is a node at path or below it.
	exists func(path string) bool
}

func (j *journal) all() []line {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]line(nil), j.lines...)
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = nil
}

// logger returns the logger of a client.
func (j *journal) logger(client string) *slog.Logger {
	return slog.New(&handler{journal: j, client: client})
}

type handler struct {
	journal *journal
	client  string
	attrs   string
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	l := line{at: time.Now(), client: h.client, level: r.Level, text: r.Message, attrs: h.attrs}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "path" {
			l.path = a.Value.String()
		}
		if a.Key != "stack" {
			l.attrs += " " + a.String()
		}
		return true
	})
	if l.remains() && h.journal.exists != nil {
		l.remain = h.journal.exists(l.path)
	}
	h.journal.mu.Lock()
	defer h.journal.mu.Unlock()
	h.journal.lines = append(h.journal.lines, l)
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	g := *h
	for _, a := range attrs {
		g.attrs += " " + a.String()
	}
	return &g
}

func (h *handler) WithGroup(string) slog.Handler { return h }
