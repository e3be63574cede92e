// Services runs two services and a client that loses no request while instances start and stop. The
// client calls orders, and each instance of orders calls stock to answer. Both find the instances
// in ZooKeeper, and send a failed request to another instance if it may be repeated: see package
// discovery/httpclient.
//
// An instance that is interrupted is drained: it unregisters, answers until its callers know that,
// and stops. One that is killed or stopped (SIGKILL, SIGSTOP) stays in all lists until its session
// ends. Its callers leave it out after two failures.
//
//	go run ./examples/services
//	go run ./examples/services -servers host:port,... -serve stock
//	go run ./examples/services -servers host:port,... -serve orders
//	go run ./examples/services -servers host:port,... -call orders
//
// Without -servers it simulates a deploy: in one process each instance is replaced by a new one.
// With -servers it is one instance or the client, until it is interrupted. It exits with 1 if a
// request was lost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/httpclient"
	"github.com/gocurator/curator/examples/internal/demo"
	"github.com/gocurator/curator/framework"
)

func main() {
	p := program{log: log.New(os.Stdout, "", 0)}
	servers := demo.Servers()
	serve := flag.String("serve", "", "be an instance of this `service`, orders or stock; needs -servers")
	id := flag.String("id", fmt.Sprintf("instance-%d", os.Getpid()), "name of the instance")
	call := flag.String("call", "", "be a client of this `service`; needs -servers")
	flag.StringVar(&p.path, "path", "/curator-services", "`path` of the services")
	flag.DurationVar(&p.session, "session", 10*time.Second, "session timeout: how long a crash goes unnoticed")
	flag.DurationVar(&p.drain, "drain", time.Second, "how long an instance answers after it is unregistered")
	flag.DurationVar(&p.patience, "patience", 3*time.Second, "how long a request waits for an answer before another instance gets it")
	flag.DurationVar(&p.every, "every", time.Second, "how often the client reports who answered")
	flag.Parse()

	demo.Main(func(ctx context.Context) error {
		list, stop, err := demo.Connect(ctx, os.Stdout, *servers)
		if err != nil {
			return err
		}
		defer stop()
		switch {
		case *servers == "":
			return p.deploy(ctx, list)
		case *serve != "":
			return p.serve(ctx, list, *serve, *id)
		case *call != "":
			return p.call(ctx, list, *call)
		}
		return errors.New("-servers requires -serve or -call")
	})
}

// calls maps each service to the service that it calls.
var calls = map[string]string{"orders": "stock", "stock": ""}

// program is an instance or a client, or several of them.
type program struct {
	log                             *log.Logger
	path                            string
	session, drain, patience, every time.Duration
	answered                        func(by string) // nil, or called by the client after each answer with the instances that took part
}

// serve runs an instance of a service until ctx is done. It answers with its id and the answer of
// the service that it calls.
func (p program) serve(ctx context.Context, servers []string, service, id string) error {
	next, known := calls[service]
	if !known {
		return fmt.Errorf("unknown service %q", service)
	}
	client, d, err := p.connect(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	work := func(context.Context) (string, error) { return id, nil }
	if next != "" {
		another, disconnect, err := p.caller(ctx, d, next, p.patience/3) // our callers wait for longer
		if err != nil {
			return err
		}
		defer disconnect()
		work = func(ctx context.Context) (string, error) {
			text, err := get(ctx, another, next)
			return id + " " + text, err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// Without the timeout Shutdown waits seconds for connections without a request.
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := work(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, text)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }() // ends with Shutdown or Close
	defer server.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	reg, err := d.Register(ctx, discovery.Instance[any]{Name: service, ID: id, Address: "127.0.0.1", Port: port}) // now that it can answer
	if err != nil {
		return err
	}
	p.log.Printf("%s: registered", id)
	select {
	case err := <-ended:
		return errors.Join(err, reg.Close())
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.drain+p.session)
	defer cancel()
	err = errors.Join(reg.Drain(stopping, p.drain), server.Shutdown(stopping))
	p.log.Printf("%s: drained", id)
	return err
}

// call sends requests to a service until ctx is done. It returns an error if a request was lost.
func (p program) call(ctx context.Context, servers []string, service string) error {
	client, d, err := p.connect(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	caller, disconnect, err := p.caller(ctx, d, service, p.patience)
	if err != nil {
		return err
	}
	defer disconnect()

	const callers, pause = 4, 20 * time.Millisecond
	calling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	answers := make(chan string)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for again := time.Tick(pause); calling.Err() == nil; <-again {
				by, err := get(calling, caller, service)
				switch {
				case err == nil:
					answers <- by
				case calling.Err() == nil:
					stop(fmt.Errorf("request failed: %w", err))
				}
			}
		})
	}
	go func() { // ends with the callers
		wg.Wait()
		close(answers)
	}()
	total, from, report := 0, map[string]int{}, time.Tick(p.every)
	for {
		select {
		case by, more := <-answers:
			if !more {
				p.log.Printf("%d requests, none failed", total)
				if ctx.Err() == nil {
					return context.Cause(calling)
				}
				return nil
			}
			total++
			for _, id := range strings.Fields(by) {
				from[id]++
			}
			if p.answered != nil {
				p.answered(by)
			}
		case <-report:
			p.log.Printf("answered by %s", strings.Join(slices.Sorted(maps.Keys(from)), " "))
			clear(from)
		}
	}
}

// connect returns a client and its services.
func (p program) connect(servers []string) (*framework.Client, *discovery.Discovery[any], error) {
	client, err := framework.New(servers, framework.WithSessionTimeout(p.session))
	if err != nil {
		return nil, nil, err
	}
	d, err := discovery.New[any](client, p.path)
	if err != nil {
		client.Close()
	}
	return client, d, err
}

// caller returns an HTTP client of a service when the service has an instance.
func (p program) caller(
	ctx context.Context, d *discovery.Discovery[any], service string, patience time.Duration,
) (_ *http.Client, disconnect func(), err error) {
	w, err := d.Watch(ctx, service)
	if err != nil {
		return nil, nil, err
	}
	for list, end := range w.Observe(ctx) {
		if err = end; err != nil || len(list) > 0 {
			break
		}
	}
	base := &http.Transport{DialContext: (&net.Dialer{Timeout: patience}).DialContext, ResponseHeaderTimeout: patience}
	transport, refused := httpclient.New(w, discovery.RoundRobin, httpclient.WithBase(base))
	if err = errors.Join(err, refused); err != nil {
		_ = w.Close() // returns nil
		return nil, nil, err
	}
	return &http.Client{Transport: transport}, func() {
		base.CloseIdleConnections()
		_ = w.Close() // returns nil
	}, nil
}

// get sends a request to a service. It returns an error for any status but 200.
func get(ctx context.Context, client *http.Client, service string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+service+"/", nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(body)))
	}
	return string(body), err
}

// deploy replaces the instance of each service while the client sends requests.
func (p program) deploy(ctx context.Context, servers []string) error {
	all, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := func(run func(ctx context.Context) error) (stop func()) {
		ctx, cancel := context.WithCancel(all)
		ended := make(chan struct{})
		go func() { // ends with stop
			defer close(ended)
			if err := run(ctx); err != nil {
				fail(err) // one failure ends all
			}
		}()
		return func() {
			cancel()
			<-ended
		}
	}
	serve := func(service, version string) (drain func()) {
		return start(func(ctx context.Context) error { return p.serve(ctx, servers, service, service+"-"+version) })
	}
	answers := make(chan string, 1)
	client := p
	client.answered = func(by string) {
		select {
		case answers <- by:
		default: // only some of many are needed
		}
	}
	until := func(by string, times int) {
		for times > 0 && all.Err() == nil {
			select {
			case got := <-answers:
				if got == by {
					times--
				}
			case <-all.Done():
			}
		}
	}

	drainOrders, drainStock := serve("orders", "old"), serve("stock", "old")
	hangUp := start(func(ctx context.Context) error { return client.call(ctx, servers, "orders") })
	until("orders-old stock-old", 50)
	stopOrders, stopStock := serve("orders", "new"), serve("stock", "new")
	until("orders-new stock-new", 5)
	drainOrders()
	drainStock()
	until("orders-new stock-new", 5)
	hangUp()
	stopOrders()
	stopStock()
	return context.Cause(all)
}
