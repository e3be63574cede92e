// Config is a service whose configuration follows a tree of nodes, without a restart.
//
//	/curator-config/limits             {"Rate": 100}
//	/curator-config/features/<name>    on or off
//
// The service reads the tree into a cache. From then on a request to the service asks no ZooKeeper
// server: it uses the current settings. An operator changes the tree: settings are added and
// deleted, and one is invalid and is reported. The service continues with the last good one, even
// while there is no connection.
//
//	go run ./examples/config
//	go run ./examples/config -servers host:port,... -follow
//
// With -follow there is no operator: change the nodes yourself, and watch what the service does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/examples/internal/demo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
)

func main() {
	s := service{out: os.Stdout}
	servers := demo.Servers()
	flag.StringVar(&s.path, "path", "/curator-config", "where the configuration is")
	flag.BoolVar(&s.follow, "follow", false, "follow the configuration until interrupted")
	flag.Parse()

	demo.Main(func(ctx context.Context) error {
		list, stop, err := demo.Connect(ctx, s.out, *servers)
		if err != nil {
			return err
		}
		defer stop()
		return s.run(ctx, list)
	})
}

// service is the configured service.
type service struct {
	out    io.Writer
	path   string
	follow bool

	settings atomic.Pointer[settings]
	served   atomic.Int64
}

// settings are never changed, only replaced: a request sees one state of all settings.
type settings struct {
	rate     int
	features []string // in order of their names
}

// setting is the value of one node.
type setting struct {
	Rate int
	On   bool
}

// decode reads a node of the configuration.
func (s *service) decode(n cache.Node) (setting, error) {
	switch dir, _ := framework.Split(n.Path); {
	case n.Path == s.limitsPath():
		var v setting
		if err := json.Unmarshal(n.Data, &v); err != nil {
			return v, err
		}
		if v.Rate < 1 {
			return v, fmt.Errorf("rate %d must be positive", v.Rate)
		}
		return v, nil
	case dir == s.featuresPath():
		if on := string(n.Data); on != "on" && on != "off" {
			return setting{}, fmt.Errorf("invalid value %q: must be on or off", on)
		}
		return setting{On: string(n.Data) == "on"}, nil
	}
	return setting{}, cache.ErrNoValue // the nodes above
}

func (s *service) limitsPath() string   { return framework.Join(s.path, "limits") }
func (s *service) featuresPath() string { return framework.Join(s.path, "features") }

func (s *service) run(ctx context.Context, servers []string) error {
	client, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	c, err := cache.New(client, s.path)
	if err != nil {
		return err
	}
	defer c.Close()
	values, err := cache.NewValues(c, s.decode)
	if err != nil {
		return err
	}
	if err := c.Sync(ctx); err != nil { // do not serve with half of the configuration
		return err
	}
	s.apply(values)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	applied := make(chan step) // for the operator
	wg.Go(func() { s.reconfigure(ctx, values, applied) })
	wg.Go(func() { s.serve(ctx) })
	if s.follow {
		<-ctx.Done()
	} else {
		cancel(operator{s, servers, applied}.run(ctx))
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errDone) && !s.follow {
		return err
	}
	fmt.Fprintf(s.out, "served: %t, final rate: %d\n", s.served.Load() > 0, s.settings.Load().rate)
	return nil
}

// reconfigure applies changes of the configuration.
func (s *service) reconfigure(ctx context.Context, values *cache.Values[setting], applied chan<- step) {
	for ch, err := range values.Changes(ctx) {
		if err != nil {
			return // ctx is done, or the cache has ended
		}
		if ch.Kind == cache.Loaded {
			continue
		}
		if err := ch.Value.Err; err != nil && !errors.Is(err, cache.ErrNoValue) {
			fmt.Fprintf(s.out, "%s is invalid, keeping the last good value: %v\n", ch.Path, err)
		}
		s.apply(values)
		if s.follow {
			continue
		}
		select {
		case applied <- step{ch.Path, string(ch.New.Data)}:
		case <-ctx.Done():
		}
	}
}

// apply replaces the settings by the values of the cache. Put values that belong together into one
// node: of two nodes that are changed at once, one may be read before the other.
func (s *service) apply(values *cache.Values[setting]) {
	now := &settings{rate: 10} // the default
	for v := range values.All() {
		if v.Node.Path == s.limitsPath() {
			now.rate = v.Value.Rate
		} else if v.Value.On {
			_, name := framework.Split(v.Node.Path)
			now.features = append(now.features, name)
		}
	}
	before := s.settings.Swap(now)
	if text := now.String(); before == nil || text != before.String() {
		fmt.Fprintln(s.out, text)
	}
}

func (s *settings) String() string {
	return fmt.Sprintf("serving with rate %d and features [%s]", s.rate, strings.Join(s.features, " "))
}

// serve simulates requests. Each one uses the current settings and never waits for ZooKeeper.
func (s *service) serve(ctx context.Context) {
	for ctx.Err() == nil {
		if s.settings.Load().rate > 0 {
			s.served.Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// operator changes the configuration, with a client of its own.
type operator struct {
	service *service
	servers []string
	applied <-chan step
}

// step is the new data of a node. Without data the node is deleted.
type step struct{ path, data string }

var errDone = errors.New("done")

// run returns errDone when the service has followed every step.
func (o operator) run(ctx context.Context) error {
	client, err := framework.New(o.servers)
	if err != nil {
		return err
	}
	defer client.Close()
	limits, dark := o.service.limitsPath(), framework.Join(o.service.featuresPath(), "dark-mode")
	for _, next := range []step{
		{limits, `{"Rate": 100}`},
		{dark, "on"},
		{limits, `{"Rate": "as fast as you can"}`},
		{limits, `{"Rate": 250}`},
		{dark, "off"},
		{dark, ""}, // deleted
	} {
		if err := change(ctx, client, next); err != nil {
			return err
		}
		if err := o.await(ctx, next); err != nil {
			return err
		}
	}
	return errDone
}

// change is one step of the operator.
func change(ctx context.Context, client *framework.Client, next step) error {
	if next.data == "" {
		return client.Delete(ctx, next.path)
	}
	_, err := client.Create(ctx, next.path, []byte(next.data), framework.PersistentParents(), framework.OrSet())
	return err
}

// await waits until the service has applied a step.
func (o operator) await(ctx context.Context, next step) error {
	for {
		select {
		case done := <-o.applied:
			if done == next {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
