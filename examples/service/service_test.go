package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop is a server of zktest with instances of the service.
type shop struct {
	*testing.T
	*zktest.Server
	client *framework.Client // the test's own
	now    atomic.Pointer[time.Time]
}

func newShop(t *testing.T) *shop {
	s := &shop{T: t, Server: zktest.NewServer(t)}
	s.day(1)
	s.client = testbed.NewClient(t, s.Servers())
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s
}

// day sets the date.
func (s *shop) day(n int) {
	date := time.Date(2026, 12, n, 0, 0, 0, 0, time.UTC)
	s.now.Store(&date)
}

// instance is a Service whose connections to the server can be frozen: it has an address of its
// own.
type instance struct {
	*Service
	shop *shop
	link *zktest.Listener
	id   string
}

func (s *shop) start(id string) *instance {
	s.Helper()
	link := testbed.Must(s.Listen("127.0.0.1:0", nil))
	service, err := Start(s.Context(), Config{
		Servers: link.Addr(), Listen: "127.0.0.1:0", ID: id, Session: 4 * time.Second,
		Logger: slog.New(slog.NewTextHandler(s.Output(), nil)).With("instance", id),
		Now:    func() time.Time { return *s.now.Load() },
	})
	require.NoError(s, err)
	i := &instance{service, s, link, id}
	s.Cleanup(func() {
		select {
		case <-i.Failed():
			assert.NoError(s, i.Err(), id)
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = i.Shutdown(ctx) // after a fault it may report that its session is gone
	})
	return i
}

// session returns the session of the instance.
func (i *instance) session() int64 {
	i.shop.Helper()
	session, err := i.client.Session(i.shop.Context())
	require.NoError(i.shop, err)
	return session.ID()
}

// call sends a request to the instance.
func (i *instance) call(method, path string) (status int, text string) {
	i.shop.Helper()
	request := testbed.Must(http.NewRequestWithContext(i.shop.Context(), method, "http://"+i.Address()+path, nil))
	answer, err := http.DefaultClient.Do(request)
	require.NoError(i.shop, err)
	defer answer.Body.Close()
	body := testbed.Must(io.ReadAll(answer.Body))
	return answer.StatusCode, string(body)
}

// ready returns the text of /ready, whose status must be 200.
func (i *instance) ready() string {
	status, text := i.call("GET", "/ready")
	require.Equal(i.shop, http.StatusOK, status, text)
	return text
}

// until waits for a condition. go test has the only time limit.
func (s *shop) until(what string, f func() bool) {
	s.Helper()
	for !f() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.Context().Done():
			require.Fail(s, what)
		}
	}
}

// stock starts an instance of the service stock.
func (s *shop) stock() (stop func()) {
	s.Helper()
	return s.stockBy(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "5 of "+strings.TrimPrefix(r.URL.Path, "/items/"))
	})
}

// stockBy starts one that answers in this way.
func (s *shop) stockBy(answer http.HandlerFunc) (stop func()) {
	s.Helper()
	server := httptest.NewServer(answer)
	s.Cleanup(server.Close)
	d := testbed.Must(discovery.New[any](s.client, servicesPath))
	reg, err := d.Register(s.Context(), discovery.Instance[any]{Name: "stock", Address: "127.0.0.1", Port: server.Listener.Addr().(*net.TCPAddr).Port})
	require.NoError(s, err)
	return func() {
		require.NoError(s, reg.Close())
		server.Close()
	}
}

// report returns the last report.
func (s *shop) report() (r Report) {
	data, err := s.Get(reportPath)
	if err == nil {
		require.NoError(s, json.Unmarshal(data, &r))
	}
	return r
}

// registered reports whether the instance is registered.
func (i *instance) registered() bool { return i.shop.Exists(servicesPath + "/orders/" + i.id) }

// set writes the settings.
func (s *shop) set(text string) {
	if s.Exists(settingsPath) {
		require.NoError(s, s.Set(settingsPath, []byte(text)))
		return
	}
	require.NoError(s, s.Create(settingsPath, []byte(text)))
}

func TestOrders(t *testing.T) {
	s := newShop(t)
	a := s.start("a")
	status, _ := a.call("GET", "/orders/7")
	require.Equal(t, http.StatusBadGateway, status, "without stock")
	stop := s.stock()
	s.until("stock is found", func() bool {
		status, text := a.call("GET", "/orders/7")
		return status == http.StatusOK && text == "order 7: 5 of 7 in stock, in EUR\n"
	})
	s.stock()
	stop()
	s.until("the other instance answers", func() bool { status, _ := a.call("GET", "/orders/8"); return status == http.StatusOK })

	s.set(`{"currency":"CHF","report_every_ns":10000000}`)
	s.until("settings are applied", func() bool { _, text := a.call("GET", "/orders/7"); return strings.HasSuffix(text, "in CHF\n") })
	s.set("no JSON")
	s.set(`{"currency":"USD"}`)
	s.until("bad settings are left out", func() bool { return a.Settings().Currency == "USD" })
	assert.Equal(t, defaults.ReportEvery, a.Settings().ReportEvery, "a missing field has its default")
	_, text := a.call("GET", "/metrics")
	assert.Contains(t, text, `curator_lock_held{kind="election",lock="/shop/scheduler"} 1`)
}

// TestOneScheduler: another instance takes over from one that shuts down.
func TestOneScheduler(t *testing.T) {
	s := newShop(t)
	s.set(`{"currency":"EUR","report_every_ns":1000000}`)
	instances := map[string]*instance{"a": s.start("a"), "b": s.start("b")}
	s.until("a report", func() bool { return s.report().N > 0 })
	first := s.report().By
	require.NoError(t, instances[first].Shutdown(t.Context()))
	s.until("another one schedules", func() bool { return s.report().By != first })
}

// TestExpiredSession: the instance registers again, and another one schedules.
func TestExpiredSession(t *testing.T) {
	s := newShop(t)
	s.set(`{"currency":"EUR","report_every_ns":1000000}`)
	a, b := s.start("a"), s.start("b")
	s.until("a schedules", func() bool { return s.report().N > 0 })
	leader, other := a, b
	if s.report().By == "b" {
		leader, other = b, a
	}
	old := leader.session()
	require.NoError(t, s.ExpireSession(old))
	s.until("the other one schedules", func() bool { return s.report().By == other.id })
	s.until("registered in a new session", func() bool { return leader.registered() && leader.session() != old })
	status, _ := leader.call("GET", "/ready")
	assert.Equal(t, http.StatusOK, status)
}

// TestCutOff: an instance that no server hears is left out, and cannot write a report or finish the
// nightly job.
func TestCutOff(t *testing.T) {
	s := newShop(t)
	s.set(`{"currency":"EUR","report_every_ns":1000000}`)
	a, b := s.start("a"), s.start("b")
	s.stock()

	running, ended := make(chan struct{}), make(chan error, 1)
	go func() { // ends with the lock
		ended <- a.Nightly(context.Background(), func(ctx context.Context) error {
			close(running)
			<-ctx.Done()
			return nil // a job that does not notice
		})
	}()
	<-running
	assert.ErrorIs(t, b.Nightly(t.Context(), nil), errRunning)
	a.link.Freeze()
	s.until("b schedules", func() bool { return s.report().By == "b" })
	s.until("a is unregistered", func() bool { return !a.registered() })
	require.Error(t, <-ended, "the lock was lost")
	s.until("the outage is noticed", func() bool { return a.ready() == "ready, without ZooKeeper\n" })
	s.until("b runs the nightly job", func() bool { return b.Nightly(t.Context(), func(context.Context) error { return nil }) == nil })
	status, _ := a.call("GET", "/orders/7")
	assert.Equal(t, http.StatusOK, status, "requests are served with the last list and settings")

	a.link.Thaw()
	s.until("a is registered again", a.registered)
	s.until("a is connected", func() bool { return a.ready() == "ready\n" })
}

// TestEnsembleDown: requests are answered, and everything continues afterwards.
func TestEnsembleDown(t *testing.T) {
	s := newShop(t)
	s.set(`{"currency":"EUR","report_every_ns":1000000}`)
	a := s.start("a")
	s.stock()
	s.until("stock is found", func() bool { status, _ := a.call("GET", "/orders/7"); return status == http.StatusOK })
	s.until("a schedules", func() bool { return s.report().N > 0 })

	s.Stop()
	s.until("the outage is noticed", func() bool { return a.ready() == "ready, without ZooKeeper\n" })
	status, text := a.call("POST", "/nightly")
	assert.Equal(t, http.StatusServiceUnavailable, status, text)
	status, text = a.call("GET", "/orders/7")
	assert.Equal(t, http.StatusOK, status, text)
	n := s.report().N
	require.NoError(t, s.Restart())
	s.until("reports go on", func() bool { return s.report().N > n })
	s.until("registered", a.registered)
	status, text = a.call("POST", "/nightly")
	assert.Equal(t, http.StatusOK, status, text)
}

func TestParseSettings(t *testing.T) {
	for text, want := range map[string]string{
		"no JSON":                "invalid character",
		`{"report_every_ns":0}`:  "must be positive",
		`{"report_every_ns":-1}`: "must be positive",
	} {
		assert.ErrorContains(t, testbed.Err(parseSettings(cache.Node{Data: []byte(text)})), want)
	}
}

func TestNightly(t *testing.T) {
	s := newShop(t)
	a, b := s.start("a"), s.start("b")
	for day := 1; day <= 2; day++ {
		s.day(day)
		status, text := a.call("POST", "/nightly")
		require.Equal(t, http.StatusOK, status, text)
		for _, i := range []*instance{a, b} {
			status, text = i.call("POST", "/nightly")
			require.Equal(t, http.StatusConflict, status)
			require.Equal(t, errDone.Error()+"\n", text)
		}
	}
	s.day(3)
	require.ErrorContains(t, a.Nightly(t.Context(), func(context.Context) error { return fmt.Errorf("no disk") }), "no disk")
	require.NoError(t, b.Nightly(t.Context(), func(context.Context) error { return nil }), "a failed job is repeated")
}

// TestShutdown: a request that has begun is answered, and no node stays.
func TestShutdown(t *testing.T) {
	s := newShop(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	s.stockBy(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-goOn
		_, _ = io.WriteString(w, "5")
	})
	a := s.start("a")
	session := a.session()
	answer := make(chan int, 1)
	go func() { // ends with the answer
		status, _ := a.call("GET", "/orders/7")
		answer <- status
	}()
	<-arrived
	down := make(chan error, 1)
	go func() { down <- a.Shutdown(context.Background()) }() // ends after the answer
	s.until("unregistered first", func() bool { return !a.registered() })
	close(goOn)
	assert.Equal(t, http.StatusOK, <-answer)
	require.NoError(t, <-down)
	for _, left := range s.Sessions() {
		assert.NotEqual(t, session, left.ID)
	}
	children := testbed.Must(s.Children(schedulerPath))
	assert.Empty(t, children)
}

// TestRun: run stops like a process that receives SIGTERM, and without a server it fails within its
// patience.
func TestRun(t *testing.T) {
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	serving, ended := make(chan struct{}), make(chan error, 1)
	log := slog.NewTextHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey && a.Value.String() == "serving" {
			close(serving)
		}
		return a
	}})
	cfg := Config{Servers: s.Addr() + "/app", Listen: "127.0.0.1:0", ID: "a", Session: 4 * time.Second, Logger: slog.New(log)}
	go func() { ended <- run(ctx, cfg, time.Minute) }() // ends with ctx
	<-serving                                           // Start has returned; its context no longer matters
	require.True(t, s.Exists("/app/services/orders/a"), "registered below the chroot")
	cancel()
	require.NoError(t, <-ended)
	require.False(t, s.Exists("/app/services/orders/a"))

	cfg.Listen = "0.0.0.0:0"
	require.ErrorContains(t, run(t.Context(), cfg, time.Minute), "must be a specific address")
	s.Stop()
	require.ErrorIs(t, run(testbed.Timeout(t, time.Second), cfg, time.Second), context.DeadlineExceeded)
}
