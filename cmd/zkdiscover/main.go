// Zkdiscover lists the services that are registered in ZooKeeper in the formats of
// curator-x-discovery, Spring Cloud and Dubbo. It also registers a command as a service, and serves
// the list to Prometheus.
//
//	zkdiscover ls                       names of services
//	zkdiscover ls orders                instances
//	zkdiscover watch orders             instances, again after each change
//	zkdiscover register --name orders --address 127.0.0.1 --port 8080 -- ./orders
//	zkdiscover http --listen 127.0.0.1:9999
//
// zkdiscover --help lists the commands and flags. See README.md in this directory.
package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
)

func main() {
	// On Linux a child dies with the thread that started it, so this one must not end early.
	runtime.LockOSThread()
	a := newApp(os.Stdout, cli.Messages(os.Stderr))
	os.Exit(a.Execute(context.Background(), root(a), os.Args[1:]))
}

func newApp(out, err io.Writer) *cli.App { return &cli.App{Name: "zkdiscover", Out: out, Err: err} }

// root returns zkdiscover's commands.
func root(a *cli.App) *cobra.Command {
	top := &cobra.Command{
		Short: "List, watch and register services in ZooKeeper",
		Long:  "zkdiscover lists, watches and registers services in ZooKeeper in the format of curator-x-discovery, Spring Cloud and Dubbo.",
	}
	top.AddCommand((&list{}).command(a), (&watch{}).command(a), (&register{}).command(a), (&server{}).command(a))
	return a.Prepare(top)
}

// instance is an instance with a payload of any form.
type instance = discovery.Instance[json.RawMessage]

// exitNoService means that there is no node of the service. zklock has the same code for no lock.
const exitNoService = 66

// services holds the flags of a command that uses services.
type services struct {
	cli.Connection
	base, format string
}

func (s *services) flags(a *cli.App, fs *pflag.FlagSet) {
	s.Connection.Flags(a, fs)
	fs.StringVar(&s.base, "base", "/services", "`path` below which the services are")
}

// formatFlag defines the flag of a command that only reads.
func (s *services) formatFlag(fs *pflag.FlagSet) {
	fs.StringVar(&s.format, "format", discovery.Curator.String(), "`format` of the nodes: curator (also Spring Cloud's and Dubbo's), serverset, nerve, or hostport (go-kit's)")
}

// tool reads and registers services.
type tool struct {
	*services
	app    *cli.App
	client *framework.Client
	d      *discovery.Discovery[json.RawMessage]
}

// connect returns a tool that is connected.
func (s *services) connect(ctx context.Context, a *cli.App) (*tool, error) {
	client, err := s.Connect(ctx, a)
	if err != nil {
		return nil, err
	}
	return s.tool(a, client)
}

// tool returns the tool of a client, or closes the client.
func (s *services) tool(a *cli.App, client *framework.Client) (*tool, error) {
	format := discovery.Curator
	var err error
	if s.format != "" { // the command has the flag
		format, err = discovery.ParseFormat(s.format)
	}
	var d *discovery.Discovery[json.RawMessage]
	if err == nil {
		d, err = discovery.New[json.RawMessage](client, s.base, discovery.WithFormat(format), discovery.WithUnreadable(func(path string, err error) {
			a.Say("%s: %v", path, err)
		}))
	}
	if err != nil {
		client.Close()
		return nil, &cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	return &tool{s, a, client, d}, nil
}

// within limits a request to the ensemble.
func (t *tool) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.Timeout)
}
