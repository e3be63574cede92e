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
	d := testbed.Must(discovery.New[string](client, "/services"))
	return testbed.Must(d.Register(t.Context(), i))
}

// watch returns a watch of the service that is closed when the test ends.
func watch(t *testing.T, client *framework.Client, opts ...discovery.Option) *discovery.Watch[string] {
	t.Helper()
	d := testbed.Must(discovery.New[string](client, "/services", opts...))
	w := testbed.Must(d.Watch(t.Context(), "orders"))
	t.Cleanup(func() { w.Close() })
	return w
}

// through returns an HTTP client of the service that sends by base.
func through(t *testing.T, w *discovery.Watch[string], base http.RoundTripper) *http.Client {
	t.Helper()
	transport, err := httpclient.New(w, discovery.RoundRobin, httpclient.WithBase(base))
	require.NoError(t, err)
	return &http.Client{Transport: transport}
}

// caller returns an HTTP client of the service in this network. One error takes an instance down.
func (n *network) caller(t *testing.T) (*http.Client, *discovery.Watch[string]) {
	t.Helper()
	w := watch(t, n.Client(), discovery.WithDownAfter(1, time.Hour))
	base := httpclient.DefaultBase()
	base.DialContext = n.dial
	t.Cleanup(base.CloseIdleConnections)
	return through(t, w, base), w
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
				request := testbed.Must(http.NewRequest(c.method, "http://orders/7", c.body))
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

func TestErrorsSayWhy(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		register(t, n.Client(), discovery.Instance[string]{Name: "orders", ID: "no port", Address: "a"})
		caller, w := n.caller(t)
		require.ErrorIs(t, testbed.Err(get(caller)), discovery.ErrNoInstance)
		closed := &body{}
		for _, url := range []string{"https://orders/7", "ftp://orders/7"} {
			request := testbed.Must(http.NewRequest(http.MethodPost, url, closed))
			require.ErrorIs(t, testbed.Err(answer(caller, request)), framework.ErrBadArgument, url)
		}
		require.Equal(t, 2, closed.times)
		_, err := httpclient.New[string](nil, discovery.RoundRobin, nil)
		require.ErrorIs(t, err, framework.ErrBadArgument)
		require.ErrorIs(t, testbed.Err(httpclient.New(w, nil)), framework.ErrBadArgument)

		b := n.start(t, "b")
		b.kill()
		synctest.Wait() // the watch has it
		require.ErrorContains(t, testbed.Err(get(caller)), "connection refused")
		require.ErrorIs(t, testbed.Err(get(caller)), discovery.ErrNoInstance, "it is down")
	})
}

// body counts how often it is closed.
type body struct{ times int }

func (*body) Read([]byte) (int, error) { return 0, io.EOF }
func (b *body) Close() error           { b.times++; return nil }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEachOfThreeTriesGoesToAnotherInstance(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		for _, id := range []string{"a", "b", "c", "d"} {
			register(t, n.Client(), discovery.Instance[string]{Name: "orders", ID: id, Address: id, Port: 80})
		}
		var hosts []string
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			hosts = append(hosts, r.URL.Host)
			return nil, errors.New("refused")
		})
		last := func(among []*discovery.Instance[string]) int {
			return slices.IndexFunc(among, func(i *discovery.Instance[string]) bool {
				return !slices.ContainsFunc(among, func(o *discovery.Instance[string]) bool { return o.ID > i.ID })
			})
		}
		// an instance is down after two errors
		transport := testbed.Must(httpclient.New(watch(t, n.Client()), last, httpclient.WithBase(base)))
		require.ErrorContains(t, testbed.Err(get(&http.Client{Transport: transport})), "refused")
		require.Equal(t, []string{"d:80", "c:80", "b:80"}, hosts)
	})
}

func TestHTTPSUsesTheSSLPortAndAnswersAreReturned(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		register(t, n.Client(), discovery.Instance[string]{Name: "orders", ID: "1", Address: "::1", Port: 80, SSLPort: 443})
		_, w := n.caller(t)
		var urls []string
		unavailable := through(t, w, roundTripper(func(r *http.Request) (*http.Response, error) {
			urls = append(urls, r.URL.String())
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
		}))
		for _, scheme := range []string{"http", "https"} {
			answer, err := unavailable.Get(scheme + "://orders/7?q=1")
			require.NoError(t, err)
			require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
			require.NoError(t, answer.Body.Close())
		}
		require.Equal(t, []string{"http://[::1]:80/7?q=1", "https://[::1]:443/7?q=1"}, urls)

		named := httpclient.DefaultBase()
		named.TLSClientConfig = &tls.Config{ServerName: "orders.example"}
		named.DialContext = n.dial
		_, err := through(t, w, named).Get("https://orders/7")
		require.ErrorContains(t, err, "connection refused", "it was tried")
	})
}
