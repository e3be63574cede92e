package httpclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/httpclient"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// A caller's mistake must not take an instance from all other callers.
func TestRoundTrip_ARequestThatCannotBeSent(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	body := func(r *http.Request, text string, length int64) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), length
	}
	for name, c := range map[string]struct {
		spoil func(r *http.Request)
		want  error // nil: any
	}{
		"header":         {func(r *http.Request) { r.Header.Set("X-Text", "two\nlines") }, framework.ErrBadArgument},
		"name":           {func(r *http.Request) { r.Header["a header"] = []string{"1"} }, framework.ErrBadArgument},
		"empty":          {func(r *http.Request) { r.Header[""] = []string{"1"} }, framework.ErrBadArgument},
		"query":          {func(r *http.Request) { r.URL.RawQuery = "q=a\nb" }, nil},
		"method":         {func(r *http.Request) { r.Method = "GE T" }, nil},
		"trailer":        {func(r *http.Request) { body(r, "x", -1); r.Trailer = http.Header{"A b": nil} }, nil},
		"trailer of TE":  {func(r *http.Request) { body(r, "x", -1); r.Trailer = http.Header{"Content-Length": nil} }, nil},
		"body too short": {func(r *http.Request) { body(r, "abc", 10) }, nil},
		"body too long":  {func(r *http.Request) { body(r, "abc", 2) }, nil},
		"aborted body": {func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("part"), iotest.ErrReader(errAborted)))
		}, errAborted},
		//lint:ignore SA1019 http.Client sets it for its Timeout
		"cancelled": {func(r *http.Request) { r.Cancel = closed }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, n *network) {
				n.start(t, "a")
				caller, w := n.caller(t)
				request := testbed.Must(http.NewRequest(http.MethodPost, "http://orders/7", nil))
				c.spoil(request)
				_, err := answer(caller, request)
				require.Error(t, err)
				if c.want != nil {
					require.ErrorIs(t, err, c.want)
				}
				time.Sleep(time.Second) // virtual time, in which the server ends its work
				require.NoError(t, testbed.Err(w.Pick(discovery.RoundRobin)))
			})
		})
	}
}

var errAborted = errors.New("the upload was aborted")

// With a context of the caller nothing says how long an answer may take; http.Client.Timeout does.
func TestRoundTrip_AnInstanceThatHangs(t *testing.T) {
	for _, c := range []struct {
		name     string
		body     io.Reader
		context  bool // the caller's context ends
		reported bool
	}{
		{"no body", nil, false, true},
		{"a body that was sent", strings.NewReader("text"), false, true},
		{"a body that the caller has not written", hangs{}, false, false},
		{"a context", nil, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(t *testing.T, n *network) {
				close(n.start(t, "a").hangs)
				caller, w := n.caller(t)
				ctx := t.Context()
				if c.context {
					ctx = testbed.Timeout(t, time.Second)
				} else {
					caller.Timeout = time.Second
				}
				request := testbed.Must(http.NewRequestWithContext(ctx, http.MethodPut, "http://orders/7", c.body))
				require.ErrorIs(t, testbed.Err(answer(caller, request)), context.DeadlineExceeded)
				_, err := w.Pick(discovery.RoundRobin)
				if c.reported {
					require.ErrorIs(t, err, discovery.ErrNoInstance)
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}

// hangs is an upload whose client writes nothing.
type hangs struct{}

func (hangs) Read([]byte) (int, error) {
	time.Sleep(time.Minute) // virtual time
	return 0, io.EOF
}

// The error of a failed dial in the body is not the instance's.
func TestRoundTrip_ABodyWhoseReadIsAFailedDial(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		n.start(t, "a")
		n.start(t, "b")
		caller, w := n.caller(t)
		reads := 0
		body := func() (io.ReadCloser, error) {
			return io.NopCloser(reader(func([]byte) (int, error) {
				reads++
				return 0, &net.OpError{Op: "dial", Err: errors.New("upstream")}
			})), nil
		}
		request := testbed.Must(http.NewRequest(http.MethodPost, "http://orders/7", nil))
		request.Body, _ = body()
		request.GetBody = body
		require.ErrorContains(t, testbed.Err(answer(caller, request)), "upstream")
		require.Equal(t, 1, reads)
		synctest.Wait()
		time.Sleep(time.Second) // virtual time, in which the server ends its work
		require.NoError(t, testbed.Err(w.Pick(discovery.RoundRobin)))
	})
}

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// service starts an HTTP server, registers it, and returns a Watch of it.
func service(t *testing.T, start func(http.Handler) *httptest.Server, instances func(host string, port int) []discovery.Instance[string]) (*discovery.Watch[string], *httptest.Server) {
	t.Helper()
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host+r.RequestURI) }))
	t.Cleanup(s.Close)
	address := s.Listener.Addr().(*net.TCPAddr)
	client := testbed.NewClient(t, zktest.NewServer(t).Servers())
	for _, i := range instances(address.IP.String(), address.Port) {
		register(t, client, i)
	}
	return watch(t, client), s
}

func onlySSL(host string, port int) []discovery.Instance[string] {
	return []discovery.Instance[string]{{Name: "orders", Address: host, SSLPort: port}}
}

func TestRoundTrip_AProxyIsAskedForTheInstance(t *testing.T) {
	w, s := service(t, httptest.NewServer, func(host string, port int) []discovery.Instance[string] {
		return []discovery.Instance[string]{{Name: "orders", Address: host, Port: port}}
	})
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.RequestURI }))
	defer proxy.Close()
	address := testbed.Must(url.Parse(proxy.URL))
	base := &http.Transport{Proxy: http.ProxyURL(address)}
	defer base.CloseIdleConnections()
	answer, err := through(t, w, base).Get("http://orders/a%2Fb?q=1")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, s.URL+"/a%2Fb?q=1", <-asked)
	require.Nil(t, httpclient.DefaultBase().Proxy, "the environment has no effect")
}

// observed is a RoundTripper of the caller's around another one.
type observed struct{ http.RoundTripper }

func TestRoundTrip_TheNameOfACertificateNeverComesFromZooKeeper(t *testing.T) {
	// The service's certificate is for example.com and 127.0.0.1.
	w, s := service(t, httptest.NewTLSServer, onlySSL)
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for name, c := range map[string]struct {
		base func(*http.Transport) http.RoundTripper
		set  string
		want bool
	}{
		"no name":             {func(t *http.Transport) http.RoundTripper { return t }, "", false},
		"no name, wrapped":    {func(t *http.Transport) http.RoundTripper { return observed{t} }, "", false},
		"right name":          {func(t *http.Transport) http.RoundTripper { return t }, "example.com", true},
		"an address as name":  {func(t *http.Transport) http.RoundTripper { return t }, "127.0.0.1", true},
		"right name, wrapped": {func(t *http.Transport) http.RoundTripper { return observed{t} }, "example.com", true},
	} {
		// Spring calls http://orders by https as well.
		for _, scheme := range []string{"http", "https"} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: c.set}}
				defer base.CloseIdleConnections()
				request := testbed.Must(http.NewRequest(http.MethodGet, scheme+"://orders/7", nil))
				text, err := answer(through(t, w, c.base(base)), request)
				if c.want {
					require.NoError(t, err)
					require.Equal(t, "orders/7", text)
				} else {
					require.ErrorIs(t, err, framework.ErrBadArgument)
				}
				require.NoError(t, testbed.Err(w.Pick(discovery.RoundRobin)), "it is not the instance's fault")
			})
		}
	}
}

// A server whose certificate is wrong has not got the request: it is repeated, whatever its method.
func TestRoundTrip_ARequestWithoutATLSSessionIsRepeated(t *testing.T) {
	w, s := service(t, httptest.NewTLSServer, func(host string, port int) []discovery.Instance[string] {
		return append(onlySSL(host, port), onlySSL("localhost", port)...)
	})
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	base := &http.Transport{TLSClientConfig: &tls.Config{ServerName: "other.example", RootCAs: roots}}
	defer base.CloseIdleConnections()
	var hosts []string
	client := through(t, w, roundTripper(func(r *http.Request) (*http.Response, error) {
		hosts = append(hosts, r.URL.Hostname())
		return base.RoundTrip(r)
	}))
	_, err := client.Post("https://orders/7", "text/plain", strings.NewReader("x"))
	require.ErrorContains(t, err, "certificate")
	require.ElementsMatch(t, []string{"127.0.0.1", "localhost"}, hosts)
}
