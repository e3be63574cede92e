package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/httpclient"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/observe/promobserve"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/once"
)

// Where the service keeps its nodes.
const (
	settingsPath  = "/shop/settings"
	schedulerPath = "/shop/scheduler"
	reportPath    = "/shop/report"
	nightlyPath   = "/shop/nightly"
	servicesPath  = "/services"
)

// Config configures an instance of the service.
type Config struct {
	Servers string // connect string of the ensemble
	Listen  string
	ID      string
	Session time.Duration
	Drain   time.Duration
	Logger  *slog.Logger
	Now     func() time.Time // time.Now if nil; tests set the day of the nightly job
}

// Settings is the JSON at /shop/settings. Related values share one node, so that a reader never
// sees a partial change.
type Settings struct {
	ReportEvery time.Duration `json:"report_every_ns"`
	Currency    string        `json:"currency"`
}

var defaults = Settings{ReportEvery: time.Second, Currency: "EUR"}

// parseSettings decodes a Settings. A missing field has its default.
func parseSettings(n cache.Node) (Settings, error) {
	v := defaults
	if len(n.Data) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(n.Data, &v); err != nil {
		return Settings{}, err
	}
	if v.ReportEvery <= 0 { // the scheduler would not pause
		return Settings{}, fmt.Errorf("report_every_ns of %d: must be positive", v.ReportEvery)
	}
	return v, nil
}

// Service is a running instance of the service.
type Service struct {
	cfg      Config
	log      *slog.Logger
	registry *prom.Registry
	client   *framework.Client

	settings *cache.Values[Settings]
	election *leader.Election
	nightly  *once.Once
	stock    *http.Client
	server   *http.Server
	address  string
	reg      *discovery.Registration[any]

	closers []func() error // in the order in which they were opened
	terms   sync.WaitGroup // the candidate
	work    sync.WaitGroup // the other goroutines
	stop    context.CancelFunc
	stops   atomic.Bool // Shutdown was called
	once    sync.Once
	failed  chan struct{} // closed after err is set
	err     error
}

// Start starts an instance, and returns when it is registered and serves requests. ctx limits only
// the start.
func Start(ctx context.Context, cfg Config) (_ *Service, err error) {
	s := &Service{cfg: cfg, log: cfg.Logger, registry: prom.NewRegistry(), failed: make(chan struct{})}
	if s.cfg.Now == nil {
		s.cfg.Now = time.Now
	}
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	defer func() {
		if err != nil {
			_ = s.Shutdown(ctx) // err is the news
		}
	}()
	if err := s.connect(ctx); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := s.follow(ctx); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if s.election, err = leader.New(s.client, schedulerPath, leader.WithID(cfg.ID)); err != nil {
		return nil, err
	}
	if s.nightly, err = once.New(s.client, nightlyPath); err != nil {
		return nil, err
	}
	s.terms.Go(func() { // ends with background
		if err := s.election.Run(background, s.schedule); background.Err() == nil {
			s.fail(fmt.Errorf("election: %w", err))
		}
	})
	d, err := discovery.New[any](s.client, servicesPath)
	if err != nil {
		return nil, err
	}
	if err := s.balance(ctx, d); err != nil {
		return nil, fmt.Errorf("stock: %w", err)
	}
	host, port, err := s.listen()
	if err != nil {
		return nil, err
	}
	// Last: from now on other instances call this one.
	s.reg, err = d.Register(ctx, discovery.Instance[any]{Name: "orders", ID: cfg.ID, Address: host, Port: port})
	if err != nil {
		return nil, err
	}
	s.log.Info("serving", "address", s.address)
	return s, nil
}

// connect creates the client with its metrics, and waits for a server.
func (s *Service) connect(ctx context.Context) error {
	servers, chroot, err := framework.ParseConnectString(s.cfg.Servers)
	if err != nil {
		return err
	}
	observed, err := promobserve.New(s.registry, promobserve.WithLockLabel(func(path, _ string) string { return path }))
	if err != nil {
		return err
	}
	s.client, err = framework.New(servers,
		framework.WithNamespace(chroot),
		framework.WithSessionTimeout(s.cfg.Session),
		framework.WithLogger(s.log),
		observed,
		framework.WithDefaultData([]byte(s.cfg.ID)),       // names the holder of the nightly lock
		framework.WithErrorPolicy(connstate.LostEndsHold), // a short outage ends neither a term nor a hold
	)
	if err != nil {
		return err
	}
	return s.client.WaitConnected(ctx)
}

// follow reads the settings into a cache, and logs their changes.
func (s *Service) follow(ctx context.Context) error {
	c, err := cache.New(s.client, settingsPath)
	if err != nil {
		return err
	}
	s.opened(c.Close)
	collector, err := promobserve.NewCacheCollector(c, "settings")
	if err != nil {
		return err
	}
	s.registry.MustRegister(collector)
	s.settings, err = cache.NewValues(c, parseSettings)
	if err != nil {
		return err
	}
	if err := c.Sync(ctx); err != nil { // do not serve with defaults before the settings are read
		return err
	}
	s.work.Go(func() { // ends with the cache
		for change, err := range s.settings.Changes(context.Background()) {
			switch {
			case err != nil:
				return
			case change.Value.Err != nil:
				s.log.Warn("invalid settings, keeping the last valid ones", "error", change.Value.Err)
			default:
				s.log.Info("settings", "now", s.Settings())
			}
		}
	})
	return nil
}

// Settings returns the current settings, without a request to the servers.
func (s *Service) Settings() Settings {
	if v, ok := s.settings.Get(settingsPath); ok && v.Value != (Settings{}) {
		return v.Value
	}
	return defaults
}

// balance creates the client of the service stock.
func (s *Service) balance(ctx context.Context, d *discovery.Discovery[any]) error {
	w, err := d.Watch(ctx, "stock")
	if err != nil {
		return err
	}
	s.opened(w.Close)
	transport, err := httpclient.New(w, discovery.RoundRobin)
	if err != nil {
		return err
	}
	s.stock = &http.Client{Transport: transport, Timeout: 5 * time.Second}
	s.opened(func() error { s.stock.CloseIdleConnections(); return nil })
	return nil
}

// listen starts the HTTP server, and returns where other instances reach it.
func (s *Service) listen() (host string, port int, err error) {
	l, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return "", 0, err
	}
	address := l.Addr().(*net.TCPAddr)
	if address.IP.IsUnspecified() {
		return "", 0, errors.Join(fmt.Errorf("listen on %s: must be a specific address, which other instances can reach", s.cfg.Listen), l.Close())
	}
	s.address = address.String()
	s.server = &http.Server{Handler: s.routes(), ReadHeaderTimeout: time.Second}
	s.work.Go(func() { // ends with Shutdown
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("serve: %w", err))
		}
	})
	return address.IP.String(), address.Port, nil
}

func (s *Service) opened(end func() error) { s.closers = append(s.closers, end) }

func (s *Service) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.failed)
	})
}

// Failed returns a channel that is closed when the instance fails. [Service.Err] then returns the
// reason. The caller must still call [Service.Shutdown].
func (s *Service) Failed() <-chan struct{} { return s.failed }

// Err returns the reason why the instance failed. It is valid once the channel of [Service.Failed]
// is closed.
func (s *Service) Err() error { return s.err }

// Address returns the address of the HTTP server.
func (s *Service) Address() string { return s.address }

// Shutdown stops the instance in this order: registration, HTTP server, scheduler, session. If ctx
// is done first, Shutdown cancels the remaining requests and work.
func (s *Service) Shutdown(ctx context.Context) error {
	s.stops.Store(true)
	var errs []error
	if s.reg != nil { // callers learn that the instance stops, and it answers until they do
		errs = append(errs, within(ctx, func() error { return s.reg.Drain(ctx, s.cfg.Drain) }))
	}
	if s.server != nil {
		errs = append(errs, s.server.Shutdown(ctx))
		_ = s.server.Close() // requests that are left
	}
	s.stop() // the scheduler resigns, which needs the client
	errs = append(errs, within(ctx, func() error { s.terms.Wait(); return nil }))
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, within(ctx, s.closers[i]))
	}
	if s.client != nil { // last: it waits for the nightly work to release its lock
		errs = append(errs, s.client.Shutdown(ctx))
	}
	s.work.Wait()
	return errors.Join(errs...)
}

// within returns when f has returned or ctx has ended.
func within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }() // ends with the client at the latest
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
