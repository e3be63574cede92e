package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/dialerrors"
)

// connection is how to reach ZooKeeper: the flags that all commands have that use it.
type connection struct {
	servers, namespace string
	timeout            time.Duration
	verbose            bool
}

func (c *connection) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.servers, "servers", "", "`host:port,...` of the ensemble, with a /chroot behind it or not; without it $ZKLOCK_SERVERS or 127.0.0.1:2181")
	fs.StringVar(&c.namespace, "namespace", "", "a `path` without its first slash that all paths are below; without it $ZKLOCK_NAMESPACE")
	fs.DurationVar(&c.timeout, "connect", 30*time.Second, "look for a server no longer than this")
	fs.BoolVar(&c.verbose, "v", false, "tell of connections and sessions on standard error")
}

// tellAfter is when somebody who waits for a server is told so.
const tellAfter = 2 * time.Second

// connect makes a client and waits until a server answers.
func (c *connection) connect(ctx context.Context, t *tool, opts ...framework.Option) (*framework.Client, error) {
	if c.timeout <= 0 {
		return nil, usageError("-connect %v is not positive", c.timeout)
	}
	level := slog.LevelWarn
	if c.verbose {
		level = slog.LevelDebug
	}
	text := cmp.Or(c.servers, os.Getenv("ZKLOCK_SERVERS"), "127.0.0.1:2181")
	servers, chroot, err := framework.ParseConnectString(text)
	if err != nil {
		return nil, usageError("-servers: %w", err)
	}
	namespace := cmp.Or(c.namespace, os.Getenv("ZKLOCK_NAMESPACE"))
	if chroot != "" && !strings.HasPrefix(namespace, "/") { // otherwise the client says what is wrong with it
		namespace = strings.Trim(chroot+"/"+namespace, "/")
	}
	why := dialerrors.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: level}))
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
	patient, cancel := context.WithTimeout(ctx, c.timeout)
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
