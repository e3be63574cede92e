package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/connectstring"
)

// connection is how to reach ZooKeeper: the flags that all commands have that use it.
type connection struct {
	servers, namespace string
	patience           time.Duration
	verbose            bool
}

func (c *connection) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.servers, "servers", "", "`host:port,...` of the ensemble, with a /chroot behind it or not; without it $ZKLOCK_SERVERS or 127.0.0.1:2181")
	fs.StringVar(&c.namespace, "namespace", "", "a `path` without its first slash that all paths are below; without it $ZKLOCK_NAMESPACE")
	fs.DurationVar(&c.patience, "connect", 30*time.Second, "look for a server no longer than this")
	fs.BoolVar(&c.verbose, "v", false, "tell of connections and sessions on standard error")
}

// tellAfter is when somebody who waits for a server is told so.
const tellAfter = 2 * time.Second

// connect makes a client and waits until a server answers.
func (c *connection) connect(ctx context.Context, t *tool, opts ...framework.Option) (*framework.Client, error) {
	level := slog.LevelWarn
	if c.verbose {
		level = slog.LevelDebug
	}
	text := cmp.Or(c.servers, os.Getenv("ZKLOCK_SERVERS"), "127.0.0.1:2181")
	servers, chroot, err := connectstring.Parse(text)
	if err != nil {
		return nil, usageError("-servers: %w", err)
	}
	namespace := cmp.Or(c.namespace, os.Getenv("ZKLOCK_NAMESPACE"))
	if chroot != "" && !strings.HasPrefix(namespace, "/") { // otherwise the client says what is wrong with it
		namespace = strings.Trim(chroot+"/"+namespace, "/")
	}
	why := newFailures(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: level}))
	client, err := framework.New(servers, append([]framework.Option{
		framework.WithNamespace(namespace),
		framework.WithLogger(slog.New(why)),
		// A lost connection is no lost lock: a command is not stopped because a server is.
		framework.WithErrorPolicy(connstate.Session),
	}, opts...)...)
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	defer time.AfterFunc(tellAfter, func() { t.say("waiting for a server at %s: %s", text, why) }).Stop()
	patient, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	if err := client.WaitConnected(patient); err != nil {
		client.Close()
		if patient.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no server answers at %s: %s", text, why)
		}
		return nil, err
	}
	return client, nil
}

// failures is a handler of the client's log that keeps why each server could not be used lately.
type failures struct {
	slog.Handler
	*reasons
}

type reasons struct {
	mu       sync.Mutex
	byServer map[string]string // guarded by mu
}

func newFailures(h slog.Handler) *failures {
	return &failures{h, &reasons{byServer: map[string]string{}}}
}

// Enabled lets all pass: the reasons are told at debug level.
func (f *failures) Enabled(context.Context, slog.Level) bool { return true }

func (f *failures) Handle(ctx context.Context, r slog.Record) error {
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
	if !f.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return f.Handler.Handle(ctx, r)
}

func (f *failures) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &failures{f.Handler.WithAttrs(attrs), f.reasons}
}

func (f *failures) WithGroup(name string) slog.Handler {
	return &failures{f.Handler.WithGroup(name), f.reasons}
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
