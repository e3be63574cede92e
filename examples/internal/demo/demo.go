// Package demo provides the -servers flag of the example programs, and a ZooKeeper server in the
// process if the flag is not given.
package demo

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/dialerrors"
	"github.com/gocurator/curator/zktest"
)

// Servers defines the flag -servers for a real ensemble. Call it before flag.Parse.
func Servers() *string {
	return flag.String("servers", "", "`host:port,...` of a ZooKeeper ensemble; empty: a server in this process")
}

// The times after which Connect fails, and after which it reports that it waits.
const (
	reportAfter    = 2 * time.Second
	connectTimeout = 30 * time.Second
)

// Connect waits until one of the servers answers, and returns their addresses and a function that
// stops the embedded server. If servers is empty, it starts the embedded server. The error contains
// the reason why no server answers.
func Connect(ctx context.Context, out io.Writer, servers string) (list []string, stop func(), err error) {
	if servers != "" {
		list, err := reachable(ctx, out, servers)
		return list, func() {}, err
	}
	server, err := zktest.Start()
	if err != nil {
		return nil, nil, fmt.Errorf("embedded server: %w", err)
	}
	fmt.Fprintf(out, "using an embedded ZooKeeper server at %s\n", server.Addr())
	return []string{server.Addr()}, func() { _ = server.Close() }, nil
}

// reachable returns when a server answers, and reports a long wait.
func reachable(ctx context.Context, out io.Writer, servers string) ([]string, error) {
	list, chroot, err := framework.ParseConnectString(servers)
	if err != nil {
		return nil, err
	}
	if chroot != "" {
		return nil, fmt.Errorf("-servers %s: the examples do not support a chroot", servers)
	}
	why := dialerrors.New(slog.DiscardHandler)
	client, err := framework.New(list, framework.WithLogger(slog.New(why)))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	defer time.AfterFunc(reportAfter, func() { fmt.Fprintf(out, "waiting for a ZooKeeper server at %s: %s\n", servers, why) }).Stop()
	patient, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := client.WaitConnected(patient); err != nil {
		return nil, fmt.Errorf("no ZooKeeper server answers at %s: %w: %s", servers, err, why)
	}
	return list, nil
}

// Main runs an example until it returns or the process is interrupted, and exits.
func Main(run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
