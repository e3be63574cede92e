package main

import (
	"flag"
	"fmt"

	"github.com/gocurator/curator/zktest"
)

// serve is a server for trying things out.
type serve struct{ listen string }

func (s *serve) flags(fs *flag.FlagSet) {
	fs.StringVar(&s.listen, "listen", "127.0.0.1:2181", "`address` to listen on; port 0 takes a free one")
}

func (s *serve) main(t *tool, args []string) error {
	if len(args) > 0 {
		return usageError("unexpected argument %q", args[0])
	}
	ctx, stop := interrupted()
	defer stop()
	server, err := zktest.Start(zktest.WithAddr(s.listen))
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintf(t.out, "serving ZooKeeper on %s, in memory: what is stored is gone with this process\n", server.Addr())
	<-ctx.Done()
	return interruption(ctx, nil)
}
