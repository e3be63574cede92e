// Zkserver is a ZooKeeper server for the tests of services in any language, and for trying things
// out. It keeps everything in memory and fails on demand: its control port offers the faults and
// controls of package zktest over HTTP.
//
//	zkserver --listen 127.0.0.1:2181 --listen 127.0.0.1:2182 --control 127.0.0.1:2180
//	curl -d '{"fault": "lose reply", "ops": ["create"]}' http://127.0.0.1:2180/inject
//
// zkserver --help lists the flags, and GET / of the control port lists its requests. See README.md
// in this directory.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/zktest"
	"github.com/gocurator/curator/zktest/control"
)

func main() {
	a := newApp(os.Stdout, cli.Messages(os.Stderr))
	os.Exit(a.Execute(context.Background(), root(a), os.Args[1:]))
}

func newApp(out, err io.Writer) *cli.App { return &cli.App{Name: "zkserver", Out: out, Err: err} }

// root serves until its context ends or a signal arrives.
func root(a *cli.App) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Short: "A ZooKeeper server in memory, for tests and for trying things out",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return &cli.Exit{Code: cli.ExitUsage, Err: err}
			}
			ctx, stop := cli.Interrupted(cmd.Context())
			defer stop()
			server, err := zktest.Start(f.options()...)
			if err != nil {
				return cli.UsageError("%s", withoutPackage(err))
			}
			defer server.Close()
			err = serve(ctx, server, f, cmd.OutOrStdout())
			if err == nil && f.timeline != "" {
				err = writeTimeline(server, f.timeline)
			}
			if err != nil {
				return errors.New(withoutPackage(err))
			}
			return nil
		},
	}
	f.define(cmd.Flags())
	return a.Prepare(cmd)
}

// withoutPackage returns the text of an error without the name of the package that the user of a
// program does not know.
func withoutPackage(err error) string { return strings.TrimPrefix(err.Error(), "zktest: ") }

func writeTimeline(server *zktest.Server, file string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	return server.Timeline().WriteHTML(f)
}

// serve lets the server listen until ctx ends.
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
		if _, err := fmt.Fprintf(out, "serving ZooKeeper on %s, in memory: all nodes are lost when this process exits\n", l.Addr()); err != nil {
			return err
		}
	}
	for _, addr := range f.tlsListen {
		l, err := server.Listen(addr, tls)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
		if _, err := fmt.Fprintf(out, "serving ZooKeeper on %s, with TLS\n", l.Addr()); err != nil {
			return err
		}
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
	if _, err := fmt.Fprintf(out, "control port at http://%s\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
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
