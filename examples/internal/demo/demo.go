// Package demo is what the example programs have in common: a -servers flag, and a
// ZooKeeper server in the process when it is not given.
package demo

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gocurator/curator/zktest"
)

// Servers returns a flag for the servers of a real ensemble. Call it before flag.Parse.
func Servers() *string {
	return flag.String("servers", "", "host:port,... of a ZooKeeper ensemble; empty: a server in this process")
}

// Connect returns the servers to use, and what stops the one in this process, if any.
func Connect(out io.Writer, servers string) (list []string, stop func(), err error) {
	if servers != "" {
		return strings.Split(servers, ","), func() {}, nil
	}
	server, err := zktest.Start()
	if err != nil {
		return nil, nil, fmt.Errorf("embedded server: %w", err)
	}
	fmt.Fprintf(out, "using an embedded ZooKeeper server at %s\n", server.Addr())
	return []string{server.Addr()}, func() { _ = server.Close() }, nil
}

// Main runs an example until it is done or interrupted, and exits.
func Main(run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
