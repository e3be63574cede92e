package zkconn

import (
	"log/slog"
	"strings"
	"sync/atomic"
)

// logger passes the client's log lines to a Logger.
type logger struct {
	to    atomic.Pointer[Logger]
	level slog.LevelVar
}

// set sets the Logger. If to is nil, lines are discarded.
func (l *logger) set(to Logger) { l.to.Store(&to) }

func (l *logger) setInfo(info bool) {
	level := slog.LevelWarn
	if info {
		level = slog.LevelInfo
	}
	l.level.Set(level)
}

func (l *logger) slog() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{
		Level: &l.level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{} // loggers add the time themselves
			}
			return a
		},
	}))
}

// Write receives one line per call.
func (l *logger) Write(line []byte) (int, error) {
	if to := *l.to.Load(); to != nil {
		to.Printf("%s", strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}
