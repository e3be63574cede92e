package httpclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/httpclient"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network connects clients with listeners in memory, since virtual time stops while a goroutine
// waits for a real network. Its World is the ZooKeeper server, which has a separate network.
type network struct {
	*testbed.World

	mu        sync.Mutex
	listeners map[string]*listener
}

type listener struct {
	address string
	calls   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.calls:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	if l == nil {
		return nil, refused
	}
	ours, theirs := net.Pipe()
	select {
	case l.calls <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// backend is a process with an instance of the service "orders".
type backend struct {
	registered *discovery.Registration[string]
	server     *http.Server
	hangs      chan struct{} // closed: it answers no more
	ends       sync.WaitGroup
}

// start starts a process whose address is its id.
func (n *network) start(t *testing.T, id string) *backend {
	t.Helper()
	l := &listener{address: id + ":80", calls: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	n.listeners[l.address] = l
	n.mu.Unlock()
	b := &backend{hangs: make(chan struct{})}
	b.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case <-b.hangs:
			<-r.Context().Done() // the client has given up
		case <-time.After(100 * time.Millisecond): // virtual time: the work
			fmt.Fprintf(w, "%s %s %s", id, r.Host, body)
		}
	})}
	b.ends.Go(func() { _ = b.server.Serve(l) }) // ends with Close
	t.Cleanup(func() { b.kill() })
	b.registered = register(t, n.Client(), discovery.Instance[string]{Name: "orders", ID: id, Address: id, Port: 80})
	return b
}

func (b *backend) kill() {
	_ = b.server.Close()
	b.ends.Wait()
}

func register(t *testing.T, client *framework.Client, i discovery.Instance[string]) *discovery.Registration[string] {
	t.Helper()
	d, err := discovery.New[string](client, "/services")
	require.NoError(t, err)
	r, err := d.Register(t.Context(), i)
	require.NoError(t, err)
	return r
}

// caller makes an HTTP client of the service.
func (n *network) caller(t *testing.T) (*http.Client, *discovery.Watch[string]) {
	t.Helper()
	d, err := discovery.New[string](n.Client(), "/services", discovery.WithDownAfter(1, time.Hour))
	require.NoError(t, err)
	w, err := d.Watch(t.Context(), "orders")
	require.NoError(t, err)
	base := httpclient.DefaultBase()
	base.DialContext = n.dial
	transport, err := httpclient.New(w, discovery.RoundRobin, httpclient.WithBase(base))
	require.NoError(t, err)
	t.Cleanup(func() {
		base.CloseIdleConnections()
		w.Close()
	})
	return &http.Client{Transport: transport}, w
}

func answer(client *http.Client, request *http.Request) (string, error) {
	a, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return string(body), err
}

func get(client *http.Client) (string, error) {
	request, err := http.NewRequest(http.MethodGet, "http://orders/7", nil)
	if err != nil {
		return "", err
	}
	return answer(client, request)
}

// virtual runs test in virtual time, with a ZooKeeper server and a network for the service.
func virtual(t *testing.T, test func(t *testing.T, n *network)) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		test(t, &network{World: w, listeners: make(map[string]*listener)})
	})
}

func TestNoRequestIsLostWhileInstancesAreDrainedKilledAndStopped(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		drained, killed, stopped := n.start(t, "drained"), n.start(t, "killed"), n.start(t, "stopped")
		n.start(t, "stays")
		caller, _ := n.caller(t)
		var mu sync.Mutex
		served := map[string]int{}
		over := make(chan struct{})
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					text, err := get(caller)
					if !assert.NoError(t, err) {
						return
					}
					mu.Lock()
					served[strings.Fields(text)[0]]++
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Second) // virtual time, in which all serve
		mu.Lock()
		for _, id := range []string{"drained", "killed", "stopped", "stays"} {
			assert.Greater(t, served[id], 10, id)
		}
		mu.Unlock()

		assert.NoError(t, drained.registered.Drain(t.Context(), 5*time.Second))
		assert.NoError(t, drained.server.Shutdown(t.Context()))
		killed.kill()           // its node stays as long as its session
		time.Sleep(time.Second) // virtual time, in which callers try the stopped instance
		close(stopped.hangs)
		time.Sleep(time.Minute) // virtual time, in which requests that hang are given up
		mu.Lock()
		clear(served)
		mu.Unlock()
		time.Sleep(time.Second) // virtual time, in which only the other instance serves
		close(over)
		callers.Wait()
		require.Len(t, served, 1)
		require.Positive(t, served["stays"])
	})
}

func TestOnlyWhatMayBeRepeatedIsRepeated(t *testing.T) {
	for _, c := range []struct {
		name, method, header string
		body                 io.Reader
		// the server hangs after it has the request, rather than refuse the connection
		seen     bool
		repeated bool
	}{
		{"get", http.MethodGet, "", nil, true, true},
		{"put", http.MethodPut, "", nil, true, false},
		{"post that was not sent", http.MethodPost, "", strings.NewReader("body"), false, true},
		{"post", http.MethodPost, "", strings.NewReader("body"), true, false},
		{"post with a key", http.MethodPost, "Idempotency-Key", strings.NewReader("body"), true, true},
		{"a body that is read once", http.MethodPost, "Idempotency-Key", io.MultiReader(strings.NewReader("body")), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(t *testing.T, n *network) {
				bad := n.start(t, "a")
				n.start(t, "b")
				if c.seen {
					close(bad.hangs)
				} else {
					bad.kill()
				}
				caller, w := n.caller(t)
				request, err := http.NewRequest(c.method, "http://orders/7", c.body)
				require.NoError(t, err)
				if c.header != "" {
					request.Header.Set(c.header, "1")
				}
				text, err := answer(caller, request)
				if !c.repeated {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					body := ""
					if c.body != nil {
						body = "body"
					}
					require.Equal(t, "b orders "+body, text, "with the host that was asked for, and the whole body")
				}
				one, err := w.Pick(discovery.RoundRobin)
				require.NoError(t, err)
				require.Equal(t, "b", one.ID, "the other one is down")
			})
		})
	}
}

// A caller's mistake must not take an instance from all other callers.
func TestARequestThatCannotBeSentMarksNobodyDown(t *testing.T) {
	for name, spoil := range map[string]func(r *http.Request){
		"header": func(r *http.Request) { r.Header.Set("X-Text", "two\nlines") },
		"name":   func(r *http.Request) { r.Header["a header"] = []string{"1"} },
		"empty":  func(r *http.Request) { r.Header[""] = []string{"1"} },
		"body":   func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader("part"), aborted{})) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, n *network) {
				n.start(t, "a")
				n.start(t, "b")
				caller, w := n.caller(t)
				request, err := http.NewRequest(http.MethodGet, "http://orders/7", nil)
				require.NoError(t, err)
				spoil(request)
				defer time.Sleep(time.Second) // virtual time, in which the server ends its work
				_, refused := answer(caller, request)
				for range 2 {
					one, err := w.Pick(discovery.RoundRobin)
					require.NoError(t, err, "%v", refused)
					w.ReportError(one)
				}
				if name == "body" {
					require.ErrorIs(t, refused, errAborted)
				} else {
					require.ErrorIs(t, refused, framework.ErrBadArgument)
				}
			})
		})
	}
}

var errAborted = errors.New("the upload was aborted")

// aborted is the rest of an upload whose client has hung up.
type aborted struct{}

func (aborted) Read([]byte) (int, error) { return 0, errAborted }

func TestARequestThatItsCallerGivesUpMarksNobodyDown(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		close(n.start(t, "a").hangs)
		caller, w := n.caller(t)
		ctx := testbed.Timeout(t, time.Second)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://orders/7", nil)
		require.NoError(t, err)
		_, err = answer(caller, request)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = w.Pick(discovery.RoundRobin)
		require.NoError(t, err)
	})
}

func TestErrorsSayWhy(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		register(t, n.Client(), discovery.Instance[string]{Name: "orders", ID: "no port", Address: "a"})
		caller, w := n.caller(t)
		_, err := get(caller)
		require.ErrorIs(t, err, discovery.ErrNoInstance)
		closed := &body{}
		for _, url := range []string{"https://orders/7", "ftp://orders/7"} {
			request, err := http.NewRequest(http.MethodPost, url, closed)
			require.NoError(t, err)
			_, err = answer(caller, request)
			require.ErrorIs(t, err, framework.ErrBadArgument, url)
		}
		require.Equal(t, 2, closed.times)
		_, err = httpclient.New[string](nil, discovery.RoundRobin, nil)
		require.ErrorIs(t, err, framework.ErrBadArgument)
		_, err = httpclient.New(w, nil)
		require.ErrorIs(t, err, framework.ErrBadArgument)

		b := n.start(t, "b")
		b.kill()
		synctest.Wait() // the watch has it
		_, err = get(caller)
		require.ErrorContains(t, err, "connection refused")
		_, err = get(caller)
		require.ErrorIs(t, err, discovery.ErrNoInstance, "it is down")
	})
}

// body counts how often it is closed.
type body struct{ times int }

func (*body) Read([]byte) (int, error) { return 0, io.EOF }
func (b *body) Close() error           { b.times++; return nil }

// seen is a base that notes what it was asked to send.
type seen struct{ urls []string }

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	s.urls = append(s.urls, r.URL.String())
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
}

// refuses is a base that notes whom it was asked to call.
type refuses struct{ hosts []string }

func (r *refuses) RoundTrip(request *http.Request) (*http.Response, error) {
	r.hosts = append(r.hosts, request.URL.Host)
	return nil, errors.New("refused")
}

func TestEachTryGoesToAnotherInstance(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		for _, id := range []string{"a", "b", "c"} {
			register(t, n.Client(), discovery.Instance[string]{Name: "orders", ID: id, Address: id, Port: 80})
		}
		// an instance is down after two errors
		d, err := discovery.New[string](n.Client(), "/services")
		require.NoError(t, err)
		w, err := d.Watch(t.Context(), "orders")
		require.NoError(t, err)
		defer w.Close()
		base := &refuses{}
		last := func(among []*discovery.Instance[string]) int {
			return slices.IndexFunc(among, func(i *discovery.Instance[string]) bool {
				return !slices.ContainsFunc(among, func(o *discovery.Instance[string]) bool { return o.ID > i.ID })
			})
		}
		transport, err := httpclient.New(w, last, httpclient.WithBase(base))
		require.NoError(t, err)
		_, err = get(&http.Client{Transport: transport})
		require.ErrorContains(t, err, "refused")
		require.Equal(t, []string{"c:80", "b:80", "a:80"}, base.hosts)
	})
}

func TestHTTPSUsesTheSSLPortAndAnswersAreReturned(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		register(t, n.Client(), discovery.Instance[string]{Name: "orders", ID: "1", Address: "::1", Port: 80, SSLPort: 443})
		_, w := n.caller(t)
		base := &seen{}
		transport, err := httpclient.New(w, discovery.RoundRobin, httpclient.WithBase(base))
		require.NoError(t, err)
		for _, scheme := range []string{"http", "https"} {
			answer, err := (&http.Client{Transport: transport}).Get(scheme + "://orders/7?q=1")
			require.NoError(t, err)
			require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
			require.NoError(t, answer.Body.Close())
		}
		require.Equal(t, []string{"http://[::1]:80/7?q=1", "https://[::1]:443/7?q=1"}, base.urls)

		named := httpclient.DefaultBase()
		named.TLSClientConfig = &tls.Config{ServerName: "orders.example"}
		named.DialContext = n.dial
		transport, err = httpclient.New(w, discovery.RoundRobin, httpclient.WithBase(named))
		require.NoError(t, err)
		_, err = (&http.Client{Transport: transport}).Get("https://orders/7")
		require.ErrorContains(t, err, "connection refused", "it was tried")
	})
}
