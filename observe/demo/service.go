package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/observe/otelobserve"
	"github.com/gocurator/curator/observe/promobserve"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

// service runs clients that contend for locks, and a server with recurring faults.
type service struct {
	prometheus, otel *prom.Registry
	server           *zktest.Server
	clients          []*framework.Client
	closers          []func() error
	meters           otelobserve.Option
	cancel           context.CancelFunc
	wg               sync.WaitGroup
}

func startService(ctx context.Context) (*service, error) {
	s := &service{prometheus: prom.NewRegistry(), otel: prom.NewRegistry()}
	ctx, s.cancel = context.WithCancel(ctx)
	err := s.start(ctx)
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *service) start(ctx context.Context) error {
	first, err := promobserve.New(s.prometheus, promobserve.WithLockLabel(lockLabel))
	if err != nil {
		return err
	}
	exporter, err := otelprom.New(otelprom.WithRegisterer(s.otel))
	if err != nil {
		return err
	}
	s.meters = otelobserve.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)))
	second, err := otelobserve.New(s.meters, otelobserve.WithLockLabel(lockLabel))
	if err != nil {
		return err
	}
	if s.server, err = zktest.Start(); err != nil {
		return err
	}
	for range 5 {
		client, err := framework.New(s.server.Servers(), framework.WithSessionTimeout(5*time.Second),
			first, second)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, client)
		if err := s.work(ctx, client); err != nil {
			return err
		}
	}
	if err := s.follow(ctx); err != nil {
		return err
	}
	s.wg.Go(func() { s.moods(ctx) })
	return nil
}

// follow keeps a node and a cache with one client, and writes nodes with another.
func (s *service) follow(ctx context.Context) error {
	c, err := cache.New(s.clients[0], "/shop")
	if err != nil {
		return err
	}
	s.closers = append(s.closers, c.Close)
	collector, err := promobserve.NewCacheCollector(c, "shop")
	_, otelErr := otelobserve.ObserveCache(c, "shop", s.meters)
	if err := errors.Join(err, otelErr, s.prometheus.Register(collector)); err != nil {
		return err
	}
	n, err := node.Keep(ctx, s.clients[0], "/db/primary", nil)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, n.Close)
	collector, err = promobserve.NewNodeCollector(n, "primary")
	_, otelErr = otelobserve.ObserveNode(n, "primary", s.meters)
	if err := errors.Join(err, otelErr, s.prometheus.Register(collector)); err != nil {
		return err
	}
	prices := 0
	s.repeat(ctx, func(ctx context.Context) {
		_ = pause(20, 200)(ctx)
		prices++
		_, _ = s.clients[1].Create(ctx, "/shop/prices", []byte(strconv.Itoa(prices)), framework.OrSet())
	})
	return nil
}

// lockLabel returns the first element of a path. The two queues of a semaphore differ in the label
// kind.
func lockLabel(path, _ string) string { return strings.Split(path, "/")[1] }

// work contends for all locks with one client.
func (s *service) work(ctx context.Context, client *framework.Client) error {
	invoices, err := mutex.New(client, "/billing/invoices", lock.WithMaxHold(150*time.Millisecond))
	if err != nil {
		return err
	}
	catalogue, err := rwlock.New(client, "/shop/catalogue")
	if err != nil {
		return err
	}
	pool, err := semaphore.New(client, "/db/connections", 3)
	if err != nil {
		return err
	}
	scheduler, err := leader.New(client, "/scheduler/leader")
	if err != nil {
		return err
	}
	s.wg.Go(func() { // each leads for a while
		_ = scheduler.Run(ctx, func(ctx context.Context, _ *leader.Term) error { return pause(500, 3_000)(ctx) })
	})
	s.repeat(ctx, func(ctx context.Context) { _ = invoices.Do(ctx, pause(5, 60)) })
	s.repeat(ctx, func(ctx context.Context) { _ = catalogue.Read().Do(ctx, pause(5, 30)) })
	s.repeat(ctx, func(ctx context.Context) {
		_ = pause(50, 300)(ctx)
		_ = catalogue.Write().Do(ctx, pause(5, 20))
	})
	s.repeat(ctx, func(ctx context.Context) { _ = pool.Do(ctx, pause(10, 40)) })
	s.repeat(ctx, func(ctx context.Context) {
		_ = pause(20, 200)(ctx)
		if hold, err := invoices.TryAcquire(ctx); err == nil {
			_ = pause(5, 200)(hold.Context()) // sometimes too long
			_ = hold.Release()
		}
	})
	return nil
}

// repeat calls f until ctx ends, with a timeout of one second. It ignores errors: the dashboard
// shows them.
func (s *service) repeat(ctx context.Context, f func(ctx context.Context)) {
	s.wg.Go(func() {
		for ctx.Err() == nil {
			patient, cancel := context.WithTimeout(ctx, time.Second)
			f(patient)
			cancel()
		}
	})
}

// pause returns a function that blocks for a random time between least and most milliseconds, or
// until ctx ends.
func pause(least, most int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(time.Duration(least+rand.IntN(most-least)) * time.Millisecond):
		case <-ctx.Done():
		}
		return nil
	}
}

// moods injects the faults of the server in turn, with pauses.
func (s *service) moods(ctx context.Context) {
	for ctx.Err() == nil {
		for _, mood := range []func(){
			s.server.CutConnections,
			func() {
				if sessions := s.server.Sessions(); len(sessions) > 0 {
					_ = s.server.ExpireSession(sessions[rand.IntN(len(sessions))].ID)
				}
			},
			func() {
				calm := s.server.Delay(30 * time.Millisecond)
				_ = pause(5_000, 8_000)(ctx)
				calm()
			},
			func() {
				s.server.RefuseConnections(true)
				s.server.CutConnections()
				_ = pause(2_000, 4_000)(ctx)
				s.server.RefuseConnections(false)
			},
		} {
			_ = pause(8_000, 15_000)(ctx)
			mood()
		}
	}
}

func (s *service) metrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.prometheus, promhttp.HandlerOpts{}))
	mux.Handle("/otel", promhttp.HandlerFor(s.otel, promhttp.HandlerOpts{}))
	return mux
}

func (s *service) stop() {
	s.cancel()
	s.wg.Wait()
	for _, end := range s.closers {
		_ = end()
	}
	for _, client := range s.clients {
		client.Close()
	}
	if s.server != nil {
		s.server.Close()
	}
}
