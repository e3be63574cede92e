// Zkserver is a ZooKeeper server for tests and for trying things out, of services in any
// language. It keeps everything in memory and fails on demand: its control port offers the
// faults and controls of package zktest over HTTP.
//
//	zkserver -listen 127.0.0.1:2181 -listen 127.0.0.1:2182 -control 127.0.0.1:2180
//	curl -d '{"fault": "lose reply", "ops": ["create"]}' http://127.0.0.1:2180/inject
//
// zkserver -h lists the flags, and GET / of the control port what it can do. See README.md beside
// this file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gocurator/curator/zktest"
	"github.com/gocurator/curator/zktest/control"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := zkserver(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	exitFailed = 1
	exitUsage  = 2
)

// zkserver is main with its surroundings: it serves until ctx ends, and returns the exit code.
func zkserver(ctx context.Context, args []string, out, stderr io.Writer) int {
	f := newFlags(stderr)
	switch err := f.parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "zkserver: %v\n", err)
		return exitUsage
	}
	server, err := zktest.Start(f.options()...)
	if err != nil {
		fmt.Fprintf(stderr, "zkserver: %s\n", strings.TrimPrefix(err.Error(), "zktest: "))
		return exitUsage
	}
	defer server.Close()
	if err := serve(ctx, server, f, out); err != nil {
		fmt.Fprintf(stderr, "zkserver: %s\n", strings.TrimPrefix(err.Error(), "zktest: "))
		return exitFailed
	}
	return 0
}

// serve has the server listen, until ctx ends.
func serve(ctx context.Context, server *zktest.Server, f *flags, out io.Writer) error {
	tls, err := f.tls()
	if err != nil {
		return err
	}
	nodes, err := f.nodes()
	if err != nil {
		return err
	}
	if len(nodes) > 0 {
		if err := server.Load(nodes); err != nil {
			return err
		}
	}
	var listeners []*zktest.Listener
	for _, addr := range f.listen {
		l, err := server.Listen(addr, nil)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
		fmt.Fprintf(out, "serving ZooKeeper on %s, in memory: what is stored is gone with this process\n", l.Addr())
	}
	for _, addr := range f.tlsListen {
		l, err := server.Listen(addr, tls)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
		fmt.Fprintf(out, "serving ZooKeeper on %s, with TLS\n", l.Addr())
	}
	if f.control == "" {
		<-ctx.Done()
		return nil
	}
	return serveControl(ctx, f.control, control.Handler(server, control.WithListeners(listeners...)), out)
}

// serveControl serves the control port until ctx ends.
func serveControl(ctx context.Context, addr string, handler http.Handler, out io.Writer) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("control port: %w", err)
	}
	fmt.Fprintf(out, "control port at http://%s\n", l.Addr())
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends requests that wait
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // ends with Close
	select {
	case <-ctx.Done():
		err = s.Close()
		<-ended
	case err = <-ended:
		err = fmt.Errorf("control port: %w", err)
	}
	return err
}
